"""Writes act, and a kernel that was asked the same gave the same answers (Linux 6.1; see sysfs_shape.py)."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dray.errors import UnavailableError
from dray.testing.host import Host, MdevParent, MdevType, PciFunction, Sriov, Write
from dray.testing.host.watcher import Watcher
from tests.campaign import campaign

UUID = "83b8f4f2-509f-382f-3c1e-e6bfe0fb{:04x}"
PCI = "sys/bus/pci"
CARD = "0000:01:00.0"
SECOND = "0000:01:00.1"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """Two e1000e in one group, a free vfio-pci, an nvme with virtual functions, and mtty; all files act."""
    host = Host(tmp_path)
    for address in (CARD, SECOND):
        host.pci(address, vendor="8086", device="10d3", driver="e1000e", iommu_group=9)
    host.driver("vfio-pci")
    nvme = Sriov(total=2, offset=1)
    host.pci("0000:02:00.0", vendor="1b36", device="0010", driver="nvme", iommu_group=10, sriov=nvme)
    host.mdev_parent("mtty", {"mtty-1": MdevType(24, "Single port serial"), "mtty-2": MdevType(12)})
    with host.active():
        yield host


def write(host: Host, path: str, text: str) -> str:
    """Write as a careful program does: one open, one write, and wait for the effect. Returns how it was taken."""
    descriptor = os.open(host.root / path, os.O_WRONLY)
    os.write(descriptor, text.encode())
    os.close(descriptor)
    host.settle()
    return host.writes[-1].result


def driver_of(host: Host, address: str) -> str:
    link = host.root / PCI / "devices" / address / "driver"
    return os.readlink(link).rsplit("/", 1)[-1] if link.is_symlink() else ""


def nodes(host: Host) -> list[str]:
    return sorted(os.listdir(host.root / "dev/vfio"))


def test_binding_as_linux_6_1_answered(host: Host) -> None:
    device = f"{PCI}/devices/{CARD}"
    assert write(host, f"{device}/driver/unbind", CARD) == ""
    assert driver_of(host, CARD) == ""
    assert write(host, f"{PCI}/drivers/e1000e/unbind", CARD) == "ENODEV"
    assert write(host, f"{PCI}/drivers/vfio-pci/bind", CARD) == "ENODEV"
    assert write(host, f"{device}/driver_override", "vfio-pci") == ""
    assert (host.root / device / "driver_override").read_text() == "vfio-pci\n"
    assert write(host, f"{PCI}/drivers_probe", CARD) == ""
    assert (driver_of(host, CARD), nodes(host)) == ("vfio-pci", ["9", "vfio"])
    assert write(host, f"{PCI}/drivers_probe", CARD) == ""
    assert write(host, f"{PCI}/drivers/vfio-pci/bind", CARD) == "EBUSY"
    for file in ("drivers/vfio-pci/bind", "drivers_probe", "drivers/vfio-pci/unbind"):
        assert write(host, f"{PCI}/{file}", "0000:99:00.0") == "ENODEV"
    assert write(host, f"{device}/driver_override", "\n") == ""
    assert (host.root / device / "driver_override").read_text() == "(null)\n"
    assert write(host, f"{PCI}/drivers/vfio-pci/unbind", CARD) == ""
    assert nodes(host) == ["vfio"]
    assert write(host, f"{PCI}/drivers/e1000e/bind", f"{CARD}\n") == ""
    assert driver_of(host, CARD) == "e1000e"


def test_new_id_as_linux_6_1_answered(host: Host) -> None:
    for address in (CARD, SECOND):
        assert write(host, f"{PCI}/drivers/e1000e/unbind", address) == ""
    assert write(host, f"{PCI}/drivers/vfio-pci/new_id", "8086 10d3") == ""
    assert [driver_of(host, address) for address in (CARD, SECOND)] == ["vfio-pci", "vfio-pci"]
    assert write(host, f"{PCI}/drivers/vfio-pci/new_id", "8086 10d3") == "EEXIST"
    assert write(host, f"{PCI}/drivers/vfio-pci/new_id", "zz") == "EINVAL"
    assert write(host, f"{PCI}/drivers/vfio-pci/new_id", "zz 10d3") == "EINVAL"
    assert write(host, f"{PCI}/drivers/vfio-pci/remove_id", "8086 10d3") == ""
    assert driver_of(host, CARD) == "vfio-pci"
    assert write(host, f"{PCI}/drivers/vfio-pci/remove_id", "8086 10d3") == "ENODEV"


def test_sriov_as_linux_6_1_answered(host: Host) -> None:
    numvfs = f"{PCI}/devices/0000:02:00.0/sriov_numvfs"
    answers = [write(host, numvfs, text) for text in ("99", "2", "1", "2", "x")]
    assert answers == ["ERANGE", "", "EBUSY", "", "EINVAL"]
    assert (host.root / f"{PCI}/devices/0000:02:00.2/physfn").resolve().name == "0000:02:00.0"
    assert (host.root / numvfs).read_text() == "2\n"
    assert [write(host, numvfs, "0"), write(host, numvfs, "0")] == ["", ""]
    assert not (host.root / f"{PCI}/devices/0000:02:00.1").exists()
    assert write(host, f"{PCI}/drivers/nvme/unbind", "0000:02:00.0") == ""
    assert write(host, numvfs, "1") == "ENOENT"


def test_mdevs_as_linux_6_1_answered(host: Host) -> None:
    create = "sys/class/mdev_bus/mtty/mdev_supported_types/mtty-1/create"
    texts = [UUID.format(1), UUID.format(1), "nonsense", UUID.format(1).upper(), UUID.format(2) + "\n"]
    assert [write(host, create, text) for text in texts] == ["", "EEXIST", "EINVAL", "EEXIST", ""]
    types = host.root / "sys/class/mdev_bus/mtty/mdev_supported_types"
    left = [(types / name / "available_instances").read_text() for name in ("mtty-1", "mtty-2")]
    assert left == ["22\n", "11\n"]
    remove = f"sys/bus/mdev/devices/{UUID.format(2)}/remove"
    assert [write(host, remove, "0"), write(host, remove, "x")] == ["", "EINVAL"]
    assert (host.root / remove).exists()
    assert write(host, remove, "1") == ""
    assert not (host.root / remove).exists()
    for number in range(2, 25):
        assert write(host, create, UUID.format(number + 100)) == ""
    assert write(host, create, UUID.format(999)) == "ENOSPC"


def test_remove_and_rescan_as_linux_6_1_answered(host: Host) -> None:
    device = host.root / PCI / "devices" / CARD
    remove = f"{PCI}/devices/{CARD}/remove"
    write(host, f"{PCI}/devices/{CARD}/driver_override", "vfio-pci")
    assert write(host, remove, "0") == ""
    assert device.exists()
    assert write(host, remove, "1") == ""
    assert not device.exists()
    assert write(host, f"{PCI}/rescan", "0") == ""
    assert not device.exists()
    assert write(host, f"{PCI}/rescan", "1") == ""
    assert driver_of(host, CARD) == "e1000e"
    assert (device / "driver_override").read_text() == "(null)\n"


def test_a_rescan_does_not_find_what_was_pulled(host: Host) -> None:
    third = host.pci("0000:03:00.0", vendor="8086", device="10d3")
    third.unplug()
    write(host, f"{PCI}/rescan", "1")
    assert not third.present


def test_vgpu_profile_numa_node_reset_and_usb_remove(host: Host) -> None:
    card = host.pci(
        "0000:41:00.0", vendor="10de", device="2335", driver="nvidia", iommu_group=1, sriov_total=1
    )
    vf = card.vf(driver="nvidia", vgpu_types={1414: "NVIDIA H200X-1-18C"})
    profile = f"{vf.directory}/nvidia/current_vgpu_type"
    answers = [write(host, profile, text) for text in ("7", "1414\n", "none\n")]
    assert answers == ["EINVAL", "", "EINVAL"]
    assert (host.root / profile).read_text() == "1414\n"
    assert write(host, profile, "0\n") == ""
    assert (host.root / profile).read_text() == "0\n"
    assert write(host, f"{card.directory}/numa_node", "1\n") == ""
    assert (card.path / "numa_node").read_text() == "1\n"
    assert [write(host, f"{card.directory}/reset", text) for text in ("1", "2")] == ["", "EINVAL"]
    key = host.usb("1-1", vendor="46f4", product="0001")
    assert write(host, f"{key.directory}/remove", "1") == ""
    assert not key.present


def test_no_write_is_lost_however_fast_they_come(host: Host) -> None:
    create = host.root / "sys/class/mdev_bus/mtty/mdev_supported_types/mtty-1/create"
    for number in range(24):
        create.write_text(UUID.format(number))  # O_TRUNC, as Python, Go and shells open
    host.settle()
    assert [entry.text for entry in host.writes] == [UUID.format(number) for number in range(24)]
    assert len(os.listdir(host.root / "sys/bus/mdev/devices")) == 24


def test_on_a_disk_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    host = Host(tmp_path_factory.mktemp("disk"))
    parent = host.mdev_parent("mtty", {"mtty-1": MdevType(24)})
    with host.active():
        for number in range(8):
            (parent.type_path("mtty-1") / "create").write_text(UUID.format(number))
    assert sorted(parent.mdevs) == [UUID.format(number) for number in range(8)]


def test_writes_of_other_processes_act_too(host: Host) -> None:
    create = "sys/class/mdev_bus/mtty/mdev_supported_types/mtty-1/create"
    script = f"for n in 1 2 3 4 5 6; do echo 83b8f4f2-509f-382f-3c1e-e6bfe0fb000$n > {create}; done"
    subprocess.run(["sh", "-ec", script], cwd=host.root, check=True, timeout=60)
    host.settle()
    assert len(os.listdir(host.root / "sys/bus/mdev/devices")) == 6


def by_threads(work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


def test_writers_that_take_turns(host: Host) -> None:
    create = host.root / "sys/class/mdev_bus/mtty/mdev_supported_types/mtty-1/create"
    rounds, turn = campaign(5, 300), threading.Lock()

    def work(thread: int) -> None:
        for step in range(rounds):
            with turn:
                create.write_text(UUID.format(thread * 1000 + step))

    by_threads(work)
    host.settle(60)
    seen = sorted(entry.text for entry in host.writes)
    assert seen == sorted(UUID.format(thread * 1000 + step) for thread in range(4) for step in range(rounds))


def test_a_write_has_acted_before_the_next_begins(host: Host) -> None:
    for _ in range(10):
        (host.root / PCI / "drivers/e1000e/unbind").write_text(CARD)
        (host.root / PCI / "drivers/e1000e/bind").write_text(CARD)
    host.settle()
    assert {entry.result for entry in host.writes} == {""}
    assert len(host.writes) == 20


def test_verbs_and_writes_go_together(host: Host) -> None:
    card = host.pci("0000:03:00.0", vendor="8086", device="10d3", driver="vfio-pci", iommu_group=30)
    (card.path / "driver_override").write_text("e1000e")
    host.settle()
    card.unplug()
    card.replug(driver="")
    assert (card.path / "driver_override").read_text() == "(null)\n"
    assert write(host, f"{PCI}/drivers/vfio-pci/bind", card.address) == ""
    assert card.driver == "vfio-pci"


def test_after_the_block_files_are_plain(tmp_path: Path) -> None:
    host = Host(tmp_path)
    card = host.pci(CARD, vendor="8086", device="10d3", driver="e1000e")
    unbind = tmp_path / PCI / "drivers/e1000e/unbind"
    with host.active():
        unbind.write_text(CARD)
    assert card.driver == ""
    card.bind("e1000e")
    unbind.write_text(CARD)
    assert card.driver == "e1000e"
    unbind.write_text("")
    with host.active():
        host.settle()
        assert card.driver == "e1000e"


def test_an_open_without_a_write_does_nothing(host: Host) -> None:
    os.close(os.open(host.root / PCI / "drivers_probe", os.O_WRONLY))
    host.settle()
    assert host.writes == ()


def test_reading_is_never_held_up(host: Host) -> None:
    override = host.root / PCI / "devices" / CARD / "driver_override"
    assert os.read(os.open(override, os.O_RDONLY | os.O_NONBLOCK), 100) == b"(null)\n"


def test_ignored_delayed_and_held_writes(host: Host) -> None:
    create = "sys/class/mdev_bus/mtty/mdev_supported_types/mtty-1/create"
    devices = host.root / "sys/bus/mdev/devices"
    host.ignore_writes("*/create", times=2)
    assert [write(host, create, UUID.format(number)) for number in range(3)] == ["ignored", "ignored", ""]
    assert os.listdir(devices) == [UUID.format(2)]
    with host.hold_writes("*/mtty-1/create"):
        write(host, create, UUID.format(3))
        write(host, create, UUID.format(4))
        assert len(os.listdir(devices)) == 1
    host.settle()
    assert len(os.listdir(devices)) == 3
    host.delay_writes("*/create", seconds=0.05, times=1)
    (host.root / create).write_text(UUID.format(5))
    host.settle()
    assert len(os.listdir(devices)) == 4


def test_settle_gives_up_in_time(host: Host) -> None:
    host.delay_writes("*/create", seconds=30)
    (host.root / "sys/class/mdev_bus/mtty/mdev_supported_types/mtty-1/create").write_text(UUID.format(1))
    with pytest.raises(UnavailableError, match="settle"):
        host.settle(0.05)
    host._actions._waiting.clear()


def test_a_write_to_a_vanished_device_is_told(host: Host) -> None:
    remove = host.root / PCI / "devices" / CARD / "remove"
    descriptor = os.open(remove, os.O_WRONLY)
    write(host, f"{PCI}/devices/{CARD}/remove", "1")
    os.write(descriptor, b"1")
    os.close(descriptor)
    host.settle()
    assert host.writes[-1].result == errno.errorcode[errno.ENODEV]


def test_no_descriptor_is_left_behind(tmp_path: Path) -> None:
    host = Host(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    threads = threading.active_count()
    for _ in range(3):
        with host.active():
            card = host.pci(CARD, vendor="8086", device="10d3", driver="e1000e")
            for _ in range(5):
                card.unplug()
                card.replug()
            (card.path / "remove").write_text("1")
            host.settle()
            host._pci.forget(card)
    assert len(os.listdir("/proc/self/fd")) == before
    assert threading.active_count() == threads


def test_without_leases_single_writes_act_and_no_open_waits(tmp_path: Path) -> None:
    host = Host(tmp_path)
    parent: MdevParent = host.mdev_parent("mtty", {"mtty-1": MdevType(24)})
    card: PciFunction = host.pci(CARD, vendor="8086", device="10d3", driver="e1000e")
    with host.active(leases=False):
        for number in range(4):
            create = os.open(parent.type_path("mtty-1") / "create", os.O_WRONLY | os.O_NONBLOCK)
            os.write(create, UUID.format(number).encode())
            os.close(create)
            host.settle()
        (card.path / "driver_override").write_text("vfio-pci")
        host.settle()
        for _ in range(2):
            (card.path / "reset").write_text("1")
            host.settle()
    assert len(parent.mdevs) == 4
    assert (card.path / "driver_override").read_text() == "vfio-pci\n"
    assert host.writes[-2:] == (Write(f"{card.directory}/reset", "1"),) * 2


def test_more_files_than_leases(tmp_path: Path) -> None:
    host = Host(tmp_path)
    cards = [host.pci(f"0000:01:00.{n}", vendor="8086", device="10d3", driver="e1000e") for n in range(3)]
    with Watcher(host.tree, host._actions, leases=5) as watcher:
        for card in cards:
            (card.path / "driver_override").write_text("vfio-pci")
            (card.path / "remove").write_text("1")
            watcher.settle(10)
    assert not any(card.present for card in cards)
    assert [entry.text for entry in host.writes] == ["vfio-pci", "1"] * 3


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become someone else")
def test_it_works_without_root(tmp_path: Path) -> None:
    """The write-only files of the tree are the hard case: their owner may not read them."""
    code = f"""
import os, sys
os.setgid(65534); os.setuid(65534)
sys.path[:0] = {sys.path!r}
from dray.testing.host import Host, MdevType
host = Host({str(tmp_path / "root")!r})
parent = host.mdev_parent("mtty", {{"mtty-1": MdevType(24)}})
with host.active():
    for n in range(9):
        (parent.type_path("mtty-1") / "create").write_text("83b8f4f2-509f-382f-3c1e-e6bfe0fa%04x" % n)
    host.settle()
assert len(parent.mdevs) == 9, host.writes
"""
    (tmp_path / "root").mkdir()
    os.chown(tmp_path / "root", 65534, 65534)
    tmp_path.chmod(0o755)
    child = os.fork()
    if child == 0:
        try:
            exec(compile(code, "child", "exec"), {})
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
