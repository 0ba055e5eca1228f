from __future__ import annotations

from collections.abc import Callable

import pytest

from dray.errors import ConflictError, HardwareError, InvalidError, NotFoundError, UnavailableError
from dray.hardware.change import CreateMigDevice, DestroyMigDevice, SetMigMode, SetPersistence
from dray.hardware.change.access import Access
from dray.hardware.change.executor import AuditEntry, Executor, Outcome
from dray.hardware.nvml.facts import Gpu, Placement
from dray.hardware.nvml.reading import read_gpus
from dray.hardware.nvml.recorded import Recorded
from dray.testing.host import Host
from dray.testing.nvml.machine import GpuMachine, recording

ADDRESS = "0000:00:06.0"
SMALL, BIG = 19, 9
"""The ids of 1g.18gb and 3g.71gb on an H200."""
ON = SetMigMode(ADDRESS, 0, on=True)
OFF = SetMigMode(ADDRESS, 0, on=False)
CREATE = CreateMigDevice(ADDRESS, 0, SMALL, 2)
DESTROY = DestroyMigDevice(ADDRESS, 0, SMALL, 2)


@pytest.fixture
def cards(host: Host) -> Recorded:
    return GpuMachine(host, recording("h200")).cards


@pytest.fixture
def mig(host: Host, cards: Recorded, entries: list[AuditEntry]) -> Executor:
    """An executor over the recording."""
    return Executor(host.root, entries.append, isolate=False, nvml=cards.open)


@pytest.fixture
def access(host: Host, cards: Recorded) -> Access:
    return Access(host.root, nvml=cards.open)


def gpu(cards: Recorded) -> Gpu:
    with cards.open() as nvml:
        (found,) = read_gpus(nvml).items
    return found


def test_a_mig_device_comes_at_its_place_and_goes(
    mig: Executor, cards: Recorded, access: Access, entries: list[AuditEntry]
) -> None:
    assert not ON.is_so(access) and not CREATE.is_so(access) and DESTROY.is_so(access)
    done = mig.apply_all([ON, CREATE])
    assert [one.undo for one in done] == [OFF, DESTROY]
    (made,) = gpu(cards).mig_devices
    assert (made.profile, made.placement, made.fills) == ("1g.18gb", Placement(2, 1), True)
    assert CREATE.is_so(access) and not DESTROY.is_so(access)
    removed = mig.apply_all([DESTROY, OFF])
    assert [one.undo for one in removed] == [CREATE, ON]
    assert not gpu(cards).mig_devices and not gpu(cards).is_divided
    assert {entry.outcome for entry in entries} == {Outcome.STARTED, Outcome.CHANGED}


def test_twice_is_fine(mig: Executor, cards: Recorded) -> None:
    mig.apply_all([ON, CREATE])
    before = gpu(cards)
    assert [one.changed for one in mig.apply_all([ON, CREATE])] == [False, False]
    assert gpu(cards) == before
    mig.apply_all([DESTROY, OFF])
    assert [one.changed for one in mig.apply_all([DESTROY, OFF])] == [False, False]


def test_an_occupied_place_is_refused_and_names_who_has_it(mig: Executor, cards: Recorded) -> None:
    mig.apply_all([ON, CREATE])
    with pytest.raises(
        ConflictError, match=r"profile 9 at 0 on 0000:00:06\.0.*taken by GPU instance 1 \(profile 19 at 2\)"
    ):
        mig.apply(CreateMigDevice(ADDRESS, 0, BIG, 0))
    mig.apply(CreateMigDevice(ADDRESS, 0, BIG, 4))
    assert [one.placement.start for one in gpu(cards).mig_devices] == [2, 4]


def test_mig_stays_on_while_something_is_left(mig: Executor, cards: Recorded) -> None:
    other = CreateMigDevice(ADDRESS, 0, BIG, 4)
    mig.apply_all([ON, CREATE, other])
    assert [one.changed for one in mig.apply_all([DESTROY, OFF])] == [True, False]
    assert gpu(cards).is_divided and len(gpu(cards).mig_devices) == 1


def test_half_of_one_is_finished(mig: Executor, cards: Recorded, access: Access) -> None:
    """Killed between the GPU instance and its compute instance."""
    mig.apply(ON)
    with cards.open() as nvml:
        nvml.create_gpu_instance(nvml.handle(0), SMALL, Placement(2, 1))
    assert not CREATE.is_so(access) and not DESTROY.is_so(access)
    assert mig.apply(CREATE).undo == DESTROY
    assert len(gpu(cards).mig_devices) == 1


def test_half_of_one_is_taken_away(mig: Executor, cards: Recorded) -> None:
    mig.apply(ON)
    with cards.open() as nvml:
        nvml.create_gpu_instance(nvml.handle(0), SMALL, Placement(2, 1))
    assert mig.apply(DESTROY).changed
    assert mig.apply(OFF).changed


def test_a_compute_instance_that_cannot_be_made_leaves_nothing(mig: Executor, cards: Recorded) -> None:
    """The recording's profile says another number of slices than its instances then have."""
    mig.apply(ON)
    (profile,) = (one for one in cards.cards[0].answers["profiles"] if one.get("id") == SMALL)
    profile["index"] = 99  # no longer found by number
    with pytest.raises(HardwareError, match=f"{ADDRESS} has no MIG profile {SMALL}"):
        mig.apply(CREATE)
    with cards.open() as nvml:
        assert nvml.gpu_instances(nvml.handle(0)) == ()


def test_what_is_in_use_stays(mig: Executor, cards: Recorded) -> None:
    uuid = gpu(cards).uuid
    cards.use(uuid)
    with pytest.raises(ConflictError, match=rf"{ADDRESS}: cannot switch MIG on.*stop the workload"):
        mig.apply(ON)
    cards.use(uuid, by_somebody=False)
    mig.apply_all([ON, CREATE])
    (made,) = gpu(cards).mig_devices
    cards.use(made.uuid)
    with pytest.raises(ConflictError, match="somebody is using it"):
        mig.apply(DESTROY)
    assert gpu(cards).mig_devices == (made,)


def test_a_failure_undoes_what_was_done_before(mig: Executor, cards: Recorded) -> None:
    with pytest.raises(HardwareError, match=r"profile 19 cannot be put at 60, only at 0, 1, 2"):
        mig.apply_all([ON, CREATE, CreateMigDevice(ADDRESS, 0, SMALL, 60)])
    assert not gpu(cards).mig_devices and not gpu(cards).is_divided


def test_cards_that_are_not_there_or_lost(mig: Executor, cards: Recorded) -> None:
    with pytest.raises(NotFoundError, match=r"no card 0000:99:00\.0: look at `nvidia-smi -L`"):
        mig.apply(SetMigMode("0000:99:00.0", 0, on=True))
    cards.lose(gpu(cards).uuid)
    for change in (ON, CREATE, DESTROY):
        with pytest.raises(NotFoundError, match=ADDRESS):
            mig.apply(change)


def test_a_card_that_cannot_be_divided(mig: Executor, cards: Recorded) -> None:
    cards.cards[0].answers["migMode"] = {"error": 3}
    with pytest.raises(HardwareError, match="cannot be divided"):
        mig.apply(ON)


def test_the_nodes_of_a_new_device_are_there(mig: Executor, host: Host) -> None:
    mig.apply_all([ON, CREATE])
    assert len(list((host.root / "dev/nvidia-caps").iterdir())) == 2


def test_without_a_driver_it_says_what_is_missing(host: Host, entries: list[AuditEntry]) -> None:
    with pytest.raises(UnavailableError):
        Executor(host.root, entries.append, isolate=False).apply(ON)
    assert entries[-1].outcome is Outcome.FAILED


def test_persistence_mode_is_for_hosts_with_the_daemon(mig: Executor, host: Host, cards: Recorded) -> None:
    off = SetPersistence(ADDRESS, on=False)
    cards.cards[0].answers["persistenceMode"] = 1
    assert not mig.apply(off).changed
    host.file("/run/nvidia-persistenced/socket", "")
    done = mig.apply(off)
    assert done.changed and done.undo == SetPersistence(ADDRESS, on=True)
    assert cards.cards[0].answers["persistenceMode"] == 0
    mig.undo(done)
    assert cards.cards[0].answers["persistenceMode"] == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: SetMigMode("../etc", 0, on=True),
        lambda: CreateMigDevice(ADDRESS, -1, SMALL, 0),
        lambda: CreateMigDevice(ADDRESS, 0, SMALL, 1000),
        lambda: DestroyMigDevice(ADDRESS, 0, 1 << 40, 0),
    ],
)
def test_values_that_no_card_has(make: Callable[[], object]) -> None:
    with pytest.raises(InvalidError):
        make()
