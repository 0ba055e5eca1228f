"""The devices of a kind as a ResourceSlice names them. What the API does not take is left out and told, never sent.

- Attributes keep their own names, which are the driver's; `resource` is the extended resource. Under
  resource.kubernetes.io are `pciBusID`, `pcieRoot` and `numaNode`. The PCI address is the attribute `address` where it
  looks like one (of the function that leads an IOMMU group), else the only `pci:…` among `hardware`.
- Of more than 32 attributes and capacities the first stay, in this order: Kubernetes' own, `resource`, capacities,
  versions, the others by name.
- `shares` is a capacity of which a claim takes one, or as many as it asks for. Another capacity of a shared device that
  has no policy is taken only by who asks for it: without one, the first claim would take all of it.
- A taint that the API does not take is changed until it does: without it the device would be handed out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from dray.api.field_errors import Path
from dray.api.limits import MAX_ATTRIBUTES_AND_CAPACITIES, MAX_TAINTS
from dray.api.meta import to_time
from dray.api.names import label_key, label_value, qualified_name
from dray.api.quantity import ZERO, Quantity
from dray.api.resource.slice import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    DeviceAttribute,
    DeviceCapacity,
)
from dray.api.resource.slice import Device as PoolDevice
from dray.api.taints import DeviceTaint, Effect
from dray.api.validation.attributes import check_attributes
from dray.api.validation.capacity import check_capacity
from dray.api.validation.devices import check_device
from dray.dra.names import device_name
from dray.drivers.contract import Device, Health
from dray.hardware.facts import Found, Problem
from dray.hardware.parse import is_pci_address
from dray.semantics.taints import UNHEALTHY

STANDARD: Final = "resource.kubernetes.io"
RESOURCE: Final = "resource"
SHARES: Final = "shares"
_NO_LABEL: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_LABEL: Final = 63
_INT64: Final = range(-(2**63), 2**63)
_ONE: Final = Quantity.from_int(1)
_STRONGEST: Final = (Effect.NO_EXECUTE, Effect.NO_SCHEDULE, Effect.NONE)

Value = DeviceAttribute | DeviceCapacity


def pool_devices(devices: Iterable[Device], driver: str) -> Found[PoolDevice]:
    """The pool, by name, and what could not be told of which device. Equal devices give an equal pool, in any order."""
    found: dict[str, PoolDevice] = {}
    problems: list[Problem] = []
    for device in sorted(devices, key=lambda one: (device_name(one), one.id)):
        name = device_name(device)
        if name in found:
            problems.append(Problem(name, f"{device.id} is left out: another device has the name {name!r}"))
        elif (shown := _Device(device, driver, name, problems).shown()) is not None:
            found[name] = shown
    return Found(tuple(found.values()), tuple(problems))


@dataclass(frozen=True, slots=True)
class _Device:
    """One device on its way; `problems` grows with what is left out."""

    device: Device
    driver: str
    name: str
    problems: list[Problem] = field(default_factory=list)

    def shown(self) -> PoolDevice | None:
        """None where it cannot be told at all: its name or its counters are not what the API takes."""
        if self.device.shares is not None and self.device.shares < 1:
            self._tell("", "the device is left out: it has no shares to give")
            return None
        kept = self._kept()
        shown = PoolDevice(
            name=self.name,
            attributes={key: one for key, one in kept if isinstance(one, DeviceAttribute)},
            capacity={key: one for key, one in kept if isinstance(one, DeviceCapacity)},
            consumes_counters=self.device.consumes,
            taints=self._taints(),
            allow_multiple_allocations=True if self.device.shares is not None else None,
        )
        if faults := check_device(shown, None, Path(self.name), has_place=False):
            self._tell("", f"the device is left out: {faults[0]}")
            return None
        return shown

    def _tell(self, field_path: str, message: str) -> None:
        self.problems.append(Problem(f"{self.name}{field_path}", message))

    def _kept(self) -> list[tuple[str, Value]]:
        """The legal ones, as many as there may be, by name. Of two of one name the more important one stays."""
        legal: dict[tuple[str, bool], Value] = {}
        for key, value in self._wanted():
            place = (key, isinstance(value, DeviceCapacity))
            if place not in legal and self._is_legal(key, value):
                legal[place] = value
        places = list(legal)
        if more := places[MAX_ATTRIBUTES_AND_CAPACITIES:]:
            names = ", ".join(key for key, _ in more)
            text = f"left out, as a device has at most {MAX_ATTRIBUTES_AND_CAPACITIES}: {names}"
            self._tell(".attributes", text)
        return [(place[0], legal[place]) for place in sorted(places[:MAX_ATTRIBUTES_AND_CAPACITIES])]

    def _wanted(self) -> Iterator[tuple[str, Value]]:
        """By importance."""
        device = self.device
        own = device.attributes
        standard: dict[str, str | int | bool | None] = {
            f"{STANDARD}/numaNode": device.numa_node,
            f"{STANDARD}/pciBusID": pci_address(device),
            f"{STANDARD}/pcieRoot": device.pcie_root,
        }
        known = {key: value for key, value in standard.items() if value is not None}
        known |= {key: own[key] for key in sorted(own) if key.startswith(f"{STANDARD}/")}
        if device.resource:
            known[RESOURCE] = device.resource
        yield from self._typed(known)
        yield from self._capacities()
        for key, text in sorted(device.versions.items()):
            yield key, DeviceAttribute(version_value=text)
        yield from self._typed({key: own[key] for key in sorted(own) if key not in known})

    def _typed(self, values: Mapping[str, str | int | bool]) -> Iterator[tuple[str, DeviceAttribute]]:
        for key, value in values.items():
            if isinstance(value, bool):
                yield key, DeviceAttribute(bool_value=value)
            elif isinstance(value, str):
                yield key, DeviceAttribute(string_value=value)
            elif value in _INT64:
                yield key, DeviceAttribute(int_value=value)
            else:
                self._tell(f".attributes[{key}]", "is left out: the number is too large")

    def _capacities(self) -> Iterator[tuple[str, DeviceCapacity]]:
        shares = self.device.shares
        if shares is not None:
            yield SHARES, _shares(shares)
        for key, capacity in sorted(self.device.capacity.items()):
            if shares is not None and capacity.request_policy is None:
                policy = CapacityRequestPolicy(default=ZERO)
                yield key, msgspec.structs.replace(capacity, request_policy=policy)
            else:
                yield key, capacity

    def _is_legal(self, key: str, value: Value) -> bool:
        is_attribute = isinstance(value, DeviceAttribute)
        path = f".{'attributes' if is_attribute else 'capacity'}[{key}]"
        if not (_is_text(key) and all(map(_is_text, _texts(value)))):
            self._tell(ascii(path)[1:-1], "is left out: it is not UTF-8 text")
            return False
        here = Path(self.name)
        if isinstance(value, DeviceAttribute):
            faults = [str(one) for one in check_attributes({key: value}, here)]
        else:
            shared = self.device.shares is not None
            faults = [*qualified_name(key), *(str(one) for one in check_capacity(value, shared, here))]
        if faults:
            self._tell(path, f"is left out: {faults[0]}")
        return not faults

    def _taints(self) -> tuple[DeviceTaint, ...]:
        """The strongest first, which stay where there are too many."""
        device = self.device
        taints = [self._legal(taint) for taint in device.taints]
        key = f"{self.driver}/{UNHEALTHY}"
        if device.health is not Health.HEALTHY and all(taint.key != key for taint in taints):
            taints.append(DeviceTaint(key=key, value=_label(device.reason), effect=Effect.NO_SCHEDULE))
        different = {(taint.key, taint.value, taint.effect): taint for taint in reversed(taints)}
        ordered = sorted(
            different.values(), key=lambda one: (_STRONGEST.index(Effect(one.effect)), one.key, one.value)
        )
        if more := ordered[MAX_TAINTS:]:
            text = f"left out, as a device has at most {MAX_TAINTS}: {', '.join(one.key for one in more)}"
            self._tell(".taints", text)
        return tuple(ordered[:MAX_TAINTS])

    def _legal(self, taint: DeviceTaint) -> DeviceTaint:
        added = to_time(taint.time_added) if taint.time_added is not None else None
        legal = DeviceTaint(
            key=taint.key if not label_key(taint.key) else f"{self.driver}/tainted",
            value=taint.value if not label_value(taint.value) else _label(taint.value),
            effect=taint.effect if taint.effect in _STRONGEST else Effect.NO_SCHEDULE,
            time_added=added,
        )
        before, after = (f"{one.key}={one.value}:{one.effect}" for one in (taint, legal))
        if before != after:
            self._tell(".taints", f"{before!a} is no taint of a device, {after} takes its place")
        return legal


def pci_address(device: Device) -> str | None:
    """Where the device is on the PCI bus; None for one that is elsewhere, or is several functions without a leader."""
    address = device.attributes.get("address")
    if isinstance(address, str) and is_pci_address(address):
        return address
    functions = [part.removeprefix("pci:") for part in device.hardware if part.startswith("pci:")]
    return functions[0] if len(functions) == 1 and is_pci_address(functions[0]) else None


def _shares(count: int) -> DeviceCapacity:
    """A range must leave room for one step, so a single share is a value."""
    most = Quantity.from_int(count)
    if count == 1:
        policy = CapacityRequestPolicy(default=_ONE, valid_values=(_ONE,))
    else:
        valid = CapacityRequestPolicyRange(min=_ONE, max=most, step=_ONE)
        policy = CapacityRequestPolicy(default=_ONE, valid_range=valid)
    return DeviceCapacity(value=most, request_policy=policy)


def _label(text: str) -> str:
    """Any text as the value of a label, for people."""
    return _NO_LABEL.sub("-", text)[:_LONGEST_LABEL].strip("-._")


def _texts(value: Value) -> tuple[str, ...]:
    if not isinstance(value, DeviceAttribute):
        return ()
    return tuple(text for text in (value.string_value, value.version_value) if text is not None)


def _is_text(text: str) -> bool:
    """sysfs may hold bytes that are none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
