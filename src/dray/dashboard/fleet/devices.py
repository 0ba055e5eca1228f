"""The devices of one pool as the page is told them: what they are, how they are, who has them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dray.allocation.blocked import blocked_devices
from dray.api.resource.slice import Device, ResourceSlice
from dray.api.resource.taint_rule import DeviceTaintRule
from dray.api.taints import DeviceTaint
from dray.dashboard.fleet.model import DeviceId, DeviceView, HolderView, TaintView
from dray.semantics.device_names import natural_order
from dray.semantics.devices import (
    Holder,
    attribute,
    attribute_value,
    device_status,
    holders_by_taint,
    is_simulated,
    product_name,
)
from dray.semantics.taints import selects

_SIMULATED: Final = "sim."
_KINDS: Final = {"gpu.nvidia.com": "gpu"}

Holds = Mapping[DeviceId, Sequence[Holder]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the devices are, as far as it counts for each of them."""

    node: str
    hollow: bool = False


def pool_devices(
    slices: Sequence[ResourceSlice], place: Place, holds: Holds, rules: Sequence[DeviceTaintRule]
) -> list[DeviceView]:
    """The devices of one pool's slices, by name. `slices` are all of the pool that count, counters included."""
    found = [(one, device) for one in slices for device in one.spec.devices or ()]
    if not found:
        return []
    blocked = blocked_devices(slices, {device.name for one, device in found if holds.get(_id(one, device))})
    by_uuid = {_text(device, one.spec.driver, "uuid"): device.name for one, device in found}
    names = {device.name for _, device in found}
    views = []
    for one, device in found:
        parent = _parent(device, one.spec.driver, names, by_uuid)
        views.append(_view(one, device, place, holds, rules, parent, blocked.get(device.name)))
    return sorted(views, key=lambda view: natural_order(view.name))


def _view(
    one: ResourceSlice,
    device: Device,
    place: Place,
    holds: Holds,
    rules: Sequence[DeviceTaintRule],
    parent: str,
    blocked_by: Sequence[str] | None,
) -> DeviceView:
    driver, key = one.spec.driver, _id(one, device)
    taints = tuple(_taints(key, device, rules))
    every = [taint for taint, _ in taints]
    holders = (*holds.get(key, ()), *holders_by_taint(every))
    status = device_status(device, every, holders, is_blocked=blocked_by is not None)
    return DeviceView(
        id=str(key),
        name=device.name,
        driver=driver,
        node=place.node,
        kind=_kind(device, driver),
        product=product_name(device, driver),
        state=status.state.value,
        health=status.health.value,
        taints=tuple(_taint(taint, by) for taint, by in taints),
        holders=tuple(dict.fromkeys(HolderView(claim=one.claim, pods=one.pods, door=one.door) for one in holders)),
        numa=_number(device, driver, "numaNode"),
        pcie_root=_text(device, driver, "pcieRoot") or None,
        pci_bus_id=_text(device, driver, "pciBusID") or None,
        parent=str(key._replace(name=parent)) if parent else None,
        profile=_text(device, driver, "profile") or None,
        shareable=bool(device.allow_multiple_allocations),
        simulated=place.hollow or is_simulated(device, driver),
        available=status.is_free,
        blocked_by=tuple(str(key._replace(name=name)) for name in blocked_by or ()),
    )  # fmt: skip


def _id(one: ResourceSlice, device: Device) -> DeviceId:
    return DeviceId(one.spec.driver, one.spec.pool.name, device.name)


def details(device: Device) -> dict[str, Any]:
    """Attributes and capacities, by name."""
    return {
        "attributes": {key: attribute_value(one) for key, one in sorted(device.attributes.items())},
        "capacity": {key: str(one.value) for key, one in sorted(device.capacity.items())},
    }


def _text(device: Device, driver: str, name: str) -> str:
    value = attribute(device, driver, name)
    return value if isinstance(value, str) else ""


def _number(device: Device, driver: str, name: str) -> int | None:
    value = attribute(device, driver, name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _kind(device: Device, driver: str) -> str:
    """A simulated device is of the kind that it plays."""
    if driver in _KINDS:
        return _KINDS[driver]
    shape = _text(device, driver, "shape") if driver.startswith(_SIMULATED) else ""
    return shape or driver.partition(".")[0]


def _parent(device: Device, driver: str, names: set[str], by_uuid: Mapping[str, str]) -> str:
    """The whole device's name, where that is offered as well."""
    name = _text(device, driver, "parent")
    uuid = _text(device, driver, "parentUUID")
    found = name if name in names else by_uuid.get(uuid, "") if uuid else ""
    return found if found != device.name else ""


def _taints(
    key: DeviceId, device: Device, rules: Sequence[DeviceTaintRule]
) -> Iterable[tuple[DeviceTaint, str]]:
    """Each with whose it is."""
    for taint in device.taints:
        yield taint, "slice"
    for rule in rules:
        if selects(rule, *key):
            yield rule.spec.taint, f"rule/{rule.metadata.name}"


def _taint(taint: DeviceTaint, by: str) -> TaintView:
    return TaintView(key=taint.key, value=taint.value, effect=taint.effect, time=taint.time_added, by=by)
