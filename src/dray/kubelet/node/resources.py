"""What the machine has for pods, and whether one more pod fits. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from dray.api.core import Pod
from dray.api.quantity import Quantity
from dray.kubelet.rejection import Rejection
from dray.semantics.requests import pod_requests

CPU, MEMORY, STORAGE, PODS = "cpu", "memory", "ephemeral-storage", "pods"
_NATIVE = (CPU, MEMORY, STORAGE, PODS)
_WHOLE = 10**9
Amounts = Mapping[str, int]
"""In billionths, as `Quantity.nano`."""


@dataclass(frozen=True, slots=True)
class NodeResources:
    """As in a Node's status."""

    capacity: Mapping[str, Quantity]
    allocatable: Mapping[str, Quantity]


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """What the device manager counts. `deleted` were there, and their plugins are gone for good."""

    capacity: Mapping[str, int] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    deleted: tuple[str, ...] = ()


def is_extended(name: str) -> bool:
    """Whether a resource is a device plugin's, and not Kubernetes' own."""
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def node_resources(
    machine: Mapping[str, Quantity], devices: DeviceCapacity, before: Mapping[str, Quantity]
) -> NodeResources:
    """`before` is the capacity that the Node has: extended resources that somebody else put there stay.

    A deleted resource is set to 0, as a kubelet does: schedulers may have it in their caches.
    """
    capacity = {name: value for name, value in before.items() if is_extended(name)} | dict(machine)
    capacity |= {name: Quantity.from_int(0) for name in devices.deleted}
    capacity |= {name: Quantity.from_int(count) for name, count in devices.capacity.items()}
    allocatable = dict(capacity)
    allocatable |= {name: Quantity.from_int(count) for name, count in devices.allocatable.items()}
    return NodeResources(dict(sorted(capacity.items())), dict(sorted(allocatable.items())))


class Used:
    """What some pods ask for together: only those that came or went since the last time are looked at."""

    def __init__(self) -> None:
        self._pods: dict[int, Pod] = {}
        self._total: dict[str, int] = {}

    def by(self, pods: Iterable[Pod]) -> Amounts:
        """Pods never change, so the same object asks for the same. Read it before the next call."""
        now = {id(pod): pod for pod in pods}
        for key in now.keys() ^ self._pods.keys():
            sign = 1 if key in now else -1
            asked = _wanted(now.get(key) or self._pods[key])
            _add(self._total, {name: sign * amount for name, amount in asked.items()})
        self._pods = now
        return self._total


def why_not(
    pod: Pod,
    allocatable: Mapping[str, Quantity],
    used: Amounts,
    *,
    ignored: Collection[str] = (),
    held: Mapping[str, int] | None = None,
) -> Rejection | None:
    """Whether the pod fits beside what others use; the first that does not, as a kubelet says it.

    `ignored` are backed by claims. `held` raises what a resource offers to what is given out already, so that pods which
    have their devices still fit while their plugin is away.
    """
    for name, amount in sorted(_wanted(pod).items()):
        if name in ignored or amount == 0 or (is_extended(name) and name not in allocatable):
            continue
        offered = allocatable[name].nano if name in allocatable else 0
        offered = max(offered, (held or {}).get(name, 0) * _WHOLE)
        if used.get(name, 0) + amount > offered:
            return _out_of(name, amount, used.get(name, 0), offered)
    return None


def _out_of(name: str, wanted: int, used: int, offered: int) -> Rejection:
    scale = 1000 if name == CPU else 1
    wanted, used, offered = (amount * scale // _WHOLE for amount in (wanted, used, offered))
    return Rejection(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {wanted}, used: {used}, capacity: {offered}",
    )


def _wanted(pod: Pod) -> dict[str, int]:
    return {name: amount.nano for name, amount in pod_requests(pod).items()} | {PODS: _WHOLE}


def _add(total: dict[str, int], more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
