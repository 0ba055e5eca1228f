"""A pool of devices and counters → what goes into which ResourceSlice.

A slice holds 128 devices, or 64 as soon as one of them has taints, counters or lists. From Kubernetes 1.35 on counters
are in slices of their own, before the devices; an older server wants a counter set in one slice with all devices that
draw on it. A pool has at least one slice: an empty one says that the driver is alive.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from dray.api.field_errors import Path
from dray.api.limits import (
    MAX_COUNTER_SETS,
    MAX_COUNTERS,
    MAX_DEVICES,
    MAX_DEVICES_WITH_ADVANCED_FEATURES,
)
from dray.api.resource.slice import CounterSet, Device
from dray.api.validation.attributes import is_list
from dray.api.validation.devices import check_counter_set
from dray.hardware.facts import Problem

Version = tuple[int, int]
COUNTERS_APART: Final[Version] = (1, 35)
_MAX_CONSUMED: Final = 1024
"""Of all devices of a slice together, before counters were apart."""
_DIGITS: Final = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class PoolContents:
    """All that a driver offers on a node: `devices` by name, and the counters that they draw on."""

    devices: tuple[Device, ...] = ()
    counters: tuple[CounterSet, ...] = ()


@dataclass(frozen=True, slots=True)
class SliceContents:
    """What is in one slice."""

    devices: tuple[Device, ...] = ()
    counters: tuple[CounterSet, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """The slices in their order, which is that of allocation; `problems` say what found no place."""

    slices: tuple[SliceContents, ...]
    problems: tuple[Problem, ...] = ()


def parse_version(major: str, minor: str) -> Version | None:
    """What `/version` says (`1`, `36+`); None where it says nothing of use."""
    found = [_DIGITS.match(text) for text in (major, minor)]
    numbers = [int(match.group()) for match in found if match is not None]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else None


def lay_out(contents: PoolContents, version: Version) -> Layout:
    """Pure, and the same for the same pool, whatever the order of its counters; that of the devices is kept."""
    problems: list[Problem] = []
    sets = _usable_sets(contents.counters, problems)
    devices = [device for device in contents.devices if _has_counters(device, sets, problems)]
    ordered = [sets[name] for name in sorted(sets)]
    if version >= COUNTERS_APART:
        slices = [SliceContents(counters=tuple(chunk)) for chunk in _in_pieces(ordered, MAX_COUNTER_SETS)]
    else:
        slices = list(_together(ordered, devices, problems))
        devices = [device for device in devices if not device.consumes_counters]
    slices += [SliceContents(devices=chunk) for chunk in _chunks(devices)]
    return Layout(tuple(slices) or (SliceContents(),), tuple(problems))


def is_advanced(device: Device) -> bool:
    """Whether a slice with this device holds only half as many."""
    return bool(device.taints or device.consumes_counters) or any(map(is_list, device.attributes.values()))


def _usable_sets(counters: Iterable[CounterSet], problems: list[Problem]) -> dict[str, CounterSet]:
    """By name. One that is wrong, or there twice, is left out, and with it who draws on it."""
    counters = tuple(counters)
    often = Counter(one.name for one in counters)
    sets = {}
    for one in counters:
        faults = [str(fault) for fault in check_counter_set(one, Path(one.name))]
        if often[one.name] > 1:
            faults.append("there are two of that name")
        if faults:
            problems.append(Problem(one.name, f"the counter set is left out: {faults[0]}"))
        else:
            sets[one.name] = one
    return sets


def _has_counters(device: Device, sets: dict[str, CounterSet], problems: list[Problem]) -> bool:
    """The allocator takes no pool in which a device draws on what is not there."""
    for consumption in device.consumes_counters:
        found = sets.get(consumption.counter_set)
        missing = sorted(consumption.counters.keys() - (found.counters.keys() if found else ()))
        if missing:
            text = f"the device is left out: there is no counter {missing[0]!r} in a set {consumption.counter_set!r}"
            problems.append(Problem(device.name, text))
            return False
    return True


def _in_pieces(sets: Sequence[CounterSet], size: int) -> Iterator[Sequence[CounterSet]]:
    return (sets[start : start + size] for start in range(0, len(sets), size))


def _chunks(devices: Iterable[Device]) -> Iterator[tuple[Device, ...]]:
    chunk: list[Device] = []
    advanced = False
    for device in devices:
        limit = MAX_DEVICES_WITH_ADVANCED_FEATURES if advanced or is_advanced(device) else MAX_DEVICES
        if len(chunk) >= limit:
            yield tuple(chunk)
            chunk, advanced = [], False
        chunk.append(device)
        advanced = advanced or is_advanced(device)
    if chunk:
        yield tuple(chunk)


@dataclass(slots=True)
class _Group:
    """Counter sets that devices tie together, and those devices."""

    sets: list[CounterSet] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)


def _together(
    sets: Sequence[CounterSet], devices: Iterable[Device], problems: list[Problem]
) -> Iterator[SliceContents]:
    """A slice for each group, by the name of its first set; such a slice cannot be split."""
    for group in _groups(sets, devices):
        name = group.sets[0].name
        if sum(len(one.counters) for one in group.sets) > MAX_COUNTERS:
            text = f"the counter set and its devices are left out: more than {MAX_COUNTERS} counters need Kubernetes 1.35"
            problems.append(Problem(name, text))
            continue
        kept: list[Device] = []
        consumed = 0
        for device in group.devices:
            takes = sum(len(one.counters) for one in device.consumes_counters)
            if len(kept) >= MAX_DEVICES or consumed + takes > _MAX_CONSUMED:
                text = f"the device is left out: the slice of {name!r} is full, more needs Kubernetes 1.35"
                problems.append(Problem(device.name, text))
                continue
            kept.append(device)
            consumed += takes
        yield SliceContents(tuple(kept), tuple(group.sets))


def _groups(sets: Sequence[CounterSet], devices: Iterable[Device]) -> list[_Group]:
    devices = [device for device in devices if device.consumes_counters]
    leader = {one.name: one.name for one in sets}
    for device in devices:
        names = [one.counter_set for one in device.consumes_counters]
        tied = {leader[name] for name in names}
        leader = {name: min(tied) if old in tied else old for name, old in leader.items()}
    groups: dict[str, _Group] = {}
    for one in sets:
        groups.setdefault(leader[one.name], _Group()).sets.append(one)
    for device in devices:
        groups[leader[device.consumes_counters[0].counter_set]].devices.append(device)
    return list(groups.values())
