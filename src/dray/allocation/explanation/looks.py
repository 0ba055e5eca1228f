"""How devices look whatever is asked: amounts, counters, attributes without a value. Worked out once for each slice.

Claims come and go by the second, slices stay for days. So the devices of a slice are looked at when the first question
comes, and what was seen is kept as long as somebody has that slice.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable

from dray.allocation.candidates import counters_of
from dray.allocation.device_values import prepare
from dray.api.resource.slice import Device, DeviceAttribute, ResourceSlice

Faults = dict[Hashable, tuple[str, ...]]


class Look:
    """One object for all devices that look the same: it is compared often."""

    __slots__ = ("__weakref__",)


class Looks:
    """Kept by the slices themselves, not by equal ones: to compare two takes longer than to look."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looks: weakref.WeakValueDictionary[Hashable, Look] = weakref.WeakValueDictionary()
        self._known: dict[int, tuple[weakref.ref[ResourceSlice], tuple[Look, ...]]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def of(self, one: ResourceSlice) -> tuple[Look, ...]:
        """Of its devices, in their order; taints aside."""
        key = id(one)
        known = self._known.get(key)
        if known is not None and known[0]() is one:
            return known[1]
        faults: Faults = {}
        contents = [_contents(one.spec.driver, device, faults) for device in one.spec.devices or ()]
        with self._lock:
            found = tuple([self._looks.setdefault(each, Look()) for each in contents])
        self._known[key] = weakref.ref(one, lambda _: self._known.pop(key, None)), found
        return found


LOOKS = Looks()
"""Of all questions of this process."""


def _contents(driver: str, device: Device, faults: Faults) -> Hashable:
    rest: Hashable = None
    if device.consumes_counters or device.binding_conditions:
        # Devices of one counter set are not alike: each may draw on another part of it.
        rest = (device.name, counters_of(device), device.binding_conditions)
    capacity = tuple(
        [(name, str(one.value), one.value.kind, one.request_policy) for name, one in device.capacity.items()]
    )
    doubtful = [
        one
        for one in device.attributes.values()
        if (one.string_value is None and one.int_value is None) or one.version_values is not None
    ]
    found = tuple([_faults_of(one, faults) for one in doubtful])
    is_sound = not any(map(any, found))
    return driver, capacity, bool(device.allow_multiple_allocations), is_sound or found, rest


def _faults_of(one: DeviceAttribute, known: Faults) -> tuple[str, ...]:
    """Where an attribute has no value, every selector fails on the device; with lists and without."""
    has_list = one.int_values is not None or one.bool_values is not None or one.string_values is not None
    is_simple = one.version_values is None and one.bool_value is None and not has_list
    # The hash of a whole attribute takes longer than all of the rest.
    key = one.version_value if is_simple else one
    found = known.get(key)
    if found is None:
        alone = Device(attributes={"one": one})
        found = known[key] = tuple([prepare("", alone, lists=lists).fault for lists in (False, True)])
    return found
