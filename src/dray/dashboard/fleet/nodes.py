"""One node as the page is told it: its devices, what device plugins offer there, and how all of it sums up. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dray.allocation.cluster.cluster_dump import is_device_resource
from dray.api.core import Node
from dray.api.quantity import ZERO, Quantity
from dray.dashboard.fleet.model import SHARED, DeviceView, NodeView, ResourceView, Summary
from dray.semantics.devices import DeviceStatus, totals
from dray.semantics.taints import DeviceHealth

HOLLOW: Final = "dray.internal/hollow"
"""The label of nodes without a machine behind them."""

Use = Mapping[str, Mapping[str, Quantity]]
"""By pod: what it takes of the node."""


def node_view(name: str, node: Node | None, devices: Sequence[DeviceView], use: Use) -> NodeView:
    """A node without a Node object (its slices came first, or stayed behind) is not ready."""
    return NodeView(
        name=name,
        ready=name == SHARED or (node is not None and is_ready(node)),
        hollow=node is not None and is_hollow(node),
        shared=name == SHARED,
        summary=summary_of(devices),
        devices=tuple(devices),
        resources=tuple(_resources(node, use)) if node is not None else (),
    )


def is_ready(node: Node) -> bool:
    """As its kubelet says."""
    return any(one.type == "Ready" and one.status == "True" for one in node.status.conditions)


def is_hollow(node: Node) -> bool:
    """Whether no machine is behind it."""
    return node.metadata.labels.get(HOLLOW) == "true"


def summary_of(devices: Iterable[DeviceView]) -> Summary:
    """Whole devices; one of which partitions are held is held."""
    devices = tuple(devices)
    cut = {one.parent for one in devices if one.parent and one.holders}
    whole = totals(_status(one, is_cut=one.id in cut) for one in devices if one.parent is None)
    parts = totals(_status(one) for one in devices if one.parent is not None)
    return Summary(
        devices=whole.devices,
        free=whole.free,
        held=whole.held,
        unhealthy=whole.unhealthy,
        tainted=whole.tainted,
        partitions=parts.devices,
        partitions_held=parts.held,
    )


def _status(one: DeviceView, *, is_cut: bool = False) -> DeviceStatus:
    is_held = bool(one.holders) or is_cut
    return DeviceStatus(DeviceHealth(one.health), one.available and not is_cut, is_held)


def _resources(node: Node, use: Use) -> Iterable[ResourceView]:
    """What was offered once and is gone has no capacity any more, but may be in use."""
    names = {*node.status.capacity, *node.status.allocatable, *(name for one in use.values() for name in one)}
    for name in sorted(filter(is_device_resource, names)):
        users = sorted((pod, one[name]) for pod, one in use.items() if one.get(name))
        yield ResourceView(
            name=name,
            capacity=str(node.status.capacity.get(name, ZERO)),
            allocatable=str(node.status.allocatable.get(name, ZERO)),
            used=str(sum((amount for _, amount in users), ZERO)),
            pods=tuple((pod, str(amount)) for pod, amount in users),
        )


def node_details(node: Node) -> dict[str, Any]:
    """What only the node's own page shows."""
    return {
        "labels": dict(sorted(node.metadata.labels.items())),
        "created": node.metadata.creation_timestamp,
        "unschedulable": node.spec.unschedulable,
        "taints": [{"key": one.key, "value": one.value, "effect": one.effect} for one in node.spec.taints],
        "info": msgspec.to_builtins(node.status.node_info),
        "addresses": [{"type": one.type, "address": one.address} for one in node.status.addresses],
        "conditions": [
            {
                "type": one.type,
                "status": one.status,
                "reason": one.reason,
                "message": one.message,
                "time": one.last_transition_time,
            }
            for one in node.status.conditions
        ],
    }
