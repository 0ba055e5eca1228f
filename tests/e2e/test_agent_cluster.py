"""The agent's side towards a real API server, with the rights of docs/reference/agent.md and no others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from dray.agent.cluster import AgentCluster, ClusterSide, agent_cluster
from dray.agent.config import Served
from dray.agent.config.config_place import KUBEVIRTS, ConfigMapPlace, KubeVirtPlace, Place
from dray.agent.events import Reason
from dray.api.codec import encode, load_documents, load_values
from dray.api.core import Event
from dray.api.kinds import CONFIG_MAPS, EVENTS, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.client.access import ClusterAccess, User
from dray.client.client import Client
from dray.client.http import Request
from dray.client.kubeconfig import find_access
from dray.client.requests import PatchType, Selection
from dray.dra.parcels import ClaimRef
from dray.errors import DeniedError, Error, NotFoundError
from dray.runtime.clock import SystemClock
from dray.runtime.tasks import running
from dray.testing.kubernetes.control_plane import ControlPlane
from dray.testing.kubernetes.part import Part
from tests.waiting import PATIENCE, until, wait_until

PAGE = Path("docs/reference/agent.md")
NODE, OTHER, DRIVER = "node-1", "node-2", "sim.dray.internal"
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
}
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kubevirts.kubevirt.io}
spec:
  group: kubevirt.io
  names: {kind: KubeVirt, listKind: KubeVirtList, plural: kubevirts, singular: kubevirt, shortNames: [kv]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""


def documents() -> Iterator[dict[str, Any]]:
    """The objects of the page, in its order."""
    for text in re.findall(r"^```yaml\n(apiVersion: .*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        for one in load_documents(text, str(PAGE)):
            yield dict(one.raw)


@dataclass
class Scene:
    """`admin` may do everything; `access` is the agent's."""

    plane: ControlPlane
    admin: Client
    state: Path
    token: str = field(default="", repr=False)

    @property
    def access(self) -> ClusterAccess:
        """As the agent's pod on this node has it."""
        return replace(find_access(self.plane.kubeconfig, environ={}), user=User(token=self.token))

    async def mount_token(self) -> None:
        """What a kubelet does for a pod: a token that says on which node it is."""
        pod = {
            "metadata": {"name": "dray-agent-x", "namespace": "dray-system"},
            "spec": {
                "nodeName": NODE,
                "serviceAccountName": "dray-agent",
                "containers": [{"name": "agent", "image": "none"}],
            },
        }
        made = await self.admin.create(PODS, pod)
        bound = {"kind": "Pod", "apiVersion": "v1", "name": "dray-agent-x", "uid": made.metadata.uid}
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"boundObjectRef": bound},
        }
        path = "/api/v1/namespaces/dray-system/serviceaccounts/dray-agent/token"
        answer = await self.admin.raw(Request("POST", path, body=encode(request)))
        self.token = answer["status"]["token"]

    async def create(self, document: dict[str, Any]) -> None:
        path = PATHS[document["kind"]].format(document["metadata"].get("namespace", ""))
        await self.admin.raw(Request("POST", path, body=encode(document)))

    async def events(self, reason: str) -> list[Event]:
        found = [one for one in (await self.admin.list(EVENTS)).items if one.reason == reason]
        return sorted(found, key=lambda one: (one.involved_object.kind, one.message))

    async def label(self, **labels: str) -> None:
        await self.admin.patch(NODES, NODE, {"metadata": {"labels": labels}})

    async def configure(self, configuration: Any) -> None:
        change = [{"op": "replace", "path": "/spec/configuration", "value": configuration}]
        await self.admin.patch(KUBEVIRTS, "kubevirt", change, PatchType.JSON, namespace="kubevirt")


@pytest.fixture(scope="module")
def filled(killable: ControlPlane) -> Iterator[tuple[ControlPlane, str]]:
    """The objects of the page, KubeVirt's kind, two nodes; and the token of the agent on one of them."""

    async def fill() -> str:
        async with Client(find_access(killable.kubeconfig, environ={})) as admin:
            scene = Scene(killable, admin, Path())
            await scene.create(load_values(DEFINITION)[0].value)
            await scene.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubevirt"}})
            for document in documents():
                await scene.create(document)
            for name in (NODE, OTHER):
                await admin.create(NODES, {"metadata": {"name": name}})
            await scene.mount_token()
            return scene.token

    yield killable, asyncio.run(fill())
    for name in (NODE, OTHER):
        killable.request("DELETE", f"/api/v1/nodes/{name}")


@pytest.fixture
async def scene(filled: tuple[ControlPlane, str], tmp_path: Path) -> AsyncIterator[Scene]:
    """Labels, settings and events as at the beginning."""
    plane, token = filled
    async with Client(find_access(plane.kubeconfig, environ={})) as admin:
        found = Scene(plane, admin, tmp_path, token)
        await found.label(gpu="a")
        with contextlib.suppress(NotFoundError):
            await admin.delete(CONFIG_MAPS, "dray-agent", namespace="kubevirt")
        for event in (await admin.list(EVENTS)).items:
            await admin.delete(EVENTS, event.metadata.name, namespace=event.metadata.namespace)
        with contextlib.suppress(NotFoundError):
            await admin.delete(KUBEVIRTS, "kubevirt", namespace="kubevirt")
        meta = {"name": "kubevirt", "namespace": "kubevirt"}
        kubevirt = with_kind({"metadata": meta, "spec": {"configuration": MDEVS}})
        await eventually(lambda: admin.create(KUBEVIRTS, kubevirt))
        yield found


def with_kind(document: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", **document}


async def eventually(attempt: Callable[[], Awaitable[object]]) -> None:
    """Until it does not fail: definitions and policies take a moment to be in force."""

    async def is_done() -> bool:
        with contextlib.suppress(Error, AssertionError):
            await attempt()
            return True
        return False

    await until(is_done)


MDEVS: dict[str, Any] = {
    "mediatedDevicesConfiguration": {
        "nodeMediatedDeviceTypes": [
            {"nodeSelector": {"gpu": "a"}, "mediatedDeviceTypes": ["nvidia-2"]},
            {"nodeSelector": {"gpu": "b"}, "mediatedDeviceTypes": ["nvidia-3"]},
        ]
    }
}
BESIDE: dict[str, Any] = {
    "permittedHostDevices": {
        "pciHostDevices": [
            {"pciVendorSelector": "10de:1eb8", "resourceName": "nvidia.com/ours", "externalResourceProvider": True},
            {"pciVendorSelector": "10de:20b0", "resourceName": "nvidia.com/theirs"},
        ]
    }
}  # fmt: skip


class Agent:
    """What the agent would serve."""

    def __init__(self, cluster: AgentCluster) -> None:
        self.cluster, self.served = cluster, Served()

    async def run(self) -> None:
        self.served = self.cluster.config.load()
        async for served in self.cluster.config.follow(SystemClock(), self.served):
            self.served = served

    async def wait_types(self, *types: str) -> None:
        await wait_until(lambda: self.served.mdev_types.desired == types)

    async def wait_resources(self, *resources: str) -> None:
        await wait_until(lambda: self.served.resources == resources)

    async def wait_refusals(self, count: int) -> None:
        await wait_until(lambda: self.cluster.config.refusals >= count)


@asynccontextmanager
async def agent(scene: Scene, config: Place, additions: ConfigMapPlace | None = None) -> AsyncIterator[Agent]:
    side = ClusterSide(config, NODE, scene.state, scene.access, additions)
    async with agent_cluster(side, SystemClock()) as cluster:
        found = Agent(cluster)
        async with running(found.run(), name="agent"):
            yield found


async def test_kubevirts_settings_and_the_nodes_labels_are_followed_over_outages(scene: Scene) -> None:
    additions = {"metadata": {"name": "dray-agent", "namespace": "kubevirt"}, "data": {"a": "dray: {role: replace}"}}  # fmt: skip
    await scene.admin.create(CONFIG_MAPS, additions)
    place, beside = KubeVirtPlace("kubevirt", "kubevirt"), ConfigMapPlace("kubevirt", "dray-agent")
    async with agent(scene, place, beside) as found:
        await found.wait_types("nvidia-2")
        await scene.label(gpu="b")
        await found.wait_types("nvidia-3")
        await asyncio.to_thread(scene.plane.kill_apiserver)
        await asyncio.to_thread(scene.plane.start_apiserver)
        await scene.label(gpu="a")
        await found.wait_types("nvidia-2")
        assert found.cluster.config.refusals == 0
        await asyncio.to_thread(scene.plane.kill_apiserver)
    async with agent(scene, place, beside) as found:
        await found.wait_types("nvidia-2")
        assert found.cluster.node is not None and found.cluster.node.ref is None
        await asyncio.to_thread(scene.plane.start_apiserver)
        ref = await asyncio.wait_for(found.cluster.node.wait_ref(), PATIENCE)
        assert ref.uid == (await scene.admin.get(NODES, NODE)).metadata.uid
        await scene.label(gpu="b")
        await found.wait_types("nvidia-3")


async def test_beside_kubevirt_and_what_is_said_of_bad_edits(scene: Scene) -> None:
    async with agent(scene, KubeVirtPlace("kubevirt", "kubevirt")) as found:
        await scene.configure(BESIDE)
        await found.wait_resources("nvidia.com/ours")
        assert not found.served.mdev_types.managed and found.served.generic == ()
        await scene.configure({"permittedHostDevices": {"pciHostDevices": [{"pciVendorSelector": "x"}]}})
        await found.wait_refusals(1)
        await scene.admin.delete(KUBEVIRTS, "kubevirt", namespace="kubevirt")
        await found.wait_refusals(2)
        assert found.served.resources == ("nvidia.com/ours",)
    told = await scene.events("ConfigRejected")
    about = [(one.involved_object.kind, one.involved_object.name) for one in told]
    assert about == [("KubeVirt", "kubevirt"), ("Node", NODE), ("Node", NODE)]
    assert "pciHostDevices[0].pciVendorSelector" in told[0].message
    shown = await asyncio.to_thread(scene.plane.kubectl, "describe", "node", NODE)
    assert "ConfigRejected" in shown and "dray-agent" in shown
    async with agent(scene, KubeVirtPlace("kubevirt", "kubevirt")) as found:
        await found.wait_resources("nvidia.com/ours")


async def test_the_program_starts_follows_and_ends(scene: Scene) -> None:
    config = json.loads(scene.plane.kubeconfig.read_text())
    config["users"] = [{**one, "user": {"token": scene.token}} for one in config["users"]]
    (scene.state / "kubeconfig").write_text(json.dumps(config))
    (scene.state / "plugins").mkdir()
    argv = [sys.executable, "-m", "dray", "agent", "--config", "kubevirt:kubevirt/kubevirt"]
    argv += [
        "--kubeconfig",
        str(scene.state / "kubeconfig"),
        "--node-name",
        NODE,
        "--metrics-address",
        "none",
    ]
    argv += ["--device-plugin-dir", str(scene.state / "plugins"), "--kubelet-dir", str(scene.state)]
    argv += ["--cdi-dir", str(scene.state / "cdi"), "--state-dir", str(scene.state / "state")]
    program = Part("agent", argv, scene.state)
    await asyncio.to_thread(program.start)
    try:
        await _logged(program, "msg=serving")
        await scene.configure(BESIDE)
        await _logged(program, "configuration in force")
        await scene.configure({"virtualMachineInstancesPerNode": -1})
        await _logged(program, "configuration refused")
        await eventually(lambda: _told(scene))
    finally:
        await asyncio.to_thread(program.stop)


async def _logged(program: Part, text: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while text not in program.log.read_text():
            program.require_running()
            await asyncio.sleep(0.05)


async def _told(scene: Scene) -> None:
    about = [one.involved_object.kind for one in await scene.events("ConfigRejected")]
    assert about == ["KubeVirt", "Node"]


async def test_the_rights_are_enough_and_no_more(scene: Scene) -> None:
    text = {"a": "virtualMachineInstancesPerNode: 7"}
    for name in ("dray-agent", "other"):
        document = {"metadata": {"name": name, "namespace": "dray-system"}, "data": text}
        await scene.admin.create(CONFIG_MAPS, document)
    async with agent(scene, ConfigMapPlace("dray-system", "dray-agent")) as found:
        await found.wait_resources(
            *[f"devices.kubevirt.io/{name}" for name in ("kvm", "sev", "tun", "vhost-net")]
        )
        assert found.served.generic[0].count == 7
        claim = await _allocated(scene.admin, NODE, "mine")
        found.cluster.events.tell_claim(claim, Reason.DEVICE_PREPARED, "gpu-0")
    (told,) = await scene.events("DevicePrepared")
    assert told.involved_object.uid == claim.uid
    async with Client(scene.access) as client:
        await _refused(client, claim, await _allocated(scene.admin, OTHER, "theirs"))
        await _own_slices(client, scene.admin)


async def _refused(client: Client, mine: ClaimRef, theirs: ClaimRef) -> None:
    await _set_device(client, mine, DRIVER)
    for claim, driver in ((theirs, DRIVER), (mine, "other.example.com")):
        with pytest.raises(Error, match="resourceclaims/driver"):  # as an invalid field
            await _set_device(client, claim, driver)
    with pytest.raises(Error, match="resourceclaims/binding"):
        change: dict[str, Any] = {"status": {"allocation": None}}
        await client.patch(RESOURCE_CLAIMS, mine.name, change, namespace=mine.namespace, subresource="status")
    for attempt in (
        client.get(CONFIG_MAPS, "other", namespace="dray-system"),
        client.list(CONFIG_MAPS, Selection("dray-system")),
        client.patch(NODES, NODE, {"metadata": {"labels": {"x": "y"}}}),
        client.delete(RESOURCE_CLAIMS, mine.name, namespace=mine.namespace),
        client.list(EVENTS),
        client.raw(Request("GET", "/api/v1/secrets")),
        client.raw(Request("GET", "/apis/kubevirt.io/v1/kubevirts")),
    ):
        with pytest.raises(DeniedError):
            await attempt


async def _own_slices(client: Client, admin: Client) -> None:
    """The policy takes a moment to be in force."""
    refusal = ""
    async with asyncio.timeout(PATIENCE):
        while not refusal:
            try:
                await client.create(RESOURCE_SLICES, _slice(OTHER))
            except Error as error:
                refusal = str(error)
            else:
                await admin.delete(RESOURCE_SLICES, f"s-{OTHER}")
                await asyncio.sleep(0.2)
    assert f"the agent of node {NODE} may not write slices of {OTHER}" in refusal
    hijack = _slice(NODE)
    hijack["spec"]["pool"] = {"name": OTHER, "generation": 2**40, "resourceSliceCount": 1}
    with pytest.raises(Error, match=f"the agent of node {NODE} may not write to pool {OTHER}"):
        await client.create(RESOURCE_SLICES, hijack)
    made = await client.create(RESOURCE_SLICES, _slice(NODE))
    assert [one.metadata.name for one in (await client.list(RESOURCE_SLICES)).items] == [made.metadata.name]
    await client.delete(RESOURCE_SLICES, made.metadata.name)


def _slice(node: str) -> dict[str, Any]:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
    return {"metadata": {"name": f"s-{node}"}, "spec": spec}


async def _allocated(admin: Client, node: str, name: str) -> ClaimRef:
    """A claim with a device of that node, as a scheduler makes it."""
    devices = {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}
    document = {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}}
    made = await admin.create(RESOURCE_CLAIMS, document)
    results = [{"request": "r", "driver": one, "pool": node, "device": "gpu-0"} for one in (DRIVER, "other.example.com")]  # fmt: skip
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": terms}}
    await admin.patch(
        RESOURCE_CLAIMS, name, {"status": {"allocation": allocation}}, namespace="default", subresource="status"
    )  # fmt: skip
    return ClaimRef("default", name, made.metadata.uid)


async def _set_device(client: Client, claim: ClaimRef, driver: str) -> None:
    pool = NODE if claim.name == "mine" else OTHER
    entry = {"driver": driver, "pool": pool, "device": "gpu-0", "data": {"ready": True}}
    document = {"metadata": {"name": claim.name, "uid": claim.uid}, "status": {"devices": [entry]}}
    await client.apply(
        RESOURCE_CLAIMS, document, manager=driver, namespace=claim.namespace, subresource="status"
    )
