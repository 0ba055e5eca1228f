"""Which devices cannot be had though nobody holds them: the rule on a real pool, and against a plain sum."""

from __future__ import annotations

import random
from typing import Any

from dray.allocation.blocked import blocked_devices
from dray.allocation.candidates import counters_of
from dray.api.codec import view
from dray.api.resource import ResourceSlice
from tests.mig_pool import mig_slices

PART = "gpu-0-mig-1g18gb-19-2"


def of_card(names: set[str], card: int) -> set[str]:
    return {one for one in names if f"{one}-".startswith(f"gpu-{card}-")}


def test_a_partition_blocks_its_card_and_what_overlaps_it() -> None:
    slices = mig_slices()
    assert blocked_devices(slices, ()) == {}
    found = blocked_devices(slices, {PART})
    assert of_card(set(found), 0) == set(found) and PART not in found
    assert set(found.values()) == {(PART,)}
    assert {"gpu-0", "gpu-0-mig-7g141gb-0-0", "gpu-0-mig-1g18gb-me-20-2", "gpu-0-mig-1g35gb-15-2"} <= set(
        found
    )
    assert not {"gpu-0-mig-1g18gb-19-1", "gpu-0-mig-1g18gb-19-3", "gpu-0-mig-3g71gb-9-4"} & set(found)


def test_a_card_blocks_all_its_partitions() -> None:
    slices = mig_slices()
    every = {device.name for one in slices for device in one.spec.devices or ()}
    found = blocked_devices(slices, {"gpu-3"})
    assert set(found) == of_card(every, 3) - {"gpu-3"}


def test_only_those_are_named_that_took_what_it_lacks() -> None:
    far = "gpu-0-mig-1g18gb-19-6"
    found = blocked_devices(mig_slices(), {PART, far, "gpu-1"})
    assert found["gpu-0"] == (PART, far)
    assert found["gpu-0-mig-1g35gb-15-2"] == (PART,)
    assert found["gpu-1-mig-7g141gb-0-0"] == ("gpu-1",)


def small(devices: dict[str, int], total: int | None) -> list[ResourceSlice]:
    def one(part: dict[str, Any]) -> ResourceSlice:
        spec = {"driver": "d", "pool": {"name": "p", "generation": 1}, **part}
        return view({"metadata": {"name": "s"}, "spec": spec}, ResourceSlice)

    takes = [
        {
            "name": name,
            "consumesCounters": [{"counterSet": "set", "counters": {"c": {"value": str(amount)}}}],
        }
        for name, amount in devices.items()
    ]
    sets = [{"name": "set", "counters": {"c": {"value": str(total)}}}]
    return [one({"devices": takes})] + ([one({"sharedCounters": sets})] if total is not None else [])


def test_what_a_pool_never_had_is_taken_by_nobody() -> None:
    assert blocked_devices(small({"a": 3, "b": 2, "idle": 0}, 2), ()) == {"a": ()}
    assert blocked_devices(small({"a": 1}, None), ()) == {"a": ()}
    assert blocked_devices(small({"a": 1, "b": 1, "idle": 0}, 1), {"a", "idle"}) == {"b": ("a",)}


def test_it_is_the_sum_that_counts() -> None:
    """For any set of held devices: blocked is who does not fit beside them."""
    dice = random.Random(7)
    slices = mig_slices()[:2]
    devices = {device.name: dict(counters_of(device)) for one in slices for device in one.spec.devices or ()}
    totals = {
        (counters.name, name): counter.value.nano
        for one in slices
        for counters in one.spec.shared_counters or ()
        for name, counter in counters.counters.items()
    }
    for _ in range(20):
        held = set(dice.sample(sorted(devices), dice.randrange(1, 6)))
        found = blocked_devices(slices, held)
        for name in sorted(set(devices) - held):
            fits = all(
                amount + sum(devices[one].get(key, 0) for one in held) <= totals[key]
                for key, amount in devices[name].items()
            )
            assert fits is (name not in found), (held, name)
