from __future__ import annotations

import pytest

from dray.api.limits import MAX_DEVICES
from dray.api.meta import ObjectMeta
from dray.api.resource.slice import (
    CounterSet,
    DeviceAttribute,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from dray.api.resource.slice import Device as PoolDevice
from dray.dra.slices.layout import Layout, PoolContents, SliceContents, lay_out, parse_version
from tests.campaign import campaign, seeded
from tests.dra.pools import DRIVER, NODE, counter_set, faults_of, pool, pool_device

OLD, NEW = (1, 34), (1, 36)


def sizes(layout: Layout) -> list[tuple[int, int]]:
    """Counter sets and devices of each slice."""
    return [(len(one.counters), len(one.devices)) for one in layout.slices]


def faults(layout: Layout) -> list[str]:
    """What a server of today says."""
    count = len(layout.slices)
    specs = [
        ResourceSliceSpec(
            driver=DRIVER,
            pool=ResourcePool(name=NODE.name, generation=1, resource_slice_count=count),
            node_name=NODE.name,
            devices=one.devices or None,
            shared_counters=one.counters or None,
        )
        for one in layout.slices
    ]
    slices = [ResourceSlice(metadata=ObjectMeta(generate_name="s-"), spec=spec) for spec in specs]
    return [fault for one in slices for fault in faults_of(one)]


@pytest.mark.parametrize("version", [OLD, NEW])
@pytest.mark.parametrize(
    ("count", "chunks"), [(0, [0]), (1, [1]), (128, [128]), (129, [128, 1]), (300, [128, 128, 44])]
)
def test_plain_devices(version: tuple[int, int], count: int, chunks: list[int]) -> None:
    layout = lay_out(pool(count), version)
    assert [devices for _, devices in sizes(layout)] == chunks
    assert faults(layout) == []


def test_one_taint_halves_its_slice() -> None:
    devices = list(pool(200).devices)
    devices[130] = pool_device("d0130", taint="gone")
    assert sizes(lay_out(PoolContents(tuple(devices)), NEW)) == [(0, 128), (0, 64), (0, 8)]
    devices[10] = pool_device("d0010", taint="gone")
    layout = lay_out(PoolContents(tuple(devices)), NEW)
    assert sizes(layout) == [(0, 64), (0, 66), (0, 64), (0, 6)]
    assert faults(layout) == []


def test_a_list_halves_its_slice() -> None:
    lists = PoolDevice(name="a", attributes={"sizes": DeviceAttribute(int_values=(1, 2))})
    layout = lay_out(PoolContents((lists, *pool(100).devices)), NEW)
    assert sizes(layout) == [(0, 64), (0, 37)]
    assert faults(layout) == []


def partitions(gpus: int, each: int) -> PoolContents:
    devices = [
        pool_device(f"g{i:02}-p{j:03}", counters=[f"g{i:02}"]) for i in range(gpus) for j in range(each)
    ]
    return PoolContents(tuple(devices), tuple(counter_set(f"g{i:02}") for i in range(gpus)))


def test_counters_are_apart_since_135() -> None:
    contents = partitions(9, 20)
    layout = lay_out(contents, (1, 35))
    assert sizes(layout) == [(8, 0), (1, 0), (0, 64), (0, 64), (0, 52)]
    assert faults(layout) == []
    assert layout.problems == ()


def test_counters_are_with_their_devices_before() -> None:
    contents = partitions(3, 20)
    alone = pool_device("alone")
    layout = lay_out(PoolContents((alone, *contents.devices), contents.counters), OLD)
    assert sizes(layout) == [(1, 20), (1, 20), (1, 20), (0, 1)]
    for one in layout.slices[:3]:
        (drawn,) = {use.counter_set for device in one.devices for use in device.consumes_counters}
        assert drawn == one.counters[0].name
    assert layout.slices[3].devices == (alone,)


def test_a_device_that_draws_on_two_sets_ties_them_together_before() -> None:
    devices = (
        pool_device("a", counters=["g1"]),
        pool_device("both", counters=["g2", "g0"]),
        pool_device("c", counters=["g2"]),
    )
    contents = PoolContents(devices, tuple(counter_set(f"g{i}") for i in (2, 0, 1)))
    layout = lay_out(contents, OLD)
    named = [
        ([one.name for one in each.counters], [one.name for one in each.devices]) for each in layout.slices
    ]
    assert named == [(["g0", "g2"], ["both", "c"]), (["g1"], ["a"])]


def test_a_slice_that_cannot_be_split_is_full_at_some_time() -> None:
    layout = lay_out(partitions(1, 130), OLD)
    assert sizes(layout) == [(1, MAX_DEVICES)]
    assert [problem.path for problem in layout.problems] == ["g00-p128", "g00-p129"]
    wide = counter_set("g00", more=31)
    many = PoolContents(
        tuple(pool_device(f"d{i:03}", counters=["g00", "g01"]) for i in range(3)), (wide, counter_set("g01"))
    )
    layout = lay_out(many, OLD)
    assert sizes(layout) == [(0, 0)]
    assert "1.35" in layout.problems[0].message


@pytest.mark.parametrize("version", [OLD, NEW])
def test_who_draws_on_nothing_is_left_out(version: tuple[int, int]) -> None:
    devices = (pool_device("a", counters=["none"]), pool_device("b", counters=["empty"]), pool_device("c"))
    layout = lay_out(PoolContents(devices, (CounterSet(name="empty"),)), version)
    assert layout.slices == (SliceContents((devices[2],)),)
    assert [problem.path for problem in layout.problems] == ["empty", "a", "b"]


def test_two_sets_of_one_name_are_both_left_out() -> None:
    layout = lay_out(PoolContents((), (counter_set("g"), counter_set("g", 9))), NEW)
    assert layout.slices == (SliceContents(),)
    assert len(layout.problems) == 2


@pytest.mark.parametrize(
    ("major", "minor", "version"),
    [("1", "36", (1, 36)), ("1", "34+", (1, 34)), ("", "", None), ("one", "2", None), ("2", "0", (2, 0))],
)
def test_what_the_server_says_of_itself(major: str, minor: str, version: tuple[int, int] | None) -> None:
    assert parse_version(major, minor) == version


def test_any_pool_keeps_the_limits_and_loses_nothing() -> None:
    rng = seeded(6)
    for _ in range(campaign(60, 3000)):
        sets = [counter_set(f"g{i}") for i in range(rng.choice([0, 1, 9, 20]))]
        devices = []
        for number in range(rng.choice([0, 1, 63, 65, 127, 129, 400])):
            draws = [rng.choice(sets).name] if sets and rng.random() < 0.5 else []
            taint = "gone" if rng.random() < rng.choice([0, 0.01]) else ""
            devices.append(pool_device(f"d{number:03}", counters=draws, taint=taint))
        contents = PoolContents(tuple(devices), tuple(sets))
        layout = lay_out(contents, NEW)
        assert faults(layout) == []
        assert layout.problems == ()
        assert [device for one in layout.slices for device in one.devices] == devices
        assert lay_out(PoolContents(tuple(devices), tuple(reversed(sets))), NEW) == layout
        old = lay_out(contents, OLD)
        kept = [device.name for one in old.slices for device in one.devices]
        assert sorted([*kept, *(problem.path for problem in old.problems)]) == [one.name for one in devices]
