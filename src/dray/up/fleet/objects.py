"""What the API server holds of a hollow node: its Node, its Lease and its slices. Pure, and the same after a restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dray import __version__
from dray.api.core import Node
from dray.api.meta import ObjectMeta, format_micro_time, format_time
from dray.api.quantity import Quantity
from dray.api.resource.device_class import CELDeviceSelector, DeviceClass, DeviceClassSpec, DeviceSelector
from dray.dra.slices.layout import PoolContents, SliceContents, Version, lay_out
from dray.dra.slices.view import pool_devices
from dray.drivers.sim.hollow import hollow_pools
from dray.drivers.sim.profile import HOLLOW_LABEL, HollowGroup, SimProfile
from dray.hardware.facts import Problem

Json = dict[str, Any]

LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40
HOLLOW: Final = {HOLLOW_LABEL: "true"}
SELECTOR: Final = f"{HOLLOW_LABEL}=true"
ZONE: Final = "topology.kubernetes.io/zone"
_CAPACITY: Final = {
    "cpu": Quantity("64"),
    "memory": Quantity("512Gi"),
    "ephemeral-storage": Quantity("1Ti"),
    "pods": Quantity("250"),
}
_INFO: Final = {
    "machineID": "",
    "systemUUID": "",
    "bootID": "",
    "kernelVersion": "hollow",
    "osImage": "hollow node: nothing runs here",
    "containerRuntimeVersion": "hollow://dray",
    "kubeletVersion": f"v1.36.0-dray.{__version__}",
    "kubeProxyVersion": "",
    "operatingSystem": "linux",
    "architecture": "amd64",
}


@dataclass(frozen=True, slots=True)
class HollowNode:
    """Node `number` of a group."""

    group: HollowGroup
    number: int

    @property
    def name(self) -> str:
        """As the Node's."""
        return self.group.node_name(self.number)


@dataclass(frozen=True, slots=True)
class PoolSlices:
    """All slices of one driver on a node; `problems` say what the API does not take of it."""

    driver: str
    slices: tuple[SliceContents, ...]
    problems: tuple[Problem, ...] = ()


def fleet_nodes(profile: SimProfile) -> dict[str, HollowNode]:
    """All hollow nodes by name, in the order of the profile."""
    nodes = (HollowNode(group, number) for group in profile.groups for number in range(group.count))
    return {node.name: node for node in nodes}


def pool_slices(node: HollowNode, version: Version) -> tuple[PoolSlices, ...]:
    """By driver, laid out as an API server of this version wants it."""
    found = []
    for pool in hollow_pools(node.group, node.number):
        shown = pool_devices(pool.devices, pool.driver)
        layout = lay_out(PoolContents(shown.items, pool.counters), version)
        found.append(PoolSlices(pool.driver, layout.slices, (*shown.problems, *layout.problems)))
    return tuple(found)


def device_classes(profile: SimProfile) -> tuple[DeviceClass, ...]:
    """Those that come with the fleet's drivers."""
    return tuple(
        DeviceClass(
            metadata=ObjectMeta(name=one.name),
            spec=DeviceClassSpec(
                selectors=(DeviceSelector(cel=CELDeviceSelector(expression=one.expression)),)
            ),
        )
        for one in profile.classes
    )


def node_labels(node: HollowNode) -> dict[str, str]:
    """Those of every node, and the group's."""
    zone = node.group.zone(node.number)
    return {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **({ZONE: zone} if zone else {}),
        **node.group.labels,
        **HOLLOW,
    }


def node_document(node: HollowNode, now: datetime) -> Json:
    """A new Node with its status. Servers that drop the status at creation get it by itself (`is_as_wanted`)."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": node_labels(node)},
        "status": node_status(node, now),
    }


def node_status(node: HollowNode, now: datetime) -> Json:
    """No address and no port: there is no kubelet to be asked for logs."""
    amounts = {name: str(amount) for name, amount in _capacity(node).items()}
    moment = format_time(now)
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "HollowNode",
        "message": "a hollow node is always ready",
        "lastHeartbeatTime": moment,
        "lastTransitionTime": moment,
    }
    return {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [ready],
        "addresses": [{"type": "Hostname", "address": node.name}],
        "nodeInfo": dict(_INFO),
    }


def status_change(node: HollowNode, stored: Node, now: datetime) -> Json:
    """A merge patch that makes the status right, also where the node once had more resources."""
    status = node_status(node, now)
    for part, before in (("capacity", stored.status.capacity), ("allocatable", stored.status.allocatable)):
        status[part] = {**dict.fromkeys(before.keys() - status[part].keys()), **status[part]}
    return {"status": status}


def is_labelled(node: HollowNode, stored: Node) -> bool:
    """Whether the Node has all labels that it should; others may be there too."""
    return node_labels(node).items() <= stored.metadata.labels.items()


def is_as_wanted(node: HollowNode, stored: Node) -> bool:
    """Whether the Node's status says what it should: it was never written, or somebody called the node silent, if not."""
    ready = any(one.type == "Ready" and one.status == "True" for one in stored.status.conditions)
    wanted = _capacity(node)
    return ready and stored.status.capacity == wanted and stored.status.allocatable == wanted


def lease_spec(name: str, now: datetime) -> Json:
    """The sign of life of a node."""
    return {
        "holderIdentity": name,
        "leaseDurationSeconds": LEASE_SECONDS,
        "renewTime": format_micro_time(now),
    }


def _capacity(node: HollowNode) -> Mapping[str, Quantity]:
    plugins = {name: Quantity.from_int(count) for name, count in node.group.resources.items()}
    return dict(sorted({**_CAPACITY, **node.group.capacity, **plugins}.items()))
