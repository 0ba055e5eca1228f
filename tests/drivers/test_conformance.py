"""What every kind must hold, whatever it is: run on all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.cdi.edits import ContainerEdits
from dray.drivers.contract import Device, Driver, Health
from dray.drivers.health import worsened
from dray.errors import Error
from dray.hardware.host_root import HostRoot
from tests.drivers.machine import DRIVERS, Machine, build

KINDS = sorted(DRIVERS)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return build(tmp_path / "host")


NAMED_BY_CONFIG = {"generic", "iommufd", "sim", "socket"}
"""Kinds whose devices are expected on every machine; where one is missing, that is said."""


def by_resource(devices: list[Device]) -> dict[str, list[Device]]:
    names = sorted({device.resource for device in devices})
    return {name: [device for device in devices if device.resource == name] for name in names}


def paths_of(edits: ContainerEdits) -> set[str]:
    return {node.host_path for node in edits.device_nodes} | {mount.host_path for mount in edits.mounts}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_says_its_name(kind: str, machine: Machine) -> None:
    driver: Driver = DRIVERS[kind]
    assert driver.kind == kind
    devices = driver.discover(machine.root).devices
    assert devices
    assert {device.kind for device in devices} == {kind}
    assert {device.health for device in devices} == {Health.HEALTHY}


@pytest.mark.parametrize("kind", KINDS)
def test_equal_machines_give_equal_discoveries(kind: str, machine: Machine, tmp_path: Path) -> None:
    other = build(tmp_path / "other")
    found = DRIVERS[kind].discover(machine.root)
    assert found == DRIVERS[kind].discover(machine.root)
    assert found == DRIVERS[kind].discover(other.root)
    assert found == DRIVERS[kind].discover(machine.root, found.devices)
    with machine.root.sweep() as sweep:
        assert found == DRIVERS[kind].discover(sweep)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_unique_and_short(kind: str, machine: Machine) -> None:
    devices = DRIVERS[kind].discover(machine.root).devices
    assert len({device.id for device in devices}) == len(devices)
    shares = [share for device in devices for share in device.share_ids]
    assert len(set(shares)) == len(shares)
    assert all(0 < len(share) <= 63 for share in shares)


@pytest.mark.parametrize("kind", KINDS)
def test_ids_stay_when_devices_are_plugged_again(kind: str, machine: Machine) -> None:
    before = machine.look(kind)
    for gpu in machine.gpus:
        gpu.unplug()
    for stick in machine.sticks:
        stick.unplug()
    for gpu in reversed(machine.gpus):
        gpu.replug("vfio-pci")
    for stick in reversed(machine.sticks):
        stick.replug()
    after = machine.look(kind)
    assert list(after) == list(before)
    assert {device.health for device in after.values()} == {Health.HEALTHY}


@pytest.mark.parametrize("kind", KINDS)
def test_garbage_hides_one_device_and_says_so(kind: str, machine: Machine) -> None:
    before = machine.look(kind)
    machine.garbage[kind]()
    found = DRIVERS[kind].discover(machine.root)
    after = {device.id: device for device in found.devices}
    touched = {name for name in before if name not in after or after[name].health is Health.UNHEALTHY}
    assert len(touched) == 1
    assert all(after[name] == before[name] for name in set(before) - touched)
    assert all(after[name].reason for name in touched if name in after)
    assert found.problems or touched <= set(after)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bare_machine_is_no_error(kind: str, tmp_path: Path) -> None:
    found = DRIVERS[kind].discover(HostRoot(tmp_path))
    required = [device for device in found.devices if device.watch]
    assert bool(required) == (kind in NAMED_BY_CONFIG)
    assert {device.health for device in required} <= {Health.UNHEALTHY}
    assert all(device.reason for device in required)
    assert found.looked_at


@pytest.mark.parametrize("kind", KINDS)
def test_health_follows_what_is_watched(kind: str, machine: Machine) -> None:
    devices = machine.look(kind).values()
    assert any(device.watch for device in devices)
    for device in devices:
        for path in device.watch:
            place = machine.host.root / path.lstrip("/")
            hidden = place.with_name("hidden")
            place.rename(hidden)
            without = machine.look(kind).get(device.id)  # what is only known by its node is gone with it
            assert without is None or without.health is Health.UNHEALTHY
            assert without is None or path in without.reason
            quick = worsened(machine.root, device)
            assert (quick.id, quick.health, quick.reason) == (
                device.id,
                Health.UNHEALTHY,
                f"{path} does not exist",
            )
            hidden.rename(place)
            assert machine.look(kind)[device.id] == device
            assert worsened(machine.root, device) == device
            assert worsened(machine.root, quick) == quick


@pytest.mark.parametrize("kind", KINDS)
def test_prepare_is_pure(kind: str, machine: Machine, tmp_path: Path) -> None:
    """Equal devices give equal answers, on another machine and when all is gone."""
    first = list(DRIVERS[kind].discover(machine.root).devices)
    second = list(DRIVERS[kind].discover(build(tmp_path / "other").root).devices)
    answers = [DRIVERS[kind].prepare(name, group) for name, group in by_resource(first).items()]
    assert answers
    machine.host.root.rename(tmp_path / "gone")
    assert answers == [DRIVERS[kind].prepare(name, group) for name, group in by_resource(second).items()]
    assert all(answer.edits for answer in answers)


@pytest.mark.parametrize("kind", KINDS)
def test_a_container_gets_only_what_belongs_to_its_devices(kind: str, machine: Machine) -> None:
    for device in machine.look(kind).values():
        prepared = DRIVERS[kind].prepare(device.resource, [device])
        assert paths_of(prepared.edits) == set(device.paths)
        assert set(prepared.required) | set(prepared.open_first) <= set(device.paths)
        assert {change.target for change in prepared.changes} <= set(device.paths)
        for name, value in prepared.edits.env:
            assert name.isupper()
            assert tuple(value.split(",")) == device.addresses


@pytest.mark.parametrize("kind", KINDS)
def test_asking_twice_for_one_device_gives_it_once(kind: str, machine: Machine) -> None:
    for device in machine.look(kind).values():
        once = DRIVERS[kind].prepare(device.resource, [device])
        assert DRIVERS[kind].prepare(device.resource, [device, device]).edits == once.edits


@pytest.mark.parametrize("kind", KINDS)
def test_no_devices_is_an_answer_or_an_error_of_ours(kind: str) -> None:
    try:
        prepared = DRIVERS[kind].prepare("example.com/none", [])
    except Error as error:
        assert "example.com/none" in str(error)
    else:
        assert not paths_of(prepared.edits)
        assert not any(value for _, value in prepared.edits.env)
