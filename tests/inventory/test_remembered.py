from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dray.drivers.contract import Device, Health
from dray.errors import ConflictError
from dray.inventory.remembered import RememberedDevices
from tests.drivers.machine import DRIVERS, build

STICK = Device(
    "x.io/stick-1-2",
    "usb",
    "x.io/stick",
    Health.HEALTHY,
    label="1-2",
    numa_node=0,
    attributes={"ports": "1-2", "count": 1, "fast": True},
    paths=("/dev/bus/usb/001/002",),
    watch=("/dev/bus/usb/001/002",),
    addresses=("1:2",),
)


def test_what_was_saved_is_there_after_a_restart(tmp_path: Path) -> None:
    with RememberedDevices(tmp_path / "devices") as remembered:
        assert remembered.devices == ()
        remembered.save([STICK, replace(STICK, id="kvm", shares=3)])
    with RememberedDevices(tmp_path / "devices") as remembered:
        assert remembered.devices == (replace(STICK, health=Health.UNHEALTHY, reason="not looked at yet"),)


@pytest.mark.parametrize("kind", sorted(DRIVERS))
def test_every_kind_finds_the_same_with_what_is_remembered(kind: str, tmp_path: Path) -> None:
    machine = build(tmp_path / "host")
    found = DRIVERS[kind].discover(machine.root)
    with RememberedDevices(tmp_path / "devices") as remembered:
        remembered.save(found.devices)
        assert DRIVERS[kind].discover(machine.root, remembered.devices) == found


def test_an_equal_list_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "devices"
    with RememberedDevices(path) as remembered:
        remembered.save([STICK])
        before = path.stat().st_ino
        remembered.save([replace(STICK, health=Health.UNHEALTHY, reason="gone")])
        assert path.stat().st_ino == before
        remembered.save([])
        assert path.stat().st_ino != before


def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "devices"
    path.write_bytes(b"dray-checkpoint/1 nonsense")
    with RememberedDevices(path) as remembered:
        assert remembered.devices == ()
        remembered.save([STICK])
    assert [one.name for one in tmp_path.iterdir() if "corrupt" in one.name]


def test_two_agents_do_not_share_a_directory(tmp_path: Path) -> None:
    with (
        RememberedDevices(tmp_path / "devices"),
        pytest.raises(ConflictError),
        RememberedDevices(tmp_path / "devices"),
    ):
        pass


def test_an_agent_that_replaces_another_knows_what_that_one_knew(tmp_path: Path) -> None:
    old = RememberedDevices(tmp_path / "devices")
    with old, RememberedDevices(tmp_path / "devices", takes_over=True) as none_yet:
        old.save([STICK])
        with RememberedDevices(tmp_path / "devices", takes_over=True) as new:
            assert [one.id for one in new.devices] == [STICK.id]
            new.save([STICK, replace(STICK, id="x.io/stick-1-3")])
        assert none_yet.devices == ()
    with RememberedDevices(tmp_path / "devices", takes_over=True) as new:
        assert [one.id for one in new.devices] == [STICK.id]
        new.save([STICK, replace(STICK, id="x.io/stick-1-3")])
    with RememberedDevices(tmp_path / "devices") as newest:
        assert len(newest.devices) == 2
