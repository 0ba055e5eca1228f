from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from dray.api.codec import view
from dray.api.meta import ObjectMeta, OwnerReference
from dray.api.resource.slice import Device, ResourcePool, ResourceSlice, ResourceSliceSpec
from dray.api.taints import DeviceTaint
from dray.dra.parcels import NodeRef
from dray.dra.slices.layout import PoolContents, SliceContents, lay_out
from dray.dra.slices.reconcile import (
    Creation,
    Deletion,
    Plan,
    PoolOwner,
    Step,
    Update,
    dated,
    index_of,
    kept_last,
    make_plan,
    same_devices,
    taint_keys,
    taint_times,
)
from tests.campaign import campaign, seeded
from tests.dra.pools import DRIVER, NODE, OWNER, faults_of, is_complete, pool, pool_device, to_document

MOMENT = datetime(2030, 1, 1, tzinfo=UTC)
replace = msgspec.structs.replace


class Server:
    """Stores slices as a server does, and refuses what it would refuse."""

    def __init__(self) -> None:
        self.slices: dict[str, ResourceSlice] = {}
        self.version = 0

    def store(self, one: ResourceSlice) -> None:
        self.version += 1
        meta = replace(
            one.metadata, resource_version=str(self.version), uid=one.metadata.uid or f"u{self.version}"
        )
        self.slices[meta.name] = replace(one, metadata=meta)

    def take(self, step: Step) -> None:
        match step:
            case Deletion(old=old):
                assert self.slices.pop(old.metadata.name) == old
            case Update(new=new):
                old = self.slices[new.metadata.name]
                assert (old.metadata.uid, old.metadata.resource_version) == (
                    new.metadata.uid,
                    new.metadata.resource_version,
                )
                assert faults_of(new) == []
                self.store(self._read(new, new.metadata.name))
            case Creation(new=new):
                assert faults_of(new) == []
                self.store(self._read(new, f"{new.metadata.generate_name}{self.version:05}"))

    def _read(self, one: ResourceSlice, name: str) -> ResourceSlice:
        """As it comes back over the wire."""
        return view(to_document(replace(one, metadata=replace(one.metadata, name=name))), ResourceSlice)

    def carry_out(self, plan: Plan) -> None:
        for step in plan.steps:
            self.take(step)

    def all(self) -> list[ResourceSlice]:
        return list(self.slices.values())

    def publish(self, contents: PoolContents) -> Plan:
        plan = make_plan(self.all(), lay_out(contents, (1, 36)).slices, OWNER)
        self.carry_out(plan)
        return plan


def kinds(plan: Plan) -> list[tuple[str, int]]:
    return [(type(step).__name__, getattr(step, "index", -1)) for step in plan.steps]


def names(slices: Iterable[ResourceSlice]) -> list[str]:
    return sorted(one.metadata.name for one in slices)


def test_the_first_publish_ends_at_generation_one() -> None:
    server = Server()
    plan = server.publish(pool(300))
    assert plan.generation == 1
    assert kinds(plan) == [("Creation", 0), ("Creation", 1), ("Creation", 2)]
    first = plan.steps[0]
    assert isinstance(first, Creation)
    assert first.new.metadata.generate_name == f"00000-{DRIVER}-{NODE.name}-"
    assert first.new.metadata.owner_references == (
        OwnerReference(api_version="v1", kind="Node", name=NODE.name, uid=NODE.uid, controller=True),
    )
    assert first.new.spec.node_name == first.new.spec.pool.name == NODE.name
    assert is_complete(server.all(), pool(300))
    assert server.publish(pool(300)) == Plan(1)


def test_an_empty_pool_has_one_slice() -> None:
    server = Server()
    assert kinds(server.publish(PoolContents())) == [("Creation", 0)]
    assert server.publish(PoolContents()) == Plan(1)


def test_one_changed_slice_keeps_the_generation() -> None:
    server = Server()
    server.publish(pool(300))
    devices = list(pool(300).devices)
    devices[-1] = pool_device("d0299", mark="new")
    plan = server.publish(PoolContents(tuple(devices)))
    assert (plan.generation, kinds(plan)) == (1, [("Update", 2)])
    assert {one.spec.pool.generation for one in server.all()} == {1}


def test_two_changed_slices_rewrite_all() -> None:
    server = Server()
    server.publish(pool(300))
    devices = list(pool(300).devices)
    devices[0], devices[-1] = pool_device("d0000", mark="new"), pool_device("d0299", mark="new")
    plan = server.publish(PoolContents(tuple(devices)))
    assert (plan.generation, kinds(plan)) == (2, [("Update", 0), ("Update", 1), ("Update", 2)])


def test_a_new_slice_rewrites_all() -> None:
    server = Server()
    server.publish(pool(100))
    plan = server.publish(pool(200))
    assert (plan.generation, kinds(plan)) == (2, [("Update", 0), ("Creation", 1)])
    assert {one.spec.pool.resource_slice_count for one in server.all()} == {2}


def test_fewer_slices() -> None:
    server = Server()
    server.publish(pool(300))
    plan = server.publish(pool(200))
    # Two slices stay and both say another count now.
    assert (plan.generation, kinds(plan)) == (2, [("Deletion", -1), ("Update", 0), ("Update", 1)])
    plan = server.publish(pool(100))
    assert (plan.generation, kinds(plan)) == (2, [("Deletion", -1), ("Update", 0)])
    assert is_complete(server.all(), pool(100))


def test_order_of_devices_is_a_change() -> None:
    server = Server()
    contents = pool(2)
    server.publish(contents)
    plan = server.publish(PoolContents(tuple(reversed(contents.devices))))
    assert kinds(plan) == [("Update", 0)]


def test_a_foreign_edit_is_reverted_and_labels_are_anybodys() -> None:
    server = Server()
    server.publish(pool(3))
    (one,) = server.all()
    server.store(replace(one, metadata=replace(one.metadata, labels={"mine": "yes"})))
    assert server.publish(pool(3)) == Plan(1)
    (one,) = server.all()
    for edited in (
        replace(one, spec=replace(one.spec, devices=one.spec.devices[1:] if one.spec.devices else None)),
        replace(one, metadata=replace(one.metadata, owner_references=())),
        replace(one, spec=replace(one.spec, pool=replace(one.spec.pool, resource_slice_count=4))),
        replace(one, spec=replace(one.spec, pool=replace(one.spec.pool, generation=7))),
    ):
        server.store(edited)
        assert kinds(server.publish(pool(3))) in ([("Update", 0)], [])
        (found,) = server.all()
        assert found.spec.devices == one.spec.devices
        assert found.metadata.labels == {"mine": "yes"}
        assert found.metadata.owner_references == (OWNER.reference,)


def test_another_node_of_the_name_owns_the_slices_next() -> None:
    server = Server()
    server.publish(pool(3))
    owner = PoolOwner(DRIVER, NodeRef(NODE.name, "another"))
    plan = make_plan(server.all(), lay_out(pool(3), (1, 36)).slices, owner)
    assert (plan.generation, kinds(plan)) == (1, [("Update", 0)])


def test_a_missing_slice_comes_back() -> None:
    server = Server()
    server.publish(pool(200))
    del server.slices[names(server.all())[0]]
    plan = server.publish(pool(200))
    assert (plan.generation, kinds(plan)) == (2, [("Update", 1), ("Creation", 0)])
    assert is_complete(server.all(), pool(200))


def test_slices_that_are_not_ours_stay() -> None:
    server = Server()
    server.publish(pool(1))
    (one,) = server.all()
    for number, spec in enumerate(
        (replace(one.spec, driver="other.example"), replace(one.spec, node_name="worker-2"))
    ):
        server.store(replace(one, metadata=ObjectMeta(name=f"foreign-{number}"), spec=spec))
    assert server.publish(pool(1)) == Plan(1)
    server.publish(pool(200))
    assert {"foreign-0", "foreign-1"} <= server.slices.keys()


@pytest.mark.parametrize(
    "name", ["0000-short", "000000-long", "0000g-nohex", "00001-range", "00000-zzz", "00000"]
)
def test_slices_with_names_that_do_not_count_go(name: str) -> None:
    server = Server()
    server.publish(pool(1))
    (one,) = server.all()
    server.store(replace(one, metadata=ObjectMeta(name=name)))
    assert kinds(server.publish(pool(1))) == [("Deletion", -1)]
    assert names(server.all()) == [one.metadata.name]


def test_slices_of_an_old_pool_or_generation_go() -> None:
    server = Server()
    server.publish(pool(1))
    (one,) = server.all()
    old = replace(one.spec, pool=replace(one.spec.pool, generation=0))
    other = replace(one.spec, pool=replace(one.spec.pool, name="other"))
    for number, spec in enumerate((old, other)):
        server.store(replace(one, metadata=ObjectMeta(name=f"00000-{number}"), spec=spec))
    plan = server.publish(pool(1))
    assert (plan.generation, kinds(plan)) == (1, [("Deletion", -1), ("Deletion", -1)])


def test_the_last_generation_there_is() -> None:
    server = Server()
    server.publish(pool(200))
    one = server.all()[0]
    server.store(replace(one, spec=replace(one.spec, pool=replace(one.spec.pool, generation=2**63 - 1))))
    assert server.publish(pool(200)).generation == 1
    assert is_complete(server.all(), pool(200))


@pytest.mark.parametrize(
    ("name", "count", "index"),
    [
        ("00000-a", 1, 0),
        ("0000a-a", 11, 10),
        ("0000a-a", 10, None),
        ("fffff-a", 2**20, 2**20 - 1),
        ("00001-a", 2**20 + 1, None),
        ("000001-a", 2**20 + 1, 1),
        ("+0001-a", 9, None),
        ("0000\u0661-a", 9, None),
    ],
)
def test_indexes(name: str, count: int, index: int | None) -> None:
    assert index_of(name, count) == index


def tainted(*times: datetime | None) -> Device:
    taints = (
        DeviceTaint(key=f"a/t{i}", effect="NoSchedule", time_added=time) for i, time in enumerate(times)
    )
    return Device(name="d", taints=tuple(taints))


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ((None,), (MOMENT,), True),
        ((MOMENT,), (MOMENT + timedelta(seconds=1),), True),
        ((MOMENT,), (MOMENT + timedelta(seconds=2),), False),
        ((MOMENT, None), (MOMENT,), False),
        ((), (), True),
    ],
)
def test_times_of_taints(
    left: tuple[datetime | None, ...], right: tuple[datetime | None, ...], same: bool
) -> None:
    assert same_devices([tainted(*left)], [tainted(*right)]) is same
    assert same_devices([tainted(*right)], [tainted(*left)]) is same
    assert not same_devices([tainted(*left)], [replace(tainted(*right), name="other")])


def test_a_taint_keeps_its_time() -> None:
    stored = ResourceSlice(spec=ResourceSliceSpec(devices=(tainted(MOMENT),)))
    times = taint_times([stored])
    wanted = SliceContents((tainted(None, None), pool_device("e", taint="t0")))
    found = dated(wanted, times)
    assert [taint.time_added for device in found.devices for taint in device.taints] == [MOMENT, None, None]
    own = SliceContents((tainted(MOMENT + timedelta(days=1)),))
    assert dated(own, times) == own
    assert times.keys() <= taint_keys([wanted])


def test_a_slice_that_stays_is_right_about_times() -> None:
    server = Server()
    server.publish(pool(1))
    (kept,) = server.all()
    places = replace(kept.spec.pool, generation=0), replace(kept.spec.pool, name="other"), kept.spec.pool
    for name, place in zip(("00000-z", "00000-y", "zzz"), places, strict=True):
        spec = replace(kept.spec, pool=place)
        server.store(ResourceSlice(metadata=ObjectMeta(name=name, uid=name), spec=spec))
    foreign = replace(kept, spec=replace(kept.spec, driver="other"))
    found = kept_last([*server.all(), foreign], 1, OWNER)
    assert names(found[:-1]) == ["00000-y", "00000-z", "zzz"]
    assert found[-1] == kept
    earlier, later = (
        ResourceSlice(spec=ResourceSliceSpec(devices=(tainted(MOMENT + timedelta(days=days)),)))
        for days in (0, 1)
    )
    assert taint_times([later, earlier]) == taint_times([earlier])


def random_contents(rng: random.Random) -> PoolContents:
    marks = [rng.choice(["", "x"]) for _ in range(4)]
    count = rng.choice([0, 1, 100, 129, 300, 500])
    # The mark of a device goes with its slice, so that few or many slices differ.
    return PoolContents(tuple(pool_device(f"d{i:04}", mark=marks[i // 128]) for i in range(count)))


def meddle(server: Server, rng: random.Random) -> None:
    """What somebody else may have done."""
    for one in server.all():
        match rng.randrange(8):
            case 0:
                del server.slices[one.metadata.name]
            case 1:
                server.store(replace(one, spec=replace(one.spec, devices=None)))
            case 2:
                moved = replace(one.spec.pool, generation=rng.choice([0, 1, 5, 2**63 - 2, 2**63 - 1]))
                server.store(replace(one, spec=replace(one.spec, pool=moved)))
            case 3:
                counted = replace(one.spec.pool, resource_slice_count=rng.randrange(1, 5))
                server.store(replace(one, spec=replace(one.spec, pool=counted)))
            case 4:
                name = rng.choice(["00000-x", "00001-x", "zzz", "0000000-x"]) + str(rng.randrange(3))
                spec = replace(one.spec, driver=rng.choice([DRIVER, "other.example"]))
                server.store(ResourceSlice(metadata=ObjectMeta(name=name), spec=spec))
            case 5:
                elsewhere = ResourcePool(name="other", generation=9, resource_slice_count=1)
                server.store(
                    ResourceSlice(metadata=ObjectMeta(name="00002-p"), spec=replace(one.spec, pool=elsewhere))
                )
            case _:
                pass


def ours(slices: Sequence[ResourceSlice]) -> list[ResourceSlice]:
    return [one for one in slices if one.spec.driver == DRIVER]


def test_from_any_state_to_any_pool_even_if_interrupted() -> None:
    rng = seeded(8)
    for _ in range(campaign(80, 5000)):
        server, contents = Server(), random_contents(rng)
        for _ in range(rng.randrange(4)):
            server.publish(random_contents(rng))
            meddle(server, rng)
        wanted = lay_out(contents, (1, 36)).slices
        foreign = [one for one in server.all() if one not in ours(server.all())]
        for _ in range(rng.randrange(3)):
            plan = make_plan(server.all(), wanted, OWNER)
            for step in plan.steps[: rng.randrange(len(plan.steps) + 1)]:
                server.take(step)
        server.publish(contents)
        assert is_complete(ours(server.all()), contents)
        assert [
            one.spec.devices or () for one in sorted(ours(server.all()), key=lambda one: one.metadata.name)
        ] == [one.devices for one in wanted]
        assert make_plan(server.all(), wanted, OWNER).steps == ()
        assert [one for one in server.all() if one not in ours(server.all())] == foreign
