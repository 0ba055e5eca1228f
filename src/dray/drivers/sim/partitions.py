"""Partitions of a simulated device: which part of its memory each has, and how that is told to DRA and to the ledger.

Memory is cut into equal slices, as many as the smallest partition needs. Each slice is a counter of the device's counter
set and a part of its hardware: what overdraws a counter is what has a part in common, so that neither side ever allows
what the other refuses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dray.api.quantity import Quantity
from dray.api.resource.slice import Counter, CounterSet, DeviceCounterConsumption
from dray.drivers.sim.config import SimDevices
from dray.drivers.sim.shapes import MEMORY, amounts_of

_ONE: Final = Counter(value=Quantity("1"))


@dataclass(frozen=True, slots=True)
class Partition:
    """One of a profile's, on every device of an entry alike; `suffix` makes its id of the device's."""

    profile: str
    suffix: str
    memory: Quantity
    slices: range


def slice_count(entry: SimDevices) -> int:
    """Into how many slices the memory of a device is cut; 0 without partitions."""
    sizes = [_bytes(one.memory) for one in entry.partitions]
    unit = math.gcd(*sizes)
    return _bytes(amounts_of(entry).get(MEMORY)) // unit if unit else 0


def partitions_of(entry: SimDevices) -> tuple[Partition, ...]:
    """All that a device of the entry can be cut into, by profile as configured."""
    unit = math.gcd(*(_bytes(one.memory) for one in entry.partitions))
    return tuple(
        Partition(
            one.profile,
            f"{one.profile}-{number}",
            one.memory,
            range(number * _bytes(one.memory) // unit, (number + 1) * _bytes(one.memory) // unit),
        )
        for one in entry.partitions
        if one.memory is not None and unit
        for number in range(one.count)
    )


def counter_set(device_id: str, slices: int) -> CounterSet:
    """What the device and its partitions draw on."""
    return CounterSet(name=_set_name(device_id), counters=_counters(range(slices)))


def consumption(device_id: str, slices: range) -> tuple[DeviceCounterConsumption, ...]:
    """What the device as a whole, or one partition of it, takes."""
    return (DeviceCounterConsumption(counter_set=_set_name(device_id), counters=_counters(slices)),)


def slice_parts(device_id: str, slices: range) -> tuple[str, ...]:
    """The same for the ledger (`Device.hardware`)."""
    return tuple(f"sim:{device_id}/slice-{number}" for number in slices)


def _bytes(amount: Quantity | None) -> int:
    return 0 if amount is None else amount.value()


def _set_name(device_id: str) -> str:
    return f"{device_id}-slices"


def _counters(slices: Iterable[int]) -> dict[str, Counter]:
    return {f"memory-slice-{number}": _ONE for number in slices}
