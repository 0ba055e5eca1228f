"""State files change hands between the real kubelet and Dray's: what one wrote, the other goes on with.

First Dray's device and claim managers alone, in this process, so that their files can be compared; then the whole program
`dray kubelet` and the real kubelet take turns on one node.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dray.api.codec import view
from dray.api.core import Pod
from dray.api.resource import ResourceClaim
from dray.errors import UnavailableError
from dray.kubelet.claims.manager import ClaimManager
from dray.kubelet.claims.state_file import FILE_NAME as CLAIMS
from dray.kubelet.devices.checkpoint import CheckpointWriter, decode
from dray.kubelet.devices.contract import CHECKPOINT
from dray.kubelet.devices.grants import Grant
from dray.kubelet.devices.known import Device
from dray.kubelet.metrics import KubeletMetrics
from dray.kubelet.podresources import PodResourcesServer, RateLimit, Sources
from dray.kubelet.runtimes.cri_requests import cgroup_parent
from dray.kubelet.runtimes.records import make_id
from dray.kubelet.views import ClaimsSeen
from dray.runtime.metrics import Metrics
from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.part import Part, wait_until
from dray.wire.connect import connect
from dray.wire.cri import RuntimeClient
from dray.wire.gen import cri_v1_pb2 as cri
from dray.wire.gen import dra_v1_pb2 as pb
from dray.wire.gen.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse
from dray.wire.gen.podresources_v1_pb2 import ListPodResourcesRequest, ListPodResourcesResponse
from dray.wire.podresources import SOCKET, PodResourcesClient
from tests.e2e.agent_part import Agent
from tests.e2e.cgroups import cgroups_like
from tests.e2e.test_cluster import CLAIM, CLASS, DRIVER, pod
from tests.kubelet.claims.world import Api, Driver, World
from tests.kubelet.devices.small_node import SmallNode, SmallPlugin
from tests.waiting import PATIENCE

Json = dict[str, Any]
Answer = dict[str, list[Any]]
GPU, VARIABLE = "example.com/swapped", "SIM_RESOURCE_EXAMPLE_COM_SWAPPED"
SIM = {"dray": {"sim": {"devices": [{"name": "gpu", "count": 4, "resourceName": GPU, "numaNodes": 2}]}}}
PODS = ("swap-two", "swap-claim")
REST = "swap-rest"
COMPLAINTS = ("checkpoint is corrupted", "failing to read checkpoint", "DRA state file")


def gpus(count: int) -> Json:
    return {"limits": {GPU: str(count)}}


@pytest.fixture
def driver(cluster: Cluster) -> Iterator[Part]:
    (cluster.dirs.kubelet / "plugins" / DRIVER).mkdir(exist_ok=True)
    program, access = cluster.tools.path("test-driver"), f"--kubeconfig={cluster.kubeconfig}"
    part = cluster.spawn("swap-driver", program, access, "kubelet-plugin", f"--node-name={cluster.node_name}")
    for document in (CLASS, CLAIM):
        cluster.kubectl("apply", "-f", "-", input=json.dumps(document))
    yield part
    cluster.kubectl("delete", "pod", "--ignore-not-found", *PODS, REST)
    cluster.kubectl("delete", "resourceclaim", "peer")
    part.stop()
    cluster.kubectl("delete", "deviceclass", "peer")
    cluster.kubectl("delete", "resourceslices", f"--field-selector=spec.driver={DRIVER}")


@pytest.fixture
def agent(cluster: Cluster, tmp_path: Path) -> Iterator[Agent]:
    made = Agent(cluster, "agent-swap", tmp_path, SIM)
    yield made
    made.part.stop()


def start_pods(cluster: Cluster, **spec: Any) -> dict[str, Json]:
    """One pod with two containers, one with a claim and a device. They go on until they are deleted."""
    two = pod("swap-two", "env; exec sleep 1000", hostNetwork=True, resources=gpus(1), **spec)
    second = {**two["spec"]["containers"][0], "name": "second", "resources": gpus(2)}
    two["spec"]["containers"].append(second)
    resources = {"claims": [{"name": "device"}], **gpus(1)}
    claims = [{"name": "device", "resourceClaimName": "peer"}]
    spec |= {"hostNetwork": True, "resources": resources, "resourceClaims": claims}
    one = pod("swap-claim", "env; exec sleep 1000", **spec)
    for manifest in (two, one):
        cluster.kubectl("apply", "-f", "-", input=json.dumps(manifest))
    return {name: cluster.wait_pod(name) for name in PODS}


async def ask(cluster: Cluster) -> ListPodResourcesResponse:
    async with connect(cluster.dirs.kubelet / SOCKET, timeout=PATIENCE) as channel:
        return await PodResourcesClient(channel).list(ListPodResourcesRequest())


def shown(answer: ListPodResourcesResponse) -> Answer:
    """The answer for our pods, in an order of its own: a kubelet has none."""
    found: Answer = {}
    for entry in answer.pod_resources:
        if entry.name in (*PODS, REST):
            for container in entry.containers:
                devices = [
                    (one.resource_name, list(one.device_ids), [node.ID for node in one.topology.nodes])
                    for one in container.devices
                ]
                claims = [one.SerializeToString(deterministic=True) for one in container.dynamic_resources]
                found[f"{entry.name}/{container.name}"] = [sorted(devices), sorted(claims)]
    return found


@dataclass
class ThePods:
    """A kubelet's pods, as the API server has them."""

    pods: list[Pod]

    def active_pods(self) -> list[Pod]:
        return self.pods

    def known_pods(self) -> list[Pod]:
        return self.pods


async def our_answer(node: SmallNode, claims: ClaimManager, pods: list[Pod]) -> Answer:
    metrics = KubeletMetrics(Metrics()).pod_resources
    sources = Sources(ThePods(pods), node.manager, ClaimsSeen(claims))
    server = PodResourcesServer(sources, RateLimit(node.clock), metrics)
    return shown(await server.list(ListPodResourcesRequest()))


async def read_by_ours(directory: Path, pods: list[Pod]) -> tuple[Answer, dict[str, str]]:
    """What our managers make of a kubelet's files: the answer to List, and each container's variable."""
    node = SmallNode(directory)
    node.active = {one.metadata.uid for one in pods}
    assert node.aside is None, node.aside
    with World(directory).manager() as claims:
        answer = await our_answer(node, claims, pods)
    variables = {}
    for one in pods:
        for container in one.spec.containers:
            options = await node.manager.run_options(one, container)
            variables[f"{one.metadata.name}/{container.name}"] = dict(options.edits.env)[VARIABLE]
    node.manager.close()
    return answer, variables


async def written_by_ours(
    directory: Path, pods: list[Pod], grants: list[Grant], claim: ResourceClaim, prepared: list[pb.Device]
) -> Answer:
    """Our managers give the same pods the same devices, from nothing. `directory` holds the files then."""
    node = SmallNode(directory)
    node.active = {one.metadata.uid for one in pods}
    plugin = SmallPlugin(preferred=True)
    node.plug(GPU, [Device(f"gpu-{number}", True, (number // 2,), True) for number in range(4)], plugin)
    for one in pods:
        for container in one.spec.containers:
            (grant,) = (
                each
                for each in grants
                if (each.pod_uid, each.container) == (one.metadata.uid, container.name)
            )
            plugin.wish = sorted(grant.ids)
            plugin.response = ContainerAllocateResponse(envs={VARIABLE: ",".join(sorted(grant.ids))})
            await node.manager.allocate(one, container)
    api, driver = Api(), Driver(DRIVER, directory / "driver")
    api.add(claim)
    driver.on_prepare = lambda request: pb.NodePrepareResourcesResponse(
        claims={each.uid: pb.NodePrepareResourceResponse(devices=prepared) for each in request.claims}
    )
    async with driver.serving(), World(directory, api, active=node.active).running(driver) as claims:
        for one in pods:
            await claims.prepare(one)
        answer = await our_answer(node, claims, pods)
    node.manager.close()
    return answer


def grants_in(path: Path) -> list[Grant]:
    return list(decode(path.read_bytes()).grants)


def claims_in(path: Path) -> list[Json]:
    found: list[Json] | None = json.loads(json.loads(path.read_text())["Data"])["ClaimInfoStateList"]
    return found or []


def prepared_in(path: Path) -> list[pb.Device]:
    (entry,) = claims_in(path)
    return [
        pb.Device(
            pool_name=one["PoolName"],
            device_name=one["DeviceName"],
            request_names=one["RequestNames"],
            cdi_device_ids=one["CDIDeviceIDs"],
            share_id=one["ShareID"],
        )
        for one in entry["DriverState"][DRIVER]["Devices"]
    ]


def answers(cluster: Cluster) -> Answer:
    try:
        return shown(asyncio.run(ask(cluster)))
    except UnavailableError:
        return {}


def containers(document: Mapping[str, Any]) -> list[tuple[str, int]]:
    return [(one["containerID"], one["restartCount"]) for one in document["status"]["containerStatuses"]]


def test_the_kubelet_and_our_managers_go_on_with_each_others_files(
    cluster: Cluster, agent: Agent, driver: Part, tmp_path: Path
) -> None:
    agent.wait_serves({GPU: 4})
    documents = start_pods(cluster)
    pods = [view(document, Pod) for document in documents.values()]
    truth = answers(cluster)
    assert sorted(truth) == ["swap-claim/main", "swap-two/main", "swap-two/second"]
    assert truth["swap-claim/main"][1], "the claim is not told"
    theirs = cluster.dirs.kubelet

    # Theirs, read by ours.
    copy = tmp_path / "copy"
    (copy / "device-plugins").mkdir(parents=True)
    shutil.copy(theirs / "device-plugins" / CHECKPOINT, copy / "device-plugins")
    shutil.copy(theirs / CLAIMS, copy)
    told, variables = asyncio.run(read_by_ours(copy, pods))
    assert told == truth
    for key, value in variables.items():
        name, _, container = key.partition("/")
        wait_until(lambda: VARIABLE in cluster.pod_log(name, container=container), "its output", 30.0)  # noqa: B023 - called here
        assert f"{VARIABLE}={value}" in cluster.pod_log(name, container=container).splitlines()

    # Ours, under theirs. No plugin is there: what it answers after its start can only be from the file.
    claim = view(
        cluster.request("GET", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/peer"),
        ResourceClaim,
    )
    ours = tmp_path / "ours"
    ours.mkdir()
    grants = grants_in(copy / "device-plugins" / CHECKPOINT)
    assert asyncio.run(written_by_ours(ours, pods, grants, claim, prepared_in(copy / CLAIMS))) == truth
    agent.part.stop()
    cluster.stop_kubelet()
    lines_before = len(cluster.kubelet.log.read_text().splitlines())
    shutil.copyfile(ours / "device-plugins" / CHECKPOINT, theirs / "device-plugins" / CHECKPOINT)
    shutil.copyfile(ours / CLAIMS, theirs / CLAIMS)
    cluster.start_kubelet()
    wait_until(
        lambda: sorted(answers(cluster)) == sorted(truth), "the pods to be listed", 30.0, (cluster.kubelet,)
    )
    assert answers(cluster) == truth
    cluster.wait_node()
    log = cluster.kubelet.log.read_text().splitlines()[lines_before:]
    assert [line for line in log if any(words in line for words in COMPLAINTS)] == []

    # It goes on with them: nothing was restarted, and what is held is not given again.
    agent.part.start()
    agent.wait_serves({GPU: 4})
    assert {name: containers(cluster.wait_pod(name)) for name in PODS} == {
        name: containers(document) for name, document in documents.items()
    }
    assert answers(cluster) == truth
    cluster.kubectl("delete", "pod", "swap-claim", "--wait=true", timeout=60)
    (left,) = truth["swap-claim/main"][0]
    cluster.kubectl(
        "apply",
        "-f",
        "-",
        input=json.dumps(pod(REST, "env; exec sleep 1000", hostNetwork=True, resources=gpus(1))),
    )
    cluster.wait_pod(REST)
    wait_until(lambda: VARIABLE in cluster.pod_log(REST), "the pod's output", 30.0)
    assert f"{VARIABLE}={left[1][0]}" in cluster.pod_log(REST).splitlines()
    wait_until(lambda: not claims_in(theirs / CLAIMS), "the claim of our file to be given back", 30.0)


def test_a_wrong_checksum_would_be_complained_about(cluster: Cluster) -> None:
    """So the silence above says something."""
    path = cluster.dirs.kubelet / "device-plugins" / CHECKPOINT
    cluster.stop_kubelet()
    lines_before = len(cluster.kubelet.log.read_text().splitlines())
    whole = path.read_text() if path.exists() else CheckpointWriter().encode((), {}).decode()
    document = json.loads(whole)
    path.write_text(json.dumps(document | {"Checksum": document["Checksum"] ^ 1}))
    cluster.start_kubelet()
    wait_until(
        lambda: COMPLAINTS[0] in "".join(cluster.kubelet.log.read_text().splitlines()[lines_before:]),
        "a complaint",
        30.0,
        (cluster.kubelet,),
    )
    cluster.stop_kubelet()
    path.write_text(whole)
    cluster.start_kubelet()
    cluster.wait_node()


@pytest.fixture
def state(cluster: Cluster, tmp_path: Path) -> Iterator[Path]:
    """For a `dray kubelet`; the cgroups of its pods, which it leaves for the next one, are removed."""
    directory = tmp_path / "dray-kubelet"
    yield directory
    cluster.stop_kubelet()  # it removes containers, too, and of two who remove one containerd refuses the second
    asyncio.run(end_containers(cluster))
    cluster.start_kubelet()
    cluster.wait_node()
    group = cgroup_parent(make_id(directory / "containers")[:12], cri.CGROUPFS)[1:]

    def are_gone() -> bool:
        for path in cgroups_like(group):
            with suppress(OSError):  # the last container is still on its way out
                path.rmdir()
        return not cgroups_like(group)

    wait_until(are_gone, "the cgroups to be empty", 30.0)


def dray_kubelet(cluster: Cluster, state: Path) -> Part:
    """In the place of the real one: its identity, its directories, its containerd."""
    words = [f"--kubeconfig={cluster.node_kubeconfig}", f"--node-name={cluster.node_name}", "--runtime=cri"]
    words += [f"--state-dir={state}", "--metrics-address=none", "--listen=none"]
    return cluster.spawn("dray-kubelet", sys.executable, "-m", "dray", "kubelet", *words)


async def end_containers(cluster: Cluster) -> None:
    """All of the node, as by a reboot."""
    async with connect(cluster.dirs.run / "containerd/containerd.sock", timeout=PATIENCE) as channel:
        runtime = RuntimeClient(channel)
        for one in (await runtime.list_pod_sandbox(cri.ListPodSandboxRequest())).items:
            await runtime.stop_pod_sandbox(cri.StopPodSandboxRequest(pod_sandbox_id=one.id))
            await runtime.remove_pod_sandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=one.id))


def starts(cluster: Cluster, granted: Answer) -> dict[str, int]:
    """How often each container was started with exactly these devices."""
    found = {}
    for key, (devices, _) in granted.items():
        name, _, container = key.partition("/")
        wanted = {one for _, ids, _ in devices for one in ids}
        lines = cluster.pod_log(name, container=container).splitlines()
        told = [line.removeprefix(f"{VARIABLE}=") for line in lines if line.startswith(f"{VARIABLE}=")]
        found[key] = sum(set(one.split(",")) == wanted for one in told)
    return found


def wait_started(cluster: Cluster, granted: Answer, times: int, kubelet: Part) -> None:
    wanted = dict.fromkeys(granted, times)
    what = f"every container to be started {times} times with its devices"
    wait_until(lambda: starts(cluster, granted) == wanted, what, 60.0, (kubelet,), poll=0.2)


def test_the_kubelet_and_dray_kubelet_take_turns_on_one_node(
    cluster: Cluster, state: Path, agent: Agent, driver: Part
) -> None:
    """Each runs containers of its own. `dray kubelet` does not see those of the other, so they are ended before it comes;
    the kubelet finds Dray's, which are not as it would make them, and replaces them."""
    theirs = cluster.dirs.kubelet
    agent.wait_serves({GPU: 4})
    start_pods(cluster, restartPolicy="Always")
    truth = answers(cluster)
    assert sorted(truth) == ["swap-claim/main", "swap-two/main", "swap-two/second"]
    wait_started(cluster, truth, 1, cluster.kubelet)

    cluster.stop_kubelet()
    asyncio.run(end_containers(cluster))
    ours = dray_kubelet(cluster, state)
    try:
        wait_started(cluster, truth, 2, ours)
        assert answers(cluster) == truth
        assert cluster.pod_log("swap-claim").splitlines().count("user_colour=blue") == 2
        agent.wait_serves({GPU: 4})
        # It goes on with them: what the kubelet had prepared is given back, and its device is free, no other.
        (left,) = truth["swap-claim/main"][0]
        cluster.kubectl("delete", "pod", "swap-claim", "--wait=true", timeout=60)
        wait_until(lambda: not claims_in(theirs / CLAIMS), "the claim to be given back", 30.0, (ours,))
        spec = {"hostNetwork": True, "resources": gpus(1), "restartPolicy": "Always"}
        rest = pod(REST, "env; exec sleep 1000", **spec)
        cluster.kubectl("apply", "-f", "-", input=json.dumps(rest))
        cluster.wait_pod(REST)
        granted = answers(cluster)
        assert granted == {
            **{key: value for key, value in truth.items() if key.startswith("swap-two/")},
            f"{REST}/main": [[left], []],
        }
    finally:
        ours.stop(30.0)
    assert ours.returncode == 0

    before = starts(cluster, granted)
    cluster.start_kubelet()
    cluster.wait_node()
    agent.wait_serves({GPU: 4})
    again = {key: count + 1 for key, count in before.items()}
    wait_until(lambda: starts(cluster, granted) == again, "containers of its own", 60.0, (cluster.kubelet,))
    assert answers(cluster) == granted
