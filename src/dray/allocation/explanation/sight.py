"""What claims can see of devices: two that look the same to every selector and constraint are of one kind."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import suppress

from dray.allocation.allocator import Allocator
from dray.allocation.candidates import counters_of
from dray.allocation.cluster.situation import Situation
from dray.allocation.device_values import ATTRIBUTES, Place, prepare
from dray.allocation.faults import SelectorError
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.slice import Device, DeviceAttribute


def number_in(known: dict[Hashable, int], contents: Hashable) -> int:
    """One number for equal contents: it is compared often."""
    return known.setdefault(contents, len(known))


class Sight:
    """What claims can see of devices, in the eyes of all these situations. Kept for one question: devices stay as they are."""

    def __init__(self, claims: Iterable[ResourceClaim], situations: Iterable[Situation]) -> None:
        places = set[Place]()
        names = set[str]()
        for claim in claims:
            for situation in situations:
                places |= _places(claim, situation)
            for one in claim.spec.devices.constraints:
                names |= {name for name in (one.match_attribute, one.distinct_attribute) if name is not None}
        self._reads_all = any(
            not one.kind or (one.kind == ATTRIBUTES and not (one.domain and one.name)) for one in places
        )
        names |= {f"{one.domain}/{one.name}" for one in places if one.kind == ATTRIBUTES}
        self._full_names = sorted(names)
        self._names: dict[str, tuple[str, ...]] = {}
        self._faults: dict[Hashable, tuple[str, ...]] = {}
        self._kinds: dict[Hashable, int] = {}
        self._devices: dict[int, int] = {}

    def of(self, driver: str, device: Device) -> int:
        """The same number for devices that are the same to the claims as long as nobody uses them, taints aside."""
        found = self._devices.get(id(device))
        if found is None:
            found = self._devices[id(device)] = number_in(self._kinds, self._seen(driver, device))
        return found

    def _seen(self, driver: str, device: Device) -> Hashable:
        attributes = device.attributes
        if self._reads_all:
            seen: tuple[object, ...] = tuple(sorted(attributes.items()))
        else:
            seen = tuple([attributes.get(name) for name in self._names_for(driver)])
        rest: Hashable = None
        if device.consumes_counters or device.binding_conditions:
            # Devices of one counter set are not alike: each may draw on another part of it.
            rest = (device.name, counters_of(device), device.binding_conditions)
        capacity = tuple(
            [
                (name, str(one.value), one.value.kind, one.request_policy)
                for name, one in device.capacity.items()
            ]
        )
        doubtful = [
            one
            for one in attributes.values()
            if (one.string_value is None and one.int_value is None) or one.version_values is not None
        ]
        faults = tuple(map(self._faults_of, doubtful)) if doubtful else ()
        is_sound = not any(map(any, faults))
        return driver, seen, capacity, bool(device.allow_multiple_allocations), is_sound or faults, rest

    def _names_for(self, driver: str) -> tuple[str, ...]:
        """In its driver's domain an attribute may be there under both names."""
        found = self._names.get(driver)
        if found is None:
            own = f"{driver}/"
            bare = [one.removeprefix(own) for one in self._full_names if one.startswith(own)]
            found = self._names[driver] = (*self._full_names, *bare)
        return found

    def _faults_of(self, one: DeviceAttribute) -> tuple[str, ...]:
        """Where an attribute has no value, every selector fails on the device; with lists and without."""
        has_list = one.int_values is not None or one.bool_values is not None or one.string_values is not None
        is_simple = one.version_values is None and one.bool_value is None and not has_list
        # The hash of a whole attribute takes longer than all of the rest.
        key = one.version_value if is_simple else one
        found = self._faults.get(key)
        if found is None:
            alone = Device(attributes={"one": one})
            found = tuple([prepare("", alone, lists=lists).fault for lists in (False, True)])
            self._faults[key] = found
        return found


def _places(claim: ResourceClaim, situation: Situation) -> set[Place]:
    """What the claim's selectors read, and those of its classes."""
    found = set[Place]()
    for expression in _expressions(claim, situation.allocator):
        # A text that is no selector fails on every device, whatever it has.
        with suppress(SelectorError):
            found |= set(situation.selectors.selector(expression).places)
    return found


def _expressions(claim: ResourceClaim, allocator: Allocator) -> Iterator[str]:
    for request in claim.spec.devices.requests:
        exactly = (request.exactly,) if request.exactly is not None else ()
        for wish in (*exactly, *request.first_available):
            of_class = allocator.classes.get(wish.device_class_name)
            for one in (*(of_class.spec.selectors if of_class else ()), *wish.selectors):
                if one.cel is not None:
                    yield one.cel.expression
