"""Whether devices that nobody holds would still give more than there is: shared counters, and capacity of shared devices.

Both are checked from what a pool's slices say now. A device or counter that they do not name is not judged: it may have
been taken out of the pool after it was given.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from dray.allocation.candidates import CounterKey, counters_of
from dray.allocation.holding import Held
from dray.api.quantity import Quantity
from dray.api.resource import ResourceSlice
from dray.api.resource.slice import Device


def overdraft(slices: Iterable[ResourceSlice], held: Sequence[Held], wanted: Sequence[Held]) -> str:
    """What would be overdrawn, in words, or "". All of one pool; only what `wanted` adds to is looked at."""
    newest = _newest(slices)
    devices = {device.name: device for one in newest for device in one.spec.devices or ()}
    return _counters(newest, devices, held, wanted) or _capacity(devices, held, wanted)


def _newest(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    slices = tuple(slices)
    generation = max((one.spec.pool.generation for one in slices), default=0)
    return [one for one in slices if one.spec.pool.generation == generation]


def _counters(
    slices: Iterable[ResourceSlice],
    devices: Mapping[str, Device],
    held: Iterable[Held],
    wanted: Iterable[Held],
) -> str:
    """A device takes its counters once, however many shares of it there are."""
    before = {one.device for one in held}
    added = _taken(devices, {one.device for one in wanted} - before)
    if not added:
        return ""
    used = _taken(devices, before)
    for one in slices:
        for counter_set in one.spec.shared_counters or ():
            for name, counter in sorted(counter_set.counters.items()):
                key = (counter_set.name, name)
                if added.get(key, 0) > 0 and used[key] + added[key] > counter.value.nano:
                    return f"counter {counter_set.name}/{name} of pool {one.spec.pool.name}: {counter.value} is all there is"
    return ""


def _taken(devices: Mapping[str, Device], names: Iterable[str]) -> dict[CounterKey, int]:
    taken: dict[CounterKey, int] = defaultdict(int)
    for name in names:
        for key, amount in counters_of(devices[name]) if name in devices else ():
            taken[key] += amount
    return taken


def _capacity(devices: Mapping[str, Device], held: Sequence[Held], wanted: Sequence[Held]) -> str:
    for name in sorted({one.device for one in wanted if one.share_id} & devices.keys()):
        added = _amounts(one for one in wanted if one.device == name)
        used = _amounts(one for one in held if one.device == name)
        for key, capacity in sorted(devices[name].capacity.items()):
            if added[key] > 0 and used[key] + added[key] > capacity.value.nano:
                return f"capacity {key} of device {name}: {capacity.value} is all there is"
    return ""


def _amounts(shares: Iterable[Held]) -> dict[str, int]:
    amounts: dict[str, int] = defaultdict(int)
    for one in shares:
        for key, amount in (one.consumed_capacity or {}).items():
            amounts[key] += Quantity.from_json(amount).nano
    return amounts
