"""What a MIG profile gives and takes: capacities of a part, and the counters that a card and its parts draw on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dray.api.quantity import Format, Quantity
from dray.api.resource.slice import Counter, CounterSet, DeviceCapacity, DeviceCounterConsumption
from dray.drivers.contract import Device
from dray.drivers.nvidia.names import counter_name, counter_set_name, slice_counter
from dray.hardware.nvml.facts import Gpu, MigProfile, Placement

CARD = "cards"
"""The counter of a card that is not divided, but may go to a VM as a whole."""


def amounts_of(profile: MigProfile) -> dict[str, int]:
    """A part's capacities, by the names that NVIDIA's driver publishes."""
    return {
        "multiprocessors": profile.multiprocessors,
        "copyEngines": profile.copy_engines,
        "decoders": profile.decoders,
        "encoders": profile.encoders,
        "jpegEngines": profile.jpeg_engines,
        "ofaEngines": profile.ofa_engines,
        "memory": profile.memory,
    }


def all_amounts(gpu: Gpu) -> dict[str, int]:
    """A card's, as the sum of its parts sees it: of each capacity the most that any part has; empty without profiles."""
    found: dict[str, int] = {}
    for profile in gpu.profiles:
        for name, amount in amounts_of(profile).items():
            found[name] = max(amount, found.get(name, 0))
    return found


def capacities(amounts: Mapping[str, int]) -> dict[str, DeviceCapacity]:
    """As a ResourceSlice has them."""
    return {name: DeviceCapacity(value=_quantity(amount)) for name, amount in sorted(amounts.items())}


def slice_capacities(placement: Placement) -> dict[str, DeviceCapacity]:
    """The memory slices that a MIG device has, each a capacity of its own."""
    return capacities({f"memorySlice{index}": 1 for index in placement.slices})


def card_counters(gpu: Gpu, *, is_divisible: bool) -> CounterSet:
    """What there is of a card to draw on."""
    return CounterSet(name=counter_set_name(gpu.minor), counters=_whole(gpu, is_divisible=is_divisible))


def takes_card(gpu: Gpu, *, is_divisible: bool) -> tuple[DeviceCounterConsumption, ...]:
    """A whole card takes all of it, so it is given only while no part of it is, and the other way round."""
    counters = _whole(gpu, is_divisible=is_divisible)
    return (DeviceCounterConsumption(counter_set=counter_set_name(gpu.minor), counters=counters),)


def takes_part(gpu: Gpu, profile: MigProfile, placement: Placement) -> tuple[DeviceCounterConsumption, ...]:
    """A part takes its capacities, and its own memory slices."""
    counters = _counters(amounts_of(profile), placement.slices)
    return (DeviceCounterConsumption(counter_set=counter_set_name(gpu.minor), counters=counters),)


def drawn_on(devices: Iterable[Device], known: Iterable[CounterSet]) -> tuple[CounterSet, ...]:
    """Counter sets that these devices draw on and that are not known: those of cards that cannot be asked any more.

    A whole card draws all of its set, and so do all of its parts together, one time each.
    """
    names = {one.name for one in known}
    found: dict[str, dict[str, Counter]] = {}
    for taken in (one for device in devices for one in device.consumes if one.counter_set not in names):
        counters = found.setdefault(taken.counter_set, {})
        for name, counter in taken.counters.items():
            counters[name] = max(counter, counters.get(name, counter), key=lambda one: one.value)
    return tuple(CounterSet(name=name, counters=dict(sorted(found[name].items()))) for name in sorted(found))


def _whole(gpu: Gpu, *, is_divisible: bool) -> dict[str, Counter]:
    if not is_divisible:
        return {CARD: Counter(value=_quantity(1))}
    return _counters(all_amounts(gpu), range(gpu.memory_slices))


def _counters(amounts: Mapping[str, int], slices: Iterable[int]) -> dict[str, Counter]:
    found = {counter_name(name): Counter(value=_quantity(amount)) for name, amount in amounts.items()}
    found |= {slice_counter(index): Counter(value=_quantity(1)) for index in slices}
    return dict(sorted(found.items()))


def _quantity(amount: int) -> Quantity:
    return Quantity.from_int(amount, Format.BINARY_SI)
