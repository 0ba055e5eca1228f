"""Random pools, and random slices that are there before anybody publishes them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec

from dray.api.meta import ObjectMeta
from dray.api.resource.slice import Device, ResourcePool, ResourceSlice, ResourceSliceSpec
from dray.api.taints import DeviceTaint
from dray.dra.slices.layout import PoolContents, SliceContents, lay_out
from dray.dra.slices.reconcile import PoolOwner, index_of
from tests.dra.pools import DRIVER, counter_set, pool_device

VERSION = (1, 36)
LONG_AGO = datetime(2025, 1, 1, tzinfo=UTC)
FOREIGN = "other.dray.internal"
ODD_NAMES = ("00000-x", "00001-x", "00002-x", "0001f-x", "0000-x", "000000-x", "0000g-x", "zzz", "00000.x-y")
"""With an index, with one too high, and with none."""


@dataclass(frozen=True)
class Found:
    """A slice that is there. `at`: its pool, where it is not the node's own."""

    name: str
    contents: SliceContents
    generation: int
    count: int
    at: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    driver: str = DRIVER


@dataclass(frozen=True)
class Case:
    """What is there, and what is wanted then."""

    seed: int
    found: tuple[Found, ...]
    wanted: PoolContents

    @property
    def node(self) -> str:
        """Of its own, so that cases can run at once."""
        return f"agree-{self.seed:07}"

    @property
    def slices(self) -> tuple[SliceContents, ...]:
        return lay_out(self.wanted, VERSION).slices

    def objects(self, owner: PoolOwner) -> Iterator[ResourceSlice]:
        """What is there, for the server."""
        for one in self.found:
            pool = ResourcePool(
                name=one.at or self.node, generation=one.generation, resource_slice_count=one.count
            )
            spec = ResourceSliceSpec(
                driver=one.driver,
                node_name=self.node,
                pool=pool,
                devices=one.contents.devices or None,
                shared_counters=one.contents.counters or None,
            )
            name = f"{one.name}-{self.node}"
            metadata = ObjectMeta(name=name, labels=one.labels, owner_references=(owner.reference,))
            yield ResourceSlice(metadata=metadata, spec=spec)


def random_case(seed: int) -> Case:
    rng = random.Random(seed)
    before = _contents(rng)
    after = before if rng.random() < 0.6 else _contents(rng)
    if after.devices and rng.random() < 0.6:
        after = _with_another(rng, after)
    found = [*_published(rng, before), *_strays(rng, before)]
    found = [one for one in found if rng.random() < 0.93]
    return Case(seed, tuple(_told_apart(found, len(lay_out(after, VERSION).slices))), after)


def _contents(rng: random.Random) -> PoolContents:
    """128 devices share their looks, which is a slice of them."""
    marks = [rng.choice(["", "x"]) for _ in range(3)]
    taints = [rng.choice(["", "gone"]) for _ in range(3)]
    sets = [f"set-{number}" for number in range(rng.choice([0, 0, 0, 1, 9]))]
    devices = tuple(
        pool_device(
            f"d{number:04}",
            mark=marks[number // 128],
            taint=taints[number // 128],
            counters=rng.sample(sets, 1) if sets else (),
        )
        for number in range(rng.choice([0, 1, 60, 60, 129, 300]))
    )
    return PoolContents(devices, tuple(map(counter_set, sets)))


def _with_another(rng: random.Random, contents: PoolContents) -> PoolContents:
    """One device more, one less, or one that looks different."""
    devices, place = list(contents.devices), rng.randrange(len(contents.devices))
    match rng.randrange(3):
        case 0:
            del devices[place]
        case 1:
            devices.insert(place, pool_device("more"))
        case _:
            devices[place] = pool_device(devices[place].name, mark="other")
    return PoolContents(tuple(devices), contents.counters)


def _published(rng: random.Random, contents: PoolContents) -> Iterator[Found]:
    """As a driver left it; with times, where the server or the driver gave the taints some."""
    slices, generation = lay_out(contents, VERSION).slices, rng.choice([0, 1, 3])
    if rng.random() < 0.1:
        return
    is_old = rng.random() < 0.7
    for index, one in enumerate(slices):
        dated = SliceContents(tuple(map(_long_tainted, one.devices)), one.counters) if is_old else one
        labels = {"by": "hand"} if rng.random() < 0.2 else {}
        yield Found(f"{index:05x}-{DRIVER}", dated, generation, len(slices), labels=labels)


def _long_tainted(device: Device) -> Device:
    taints: tuple[DeviceTaint, ...] = tuple(
        msgspec.structs.replace(taint, time_added=LONG_AGO) for taint in device.taints
    )
    return msgspec.structs.replace(device, taints=taints)


def _strays(rng: random.Random, contents: PoolContents) -> Iterator[Found]:
    """Of a hand, of another pool, of another generation, of another driver."""
    some = SliceContents(
        tuple(msgspec.structs.replace(one, consumes_counters=()) for one in contents.devices[:3])
    )
    for name in rng.sample(ODD_NAMES, rng.choice([0, 0, 0, 1, 2])):
        at = rng.choice(["", "", "", "elsewhere"])
        yield Found(name, some, rng.choice([0, 1, 3, 4, 9]), rng.randrange(1, 4), at)
    if rng.random() < 0.3:
        yield Found("00000-other", some, rng.choice([0, 99]), 1, driver=FOREIGN)


def _told_apart(found: list[Found], count: int) -> Iterator[Found]:
    """Without two that stand for the same index: Kubernetes' controller takes the one or the other by chance."""
    mine = [one for one in found if one.driver == DRIVER and not one.at]
    highest = max((one.generation for one in mine), default=0)
    seen: set[int] = set()
    for one in found:
        index = index_of(f"{one.name}-", count)
        if one in mine and one.generation == highest and index is not None:
            if index in seen:
                continue
            seen.add(index)
        yield one


def with_twin(case: Case) -> Case:
    """The first slice twice, under another name."""
    return replace(case, found=(*case.found, replace(case.found[0], name="00000-twin")))
