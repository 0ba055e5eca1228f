"""The devices of one pool as the page is told them: what they are, how they are, who has them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dray.allocation.blocked import blocked_devices
from dray.api.quantity import Quantity
from dray.api.resource.slice import Device, DeviceAttribute, ResourceSlice
from dray.api.resource.taint_rule import DeviceTaintRule
from dray.api.taints import DeviceTaint, Effect
from dray.dashboard.fleet.model import DeviceId, DeviceView, HolderView, TaintView
from dray.semantics.device_names import natural_order

_STANDARD: Final = "resource.kubernetes.io/"
_SIMULATED: Final = "sim."
_KINDS: Final = {"gpu.nvidia.com": "gpu"}
_PRODUCT: Final = ("productName", "model", "product", "type", "device")
_ILL: Final = frozenset({"unhealthy", "xid", "gpu-lost", "recovery"})
"""Names of taints by which Dray's and NVIDIA's drivers say that a device does not work."""
_HELD_BY_PLUGIN: Final = "held-by-plugin"
_HELD: Final = frozenset({_HELD_BY_PLUGIN, "held-by-claim"})
"""Names of taints by which Dray's agent says that a device was given away in another way."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A claim that has a device, and what it takes of one that several share."""

    claim: str
    pods: tuple[str, ...] = ()
    takes: Mapping[str, Quantity] = field(default_factory=dict)


Holds = Mapping[DeviceId, Sequence[Hold]]


@dataclass(frozen=True, slots=True)
class Place:
    """Where the devices are, as far as it counts for each of them."""

    node: str
    hollow: bool = False


def newest(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Those of the pool's highest generation, by name: older ones are about to go."""
    found = sorted(slices, key=lambda one: one.metadata.name)
    last = max((one.spec.pool.generation for one in found), default=0)
    return [one for one in found if one.spec.pool.generation == last]


def pool_devices(
    slices: Sequence[ResourceSlice], place: Place, holds: Holds, rules: Sequence[DeviceTaintRule]
) -> list[DeviceView]:
    """The devices of one pool's slices, by name. `slices` are all of the pool's newest, counters included."""
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
    held = holds.get(key, ())
    taints = tuple(_taints(one, device, rules))
    shareable = bool(device.allow_multiple_allocations)
    health = _health(taints)
    return DeviceView(
        id=str(key),
        name=device.name,
        driver=driver,
        node=place.node,
        kind=_kind(device, driver),
        product=next((text for name in _PRODUCT if (text := _text(device, driver, name))), ""),
        health=health,
        taints=taints,
        holders=(*(_holder(hold) for hold in held), *_through_plugin(taints)),
        numa=_number(device, driver, "numaNode"),
        pcie_root=_text(device, driver, "pcieRoot") or None,
        pci_bus_id=_text(device, driver, "pciBusID") or None,
        parent=str(key._replace(name=parent)) if parent else None,
        profile=_text(device, driver, "profile") or None,
        shareable=shareable,
        simulated=place.hollow or driver.startswith(_SIMULATED) or attribute(device, driver, "simulated") is True,
        available=health != "unhealthy"
        and not any(blocks(taint.effect) for taint in taints)
        and (_has_room(device, held) if shareable else not held)
        and blocked_by is None,
        blocked_by=tuple(str(key._replace(name=name)) for name in blocked_by or ()),
    )  # fmt: skip


def _id(one: ResourceSlice, device: Device) -> DeviceId:
    return DeviceId(one.spec.driver, one.spec.pool.name, device.name)


def attribute(device: Device, driver: str, name: str) -> Any:
    """The value of an attribute: the driver's own, or one of those that all drivers share. None where there is none."""
    for key in (name, f"{driver}/{name}", _STANDARD + name):
        if key in device.attributes:
            return attribute_value(device.attributes[key])
    return None


def attribute_value(one: DeviceAttribute) -> Any:
    """The one member that is set."""
    members = (one.int_value, one.bool_value, one.string_value, one.version_value)
    lists = (one.int_values, one.bool_values, one.string_values, one.version_values)
    return next((value for value in (*members, *lists) if value is not None), None)


def details(device: Device) -> dict[str, Any]:
    """Attributes and capacities, by name."""
    return {
        "attributes": {key: attribute_value(one) for key, one in sorted(device.attributes.items())},
        "capacity": {key: str(one.value) for key, one in sorted(device.capacity.items())},
    }


def blocks(effect: str) -> bool:
    """Whether such a taint keeps claims from the device."""
    return effect in (Effect.NO_SCHEDULE, Effect.NO_EXECUTE)


def _text(device: Device, driver: str, name: str) -> str:
    value = attribute(device, driver, name)
    return value if isinstance(value, str) else ""


def _number(device: Device, driver: str, name: str) -> int | None:
    value = attribute(device, driver, name)
    is_known = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return value if is_known else None


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


def _taints(one: ResourceSlice, device: Device, rules: Sequence[DeviceTaintRule]) -> Iterable[TaintView]:
    for taint in device.taints:
        yield _taint(taint, "slice")
    for rule in rules:
        selector = rule.spec.device_selector
        if (
            selector is not None
            and selector.driver in (None, one.spec.driver)
            and selector.pool in (None, one.spec.pool.name)
            and selector.device in (None, device.name)
        ):
            yield _taint(rule.spec.taint, f"rule/{rule.metadata.name}")


def _taint(taint: DeviceTaint, by: str) -> TaintView:
    return TaintView(key=taint.key, value=taint.value, effect=taint.effect, time=taint.time_added, by=by)


def _health(taints: Sequence[TaintView]) -> str:
    """Who has a device says nothing about how it is."""
    worst = "healthy"
    for taint in taints:
        name = taint.key.rpartition("/")[2]
        if not blocks(taint.effect) or name in _HELD:
            continue
        if name in _ILL:
            return "unhealthy"
        worst = "tainted"
    return worst


def _holder(hold: Hold) -> HolderView:
    return HolderView(claim=hold.claim, pods=hold.pods, door="dra")


def _through_plugin(taints: Sequence[TaintView]) -> Iterable[HolderView]:
    for taint in taints:
        if taint.key.rpartition("/")[2] == _HELD_BY_PLUGIN:
            yield HolderView(claim="", pods=(taint.value,) if taint.value else (), door="plugin")


def _has_room(device: Device, held: Sequence[Hold]) -> bool:
    """Whether something is left of each capacity that claims share."""
    for name, capacity in device.capacity.items():
        if capacity.request_policy is None:
            continue
        taken = sum(hold.takes[name].nano for hold in held if name in hold.takes)
        if taken >= capacity.value.nano:
            return False
    return True
