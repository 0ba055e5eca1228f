"""Random machines with devices and pods that want them, and what our two managers make of them, in the oracle's words."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from dray.api.core.pod import Pod
from dray.errors import InvalidError, UnavailableError
from dray.kubelet.devices.checkpoint import CheckpointWriter
from dray.kubelet.devices.contract import CHECKPOINT, Surroundings
from dray.kubelet.devices.grants import Grant, Grants
from dray.kubelet.devices.known import Device
from dray.kubelet.devices.manager import DeviceManager
from dray.kubelet.metrics import KubeletMetrics
from dray.kubelet.topology.hints import ResourceHints
from dray.kubelet.topology.manager import TopologyManager, containers_of
from dray.runtime.clock import FakeClock
from dray.runtime.metrics import Metrics
from dray.wire.gen.deviceplugin_v1beta1_pb2 import ContainerAllocateResponse, DevicePluginOptions
from tests.go_oracle import Answer, Case
from tests.oracle_kubelet.settings import config_of, nodes_of, pod_of, random_setting

RESOURCES = ("one.example.com/gpu", "two.example.com/nic")


def device_case(seed: int) -> Case:
    """Mostly one or two pods: Go picks among equal devices by chance, so what later pods meet differs from run to run."""
    random = Random(seed)
    case: Case = {"name": f"devices-{seed}", **random_setting(random, most_nodes=6)}
    names = RESOURCES[: random.choice((1, 1, 2))]
    case["resources"] = {name: _resource(random, case["nodes"]) for name in names}
    case["held"] = [held for name in names for held in _held(random, name, case["resources"][name])]
    fails = {one["fails"] for one in case["resources"].values()}
    count = 1 if fails != {""} else random.choice((1, 1, 2, 3))
    case["pods"] = [_pod(random, f"pod-{at}", case["resources"]) for at in range(count)]
    case |= {"isStarting": False, "running": []}
    if random.random() < 0.25:
        _admit_again(random, case)
    return case


def _admit_again(random: Random, case: Case) -> None:
    """The first pod was here before a restart: its container has devices, perhaps not as many as it asks for now.

    Without init containers: after a restart the kubelet rejects running pods that have some, we do not.
    """
    pod = case["pods"][0]
    pod["init"] = []
    wanted = pod["containers"][0]
    taken = {one for held in case["held"] for ids in held["ids"].values() for one in ids}
    for name, count in wanted["limits"].items():
        free = [one for one in case["resources"][name]["devices"] if one["id"] not in taken]
        own = random.sample(free, min(len(free), count if random.random() < 0.8 else 1))
        ids: dict[str, list[str]] = {}
        for device in own:
            for node in device["nodes"] or [-1]:
                ids.setdefault(str(node), []).append(device["id"])
        if own:
            case["held"].append(
                {"pod": pod["uid"], "container": wanted["name"], "resource": name, "ids": ids}
            )
    case["isStarting"] = random.random() < 0.5
    if random.random() < 0.5:
        case["running"] = [[pod["uid"], wanted["name"]]]


def _resource(random: Random, nodes: list[int]) -> Case:
    devices = [
        {"id": f"d{at}", "healthy": random.random() < 0.9, "nodes": _near(random, nodes)}
        for at in range(random.choice((1, 2, 3, 4, 6, 8)))
    ]
    if random.random() < 0.1:
        for device in devices:
            device["nodes"] = None
    ids = [f"d{at}" for at in range(len(devices) + 2)]
    preferred = random.sample(ids, random.randint(0, len(ids))) if random.random() < 0.5 else None
    fails = random.choice(("allocate", "preferred")) if random.random() < 0.08 else ""
    return {"devices": devices, "preferred": preferred, "fails": fails}


def _near(random: Random, nodes: list[int]) -> list[int] | None:
    """Mostly one node; also none, two, one that the machine does not have, or the kernel's word for no node."""
    kind = random.random()
    if kind < 0.06:
        return random.choice((None, []))
    if kind < 0.12:
        return sorted(random.sample(nodes, min(2, len(nodes))))
    if kind < 0.15:
        return [random.choice((-1, 40))]
    return [random.choice(nodes)]


def _held(random: Random, name: str, resource: Case) -> list[Case]:
    """Of pods that run since before."""
    held: list[Case] = []
    for at, device in enumerate(resource["devices"]):
        if random.random() < 0.2:
            nodes = device["nodes"] or [-1]
            ids = {str(node): [device["id"]] for node in nodes}
            held.append({"pod": f"old-{at}", "container": "c", "resource": name, "ids": ids})
    return held


def _pod(random: Random, uid: str, resources: Case) -> Case:
    inits = [f"i{at}" for at in range(random.choice((0, 0, 0, 1, 2)))]
    names = [f"c{at}" for at in range(random.choice((1, 1, 2)))]
    return {
        "uid": uid,
        "init": [_container(random, name, resources, is_init=True) for name in inits],
        "containers": [_container(random, name, resources) for name in names],
    }


def _container(random: Random, name: str, resources: Case, *, is_init: bool = False) -> Case:
    """Nothing is asked of a resource without a healthy device: the kubelet refuses that, we do not."""
    limits: dict[str, int] = {}
    for resource, offered in resources.items():
        count = random.choice((0, 1, 1, 2, 2, 3, 4))
        is_healthy = any(device["healthy"] for device in offered["devices"])
        if random.random() < 0.8 and (count or is_healthy):
            limits[resource] = count
    return {"name": name, "sidecar": is_init and random.random() < 0.3, "limits": limits}


@dataclass
class ScriptedPlugin:
    """A plugin that answers what the case says, and notes what it was asked."""

    script: Case
    asked: list[Case] = field(default_factory=list)

    @property
    def options(self) -> DevicePluginOptions:
        return DevicePluginOptions(get_preferred_allocation_available=self.script["preferred"] is not None)

    async def allocate(self, ids: Sequence[str]) -> ContainerAllocateResponse:
        if self.script["fails"] == "allocate":
            raise UnavailableError("no devices today")
        return ContainerAllocateResponse()

    async def preferred(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        self.asked.append({"available": list(available), "mustInclude": list(must_include), "size": size})
        if self.script["fails"] == "preferred":
            raise UnavailableError("no answer")
        preferred: list[str] = self.script["preferred"]
        return preferred

    async def pre_start(self, ids: Sequence[str]) -> None:
        return None


def our_devices(case: Case) -> Answer:
    """The answer of our managers, as the oracle would write it."""
    metrics = KubeletMetrics(Metrics())
    try:
        topology = TopologyManager(config_of(case), nodes_of(case), FakeClock(), metrics.topology)
    except InvalidError as error:
        return {"name": case["name"], "error": str(error)}
    with TemporaryDirectory() as directory:
        active = [held["pod"] for held in case["held"]]
        devices = _device_manager(case, Path(directory) / CHECKPOINT, topology, metrics, active)
        topology.add_provider(devices)
        plugins = [_connect(devices, name, script) for name, script in case["resources"].items()]
        answers = [_admit(topology, devices, plugins, pod_of(pod), active) for pod in case["pods"]]
        devices.close()
    return {"name": case["name"], "error": "", "pods": answers}


def _device_manager(
    case: Case, checkpoint: Path, topology: TopologyManager, metrics: KubeletMetrics, active: list[str]
) -> DeviceManager:
    grants = Grants()
    for held in case["held"]:
        ids = {int(node): tuple(some) for node, some in held["ids"].items()}
        grants.add(Grant(held["pod"], held["container"], held["resource"], ids))
    checkpoint.write_bytes(CheckpointWriter().encode(grants, {}))
    around = Surroundings(
        checkpoint=checkpoint,
        active_pods=lambda: active,
        sources_ready=lambda: not case["isStarting"],
        was_running=lambda pod, container: [pod, container] in case["running"],
        affinity=topology.affinity,
        numa_nodes=tuple(case["nodes"]),
        clock=FakeClock(),
        metrics=metrics,
    )
    manager = DeviceManager(around)
    assert manager.load() is None
    return manager


def _connect(manager: DeviceManager, name: str, script: Case) -> ScriptedPlugin:
    plugin = ScriptedPlugin(script)
    manager.connected(name, plugin)
    devices = [
        Device(one["id"], one["healthy"], tuple(one["nodes"] or ()), one["nodes"] is not None)
        for one in script["devices"]
    ]
    manager.listed(name, devices, plugin)
    return plugin


def _admit(
    topology: TopologyManager,
    devices: DeviceManager,
    plugins: Sequence[ScriptedPlugin],
    pod: Pod,
    active: list[str],
) -> Answer:
    uid = pod.metadata.uid
    active.append(uid)
    hints = {"": _written(devices.pod_topology_hints(pod))}
    for container in containers_of(pod):
        hints[container.name] = _written(devices.topology_hints(pod, container))
    rejection = asyncio.run(topology.admit(pod))
    if rejection is not None:
        active.remove(uid)
    asked = [question for plugin in plugins for question in plugin.asked]
    for plugin in plugins:
        plugin.asked.clear()
    return {
        "admitted": rejection is None,
        "reason": "" if rejection is None else rejection.reason,
        "message": "" if rejection is None else rejection.message,
        "affinity": {one.name: list(topology.affinity(uid, one.name)) for one in containers_of(pod)},
        "hints": hints,
        "grants": {one.name: _granted(devices, uid, one.name) for one in containers_of(pod)},
        "asked": asked,
    }


def _written(hints: ResourceHints) -> Case:
    return {name: None if some is None else [list(hint) for hint in some] for name, some in hints.items()}


def _granted(devices: DeviceManager, uid: str, container: str) -> dict[str, dict[str, int]]:
    """By resource and NUMA nodes, how many."""
    held = devices.container_devices(uid, container)
    return {
        name: dict(Counter(",".join(map(str, sorted(one.nodes))) for one in some))
        for name, some in held.items()
    }


def device_view(answer: Answer) -> Answer:
    """What is compared. Go takes resources in any order, so what a rejected pod got before is left to chance.

    So are the devices that are left after Go picked for the first time: from then on questions are compared by their sizes.
    """
    if answer["error"]:
        return {"error": answer["error"]}
    return {"error": "", "pods": [_pod_view(pod, is_first=not at) for at, pod in enumerate(answer["pods"])]}


def _pod_view(pod: Answer, *, is_first: bool) -> Answer:
    said = {key: pod[key] for key in ("admitted", "reason", "message", "hints")}
    if pod["admitted"]:
        said |= {"affinity": pod["affinity"], "grants": pod["grants"]}
        has_ids = is_first and len(pod["affinity"]) == 1
        said["asked"] = sorted((one if has_ids else _sizes(one) for one in pod["asked"]), key=str)
    return said


def _sizes(question: Case) -> Case:
    return {key: len(value) if isinstance(value, list) else value for key, value in question.items()}
