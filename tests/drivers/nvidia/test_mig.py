"""Parts that are made for claims, on recordings: no card of a real machine is divided by these tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dray.drivers.contract import Asked, Device
from dray.drivers.nvidia.mig import (
    Card,
    MigPlace,
    changes_mode,
    is_made_for_claims,
    leftovers,
    place_of,
    read_instances,
    read_live,
    to_make,
    to_take_away,
)
from dray.errors import ConflictError, HardwareError, InvalidError
from dray.hardware.change import CreateMigDevice, DestroyMigDevice, SetMigMode
from dray.hardware.change.executor import AuditEntry, Executor
from dray.hardware.nvml.facts import Placement
from tests.drivers.nvidia.cards import Watched, watched
from tests.drivers.nvidia.driver_files import install_driver

H200 = "0000:00:06.0"
SMALL, OTHER, BIG = "gpu-0-mig-1g18gb-19-2", "gpu-0-mig-1g18gb-19-3", "gpu-0-mig-3g71gb-9-0"
CARD = Card(H200, 0)


@pytest.fixture
def gpus(tmp_path: Path) -> Iterator[Watched]:
    found = watched(tmp_path / "root", "h200", dynamic_mig=True)
    install_driver(found.machine.host, found.machine.cards.system["driverVersion"])
    yield found
    found.driver.monitor.close()


@pytest.fixture
def executor(gpus: Watched) -> Executor:
    entries: list[AuditEntry] = []
    return Executor(gpus.root.path, entries.append, isolate=False, nvml=gpus.machine.cards.open)


def asked(*devices: Device, admin: bool = False) -> Asked:
    return Asked("uid", "claim/request", devices, admin_access=admin)


def test_a_name_says_where(gpus: Watched) -> None:
    assert place_of(gpus.named(SMALL)) == MigPlace(CARD, 19, 2)
    assert is_made_for_claims(gpus.named(SMALL)) and not is_made_for_claims(gpus.named("gpu-0"))
    with pytest.raises(InvalidError, match="gpu-0 is not the name of a MIG device"):
        place_of(gpus.named("gpu-0"))
    with pytest.raises(InvalidError):
        place_of(replace(gpus.named(SMALL), name="gpu-0-mig-1g18gb-19"))


def test_all_that_can_be_made_can_be_made(gpus: Watched, executor: Executor) -> None:
    """Every name that discovery offers means a place that NVML takes; and the card is whole again afterwards."""
    parts = [device for device in gpus.devices if is_made_for_claims(device)]
    assert len(parts) >= 18
    for device in parts:
        executor.apply_all(to_make(device))
        live = read_live(gpus.root, gpus.machine.cards.open, place_of(device))
        assert live is not None and live.profile == device.attributes["profile"]
        executor.apply_all(to_take_away(device))
    with gpus.machine.cards.open() as nvml:
        assert read_instances(nvml) == {CARD: ()}
        assert nvml.mig_mode(nvml.handle(0)) == (0, 0)


def test_a_claim_gets_a_part_and_gives_it_back(gpus: Watched, executor: Executor) -> None:
    device = gpus.named(SMALL)
    prepared = gpus.driver.prepare_claim(asked(device))
    assert prepared.changes == (SetMigMode(H200, 0, on=True), CreateMigDevice(H200, 0, 19, 2))
    assert prepared.finish is not None
    with pytest.raises(HardwareError, match="not there though it was made"):
        prepared.finish(gpus.root)
    executor.apply_all(prepared.changes)
    paths = [node.container_path for node in prepared.finish(gpus.root).device_nodes]
    assert paths[0] == "/dev/nvidia0" and "/dev/nvidiactl" in paths
    caps = [path for path in paths if path.startswith("/dev/nvidia-caps/")]
    assert len(caps) == 2 and all((gpus.root.path / path.lstrip("/")).exists() for path in caps)
    executor.apply_all(gpus.driver.release_claim(asked(device)))
    with gpus.machine.cards.open() as nvml:
        assert read_instances(nvml) == {CARD: ()}


def test_prepared_again_after_a_crash(gpus: Watched, executor: Executor) -> None:
    device = gpus.named(SMALL)
    first = gpus.driver.prepare_claim(asked(device))
    executor.apply_all(first.changes)
    assert first.finish is not None
    gpus.look()
    second = gpus.driver.prepare_claim(asked(gpus.named(SMALL)))
    assert second.changes == first.changes and second.finish is not None
    executor.apply_all(second.changes)
    assert second.finish(gpus.root) == first.finish(gpus.root)


def test_released_though_never_prepared_and_twice(gpus: Watched, executor: Executor) -> None:
    changes = gpus.driver.release_claim(asked(gpus.named(SMALL)))
    for _ in range(2):
        assert [one.changed for one in executor.apply_all(changes)] == [False, False]


def test_two_claims_on_one_card(gpus: Watched, executor: Executor) -> None:
    one, two = asked(gpus.named(SMALL)), asked(gpus.named(OTHER))
    for claim in (one, two):
        executor.apply_all(gpus.driver.prepare_claim(claim).changes)
    with pytest.raises(ConflictError, match="taken by GPU instance"):
        executor.apply_all(gpus.driver.prepare_claim(asked(gpus.named(BIG))).changes)
    executor.apply_all(gpus.driver.release_claim(one))
    with gpus.machine.cards.open() as nvml:
        assert read_instances(nvml) == {CARD: ((19, Placement(3, 1)),)}
        assert nvml.mig_mode(nvml.handle(0)) == (1, 1)
    executor.apply_all(gpus.driver.release_claim(two))
    with gpus.machine.cards.open() as nvml:
        assert nvml.mig_mode(nvml.handle(0)) == (0, 0)


def test_a_whole_card_is_not_divided_any_more(gpus: Watched, executor: Executor) -> None:
    """A process that was killed before it could switch MIG off left it on; nothing could run on the card."""
    executor.apply(SetMigMode(H200, 0, on=True))
    executor.apply_all(gpus.driver.prepare_claim(asked(gpus.named("gpu-0"))).changes)
    with gpus.machine.cards.open() as nvml:
        assert nvml.mig_mode(nvml.handle(0)) == (0, 0)


def test_who_only_looks_on_changes_nothing(gpus: Watched) -> None:
    for name in (SMALL, "gpu-0"):
        claim = asked(gpus.named(name), admin=True)
        prepared = gpus.driver.prepare_claim(claim)
        assert prepared.changes == () and gpus.driver.release_claim(claim) == ()
        assert prepared.finish is not None and prepared.finish(gpus.root).mounts


def test_leftovers_are_what_no_claim_has(gpus: Watched, executor: Executor) -> None:
    for name in (SMALL, OTHER):
        executor.apply_all(to_make(gpus.named(name)))
    with gpus.machine.cards.open() as nvml:
        nvml.create_gpu_instance(nvml.handle(0), 14, Placement(4, 2))  # half of one
        there = read_instances(nvml)
    changes = leftovers(there, [gpus.named(SMALL), gpus.named("gpu-0")])
    assert changes == (DestroyMigDevice(H200, 0, 14, 4), DestroyMigDevice(H200, 0, 19, 3))
    executor.apply_all(changes)
    with gpus.machine.cards.open() as nvml:
        assert read_instances(nvml) == {CARD: ((19, Placement(2, 1)),)}
        assert leftovers(read_instances(nvml), [gpus.named(SMALL)]) == ()


def test_the_mode_of_older_cards_is_left_as_it_is(tmp_path: Path) -> None:
    """An A100 changes it only by a reset."""
    gpus = watched(tmp_path / "root", "a100-mig", dynamic_mig=True)
    parts = [device for device in gpus.devices if is_made_for_claims(device)]
    assert parts and not changes_mode(parts[0])
    assert [type(change) for change in to_take_away(parts[0])] == [DestroyMigDevice]
    gpus.driver.monitor.close()


def test_lost_cards_have_nothing_left_over(gpus: Watched) -> None:
    gpus.machine.cards.lose(str(gpus.named("gpu-0").attributes["uuid"]))
    with gpus.machine.cards.open() as nvml:
        assert read_instances(nvml) == {}
