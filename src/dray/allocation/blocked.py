"""Devices that nobody holds and nobody can have: others of their pool took the counters that they draw on. Pure."""

from __future__ import annotations

from collections.abc import Container, Sequence

from dray.allocation.candidates import CounterKey, counters_of
from dray.api.resource.slice import ResourceSlice


def blocked_devices(slices: Sequence[ResourceSlice], held: Container[str]) -> dict[str, tuple[str, ...]]:
    """By name: the devices that took what it lacks; none of them where the pool itself has not enough.

    `slices` are all of a pool's newest generation, `held` the names of its devices that claims have.
    """
    left = {
        (counters.name, name): counter.value.nano
        for one in slices
        for counters in one.spec.shared_counters or ()
        for name, counter in counters.counters.items()
    }
    takers: dict[CounterKey, list[str]] = {}
    wanted: dict[str, tuple[tuple[CounterKey, int], ...]] = {}
    for device in (device for one in slices for device in one.spec.devices or () if device.consumes_counters):
        if device.name not in held:
            wanted[device.name] = counters_of(device)
            continue
        for key, amount in counters_of(device):
            left[key] = left.get(key, 0) - amount
            if amount > 0:
                takers.setdefault(key, []).append(device.name)
    lacking = {
        name: [key for key, amount in consumed if left.get(key, 0) < amount]
        for name, consumed in wanted.items()
    }
    return {
        name: tuple(dict.fromkeys(taker for key in keys for taker in takers.get(key, ())))
        for name, keys in lacking.items()
        if keys
    }
