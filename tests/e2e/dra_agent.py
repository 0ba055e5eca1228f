"""`dray agent` as DRA driver on the real node: what tests ask for, what the node then says, and what is left behind."""

from __future__ import annotations

import contextlib
import fcntl
import json
import urllib.error
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dray.dra.claims.books import CHECKPOINT
from dray.dra.claims.locks import DIRECTORY as LOCKS
from dray.dra.claims.state import STATE_FORMAT, Phase
from dray.inventory.holds_file import Content
from dray.inventory.ledger import Door
from dray.runtime.files.checkpoint_format import Format
from dray.runtime.files.recent import Recent
from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.control_plane import ControlPlane
from dray.testing.kubernetes.images import BUSYBOX
from dray.testing.kubernetes.part import wait_until
from tests.e2e.agent_part import Agent, Config

Json = dict[str, Any]
SIM, GENERIC = "sim.dray.internal", "generic.dray.internal"
GPU, CUT, BIG = "example.com/gpu", "example.com/cut", "example.com/big"
GPUS = 8
STAYS = "trap 'exit 0' TERM; sleep 100000 & wait"
"""The end of a script of a pod that runs until it is deleted, and then ends at once."""
SHOWS = "ls /dev/dray-sim 2>/dev/null; env | grep -E '^(SIM|DRA)_' | sort"
TIMEOUT_S = 60.0
_GROUP = "/apis/resource.k8s.io/v1"
_KINDS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Namespace": "/api/v1/namespaces",
    "ResourceClaim": f"{_GROUP}/namespaces/{{}}/resourceclaims",
    "ResourceClaimTemplate": f"{_GROUP}/namespaces/{{}}/resourceclaimtemplates",
}


def sim_config(*faults: Json, doors: Json | None = None) -> Json:
    """GPUs, one that can be cut, and one of whose memory claims take parts; all through DRA."""
    devices = [
        {"name": "gpu", "count": GPUS, "resourceName": GPU},
        {
            "name": "cut",
            "resourceName": CUT,
            "partitions": [
                {"profile": "1g", "count": 7, "memory": "10Gi"},
                {"profile": "3g", "count": 2, "memory": "40Gi"},
            ],
        },
        {
            "name": "big",
            "resourceName": BIG,
            "capacity": {"memory": "192Gi"},
            "shared": {"memory": {"default": "24Gi", "step": "1Gi"}},
        },
    ]
    return {"dray": {"doors": doors or {"*": "dra"}, "sim": {"devices": devices, "faults": list(faults)}}}


# What is asked for


def of(resource: str, **more: Any) -> Json:
    """Of the simulated devices one that goes by this resource."""
    expression = f'device.attributes["{SIM}"].resource == "{resource}"'
    return {"deviceClassName": SIM, "selectors": [{"cel": {"expression": expression}}], **more}


def requests(config: Iterable[Json] = (), **wanted: Json) -> Json:
    """The spec of a claim: requests by their names."""
    named = [
        {"name": name, **(one if "firstAvailable" in one else {"exactly": one})}
        for name, one in wanted.items()
    ]
    return {"devices": {"requests": named, "config": list(config)}}


def opaque(**fields: Any) -> Json:
    """Parameters for the driver of simulated devices."""
    parameters = {"apiVersion": f"{SIM}/v1", "kind": "SimConfig", **fields}
    return {"opaque": {"driver": SIM, "parameters": parameters}}


def claim(name: str, spec: Json) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": spec,
    }


def template(name: str, spec: Json) -> Json:
    return {**claim(name, {"spec": spec}), "kind": "ResourceClaimTemplate"}


def container(script: str, *claims: str, name: str = "main", limits: Json | None = None) -> Json:
    """`claims` are names in the pod, or a name and a request: `device/one`."""
    pairs = [one.partition("/") for one in claims]
    named = [{"name": entry, **({"request": request} if request else {})} for entry, _, request in pairs]
    resources = {"claims": named, **({"limits": limits} if limits else {})}
    command = ["sh", "-c", script]
    return {
        "name": name,
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": command,
        "resources": resources,
    }


def pod(name: str, *containers: Json, namespace: str = "default", **claims: str) -> Json:
    """`claims` by their names in the pod: the name of a claim, or `template:NAME`."""
    entries = [
        {"name": key, "resourceClaimTemplateName": value.removeprefix("template:")}
        if value.startswith("template:")
        else {"name": key, "resourceClaimName": value}
        for key, value in claims.items()
    ]
    spec = {
        "hostNetwork": True,
        "restartPolicy": "Never",
        "containers": list(containers),
        "resourceClaims": entries,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def metadata_path(entry: str, request: str, *, driver: str = SIM, is_template: bool = True) -> str:
    """Where KEP-5304 puts the file about a request's devices."""
    kind = "resourceclaimtemplates" if is_template else "resourceclaims"
    return f"/var/run/kubernetes.io/dra-device-attributes/{kind}/{entry}/{request}/{driver}-metadata.json"


# The node


class DraNode:
    """The real node with an agent beside its kubelet. `created` are removed by `remove_all`.

    `agent` is replaced by a test that starts a newer one.
    """

    def __init__(self, cluster: Cluster, agent: Agent, state: Path) -> None:
        self.cluster, self.agent, self.state = cluster, agent, state
        self.created: list[tuple[str, str]] = []

    # Objects

    def create(self, *documents: Json) -> None:
        for document in documents:
            meta = document["metadata"]
            path = _KINDS[document["kind"]].format(meta.get("namespace", "default"))
            self.cluster.request("POST", path, document)
            self.created.append((document["kind"], f"{path}/{meta['name']}"))

    def find(self, kind: str, name: str, namespace: str = "default") -> Any:
        """None where there is none."""
        try:
            return self.cluster.request("GET", f"{_KINDS[kind].format(namespace)}/{name}")
        except urllib.error.HTTPError as error:
            with error:
                assert error.code == 404, error
            return None

    def delete(self, path: str) -> None:
        """Whatever is there; gracefully."""
        with contextlib.suppress(urllib.error.HTTPError):
            self.cluster.request("DELETE", path)

    def touch(self, name: str, value: str) -> None:
        """Change a pod a little: a kubelet that was refused asks again at once, and not after 10 to 15 seconds."""
        found = self.find("Pod", name)
        if found is not None:
            found["metadata"].setdefault("annotations", {})["touched"] = value
            with contextlib.suppress(urllib.error.HTTPError):  # it changed meanwhile, which is as good
                self.cluster.request("PUT", f"{_KINDS['Pod'].format('default')}/{name}", found)

    def delete_pod(self, name: str, namespace: str = "default") -> None:
        """Until it is gone."""
        path = f"{_KINDS['Pod'].format(namespace)}/{name}"
        self.delete(path)
        self.wait(lambda: self.find("Pod", name, namespace) is None, f"pod {name} to be gone")

    def run(self, manifest: Json) -> Json:
        """Until it runs."""
        self.create(manifest)
        meta = manifest["metadata"]
        found: Json = self.cluster.wait_pod(meta["name"], namespace=meta["namespace"])
        return found

    def printed(self, name: str, last: str = "", namespace: str = "default", where: str = "*") -> list[str]:
        """The lines of a running pod, as soon as there is one that is `last`, which is left out."""
        lines: list[str] = []

        def is_there() -> bool:
            with contextlib.suppress(Exception):
                lines[:] = self.cluster.pod_log(name, namespace, where).splitlines()
            return bool(lines) and (not last or lines[-1] == last)

        self.wait(is_there, f"what {name} prints")
        return lines[:-1] if last else lines

    def claims(self, namespace: str = "default") -> list[Json]:
        found: list[Json] = self.cluster.request("GET", _KINDS["ResourceClaim"].format(namespace))["items"]
        return found

    def allocated(self, name: str, namespace: str = "default") -> list[str]:
        """The devices of a claim."""
        found = self.find("ResourceClaim", name, namespace)
        allocation = found["status"].get("allocation") or {"devices": {"results": []}}
        return [one["device"] for one in allocation["devices"]["results"]]

    def claim_of(self, pod_name: str, entry: str, namespace: str = "default") -> str:
        """The claim that was made for a pod from a template."""
        status = self.find("Pod", pod_name, namespace)["status"]
        return str({one["name"]: one["resourceClaimName"] for one in status["resourceClaimStatuses"]}[entry])

    def events(self, reason: str, namespace: str = "default") -> list[Json]:
        items = self.cluster.request("GET", f"/api/v1/namespaces/{namespace}/events")["items"]
        return [one for one in items if one["reason"] == reason]

    # What the driver says

    def slices(self, driver: str = SIM) -> list[Json]:
        items = self.cluster.request("GET", f"{_GROUP}/resourceslices")["items"]
        return [one for one in items if one["spec"]["driver"] == driver]

    def devices(self, driver: str = SIM) -> dict[str, Json]:
        """As published."""
        return {one["name"]: one for each in self.slices(driver) for one in each["spec"].get("devices", [])}

    def taints(self, device: str, driver: str = SIM) -> list[str]:
        """Of a published device, as `key=value:effect`."""
        found = self.devices(driver).get(device, {}).get("taints", [])
        return sorted(f"{one['key']}={one.get('value', '')}:{one['effect']}" for one in found)

    # Waiting

    def wait(self, condition: Callable[[], bool], what: str, timeout: float = TIMEOUT_S) -> None:
        wait_until(condition, what, timeout, (self.agent.part,), poll=0.1)

    def wait_served(self, count: int | None = None, driver: str = SIM) -> None:
        """Until the kubelet has the driver and its devices are published."""
        self.agent.wait_told("registered", driver=driver)
        self.wait(lambda: len(self.devices(driver)) >= (count or 1), f"the slices of {driver}")

    def wait_released(self) -> None:
        """Until nothing is left of any claim."""
        with contextlib.suppress(Exception):
            self.wait(lambda: self.leftovers() == [], "everything to be given back", 30.0)
        left = self.leftovers()
        assert left == [], left

    # What is left

    def entries(self, driver: str = SIM) -> dict[str, Phase]:
        """The claims of the driver's checkpoint, those that were begun only now too: they wait for no disk."""
        path = self._data(driver) / CHECKPOINT
        state = Recent(path, STATE_FORMAT).read()
        if state is None:
            if not path.exists():
                return {}
            state = STATE_FORMAT.decode(path.read_bytes())
        return {one.claim.uid: one.phase for one in state.entries}

    def cdi_files(self) -> list[str]:
        found = (path for path in self._cdi.glob("*") if not path.is_dir())
        return sorted(path.name for path in found if "dray" in path.name)

    def held(self) -> list[str]:
        """What claims hold by the ledger."""
        content = Format(Content).decode((self.state / "holds").read_bytes())
        return sorted(f"{one.device} by {one.owner}" for one in content.holds if one.door is Door.DRA)

    def leftovers(self) -> list[str]:
        """Whatever a claim leaves on the machine."""
        found = [f"CDI file {name}" for name in self.cdi_files()] + [f"hold {one}" for one in self.held()]
        for driver in (SIM, GENERIC):
            found += [f"entry {uid} {phase}" for uid, phase in self.entries(driver).items()]
            found += [f"metadata {path.name}" for path in (self._cdi / f"{driver}_metadata").glob("*")]
            found += [
                f"lock {path.name}" for path in (self._data(driver) / LOCKS).glob("*") if is_locked(path)
            ]
        return found

    @property
    def _cdi(self) -> Path:
        return self.cluster.dirs.run / "cdi"

    def _data(self, driver: str) -> Path:
        return self.cluster.dirs.kubelet / "plugins" / driver

    def remove_all(self) -> None:
        """What was created, pods first; until pods are gone."""
        made, self.created = self.created, []
        for _, path in sorted(made, key=lambda one: (one[0] != "Pod", one[0] == "Namespace")):
            self.delete(path)
        pods = [path for kind, path in made if kind == "Pod"]
        self.wait(lambda: not any(self._is_there(path) for path in pods), "the pods to be gone")

    def _is_there(self, path: str) -> bool:
        try:
            self.cluster.request("GET", path)
        except urllib.error.HTTPError as error:
            with error:
                return error.code != 404
        return True


def is_locked(path: Path) -> bool:
    """Whether some process holds it now."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def access(cluster: Cluster) -> tuple[str, ...]:
    """Flags with which the agent finds the API server."""
    return (f"--kubeconfig={cluster.kubeconfig}", f"--node-name={cluster.node_name}")


@contextmanager
def dra_node(
    cluster: Cluster, name: str, state: Path, config: Config, flags: Iterable[str] = ()
) -> Iterator[DraNode]:
    """Served when entered. Left: pods are gone, nothing of any claim is left, and the API server is as before."""
    agent = Agent(cluster, name, state, config, (*access(cluster), *flags))
    node = DraNode(cluster, agent, state)
    try:
        node.wait_served()
        yield node
        node.remove_all()
        node.wait_released()
    finally:
        node.agent.part.stop(30.0)
        agent.part.stop(30.0)
        clean(cluster)
    assert node.agent.part.returncode == 0


def clean(plane: ControlPlane) -> None:
    """What an agent leaves at the API server when it ends: slices for its successor, and classes for good."""
    for driver in (SIM, GENERIC):
        plane.kubectl("delete", "resourceslices", f"--field-selector=spec.driver={driver}")
    plane.kubectl("delete", "deviceclasses", "-l", "app.kubernetes.io/managed-by=dray")
    plane.kubectl("delete", "configmap", "-n", "kube-system", "dray-classes", "--ignore-not-found")


def documents(text: str) -> list[Any]:
    """A stream of JSON documents."""
    decoder, found, rest = json.JSONDecoder(), [], text.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        found.append(value)
        rest = rest[end:].lstrip()
    return found
