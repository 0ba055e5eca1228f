from __future__ import annotations

import os
import resource
from contextlib import ExitStack
from pathlib import Path

import pytest

from dray.errors import Error, HardwareError, NotFoundError, UnavailableError
from dray.hardware.device_nodes import has_device_node, read_device_node
from dray.hardware.facts import Found, Problem
from dray.hardware.host_root import HostRoot
from dray.hardware.pci import read_pci
from dray.hardware.sweep import SysDirectory
from dray.testing.host import Host

GPU = "/sys/bus/pci/devices/0000:05:00.0"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path / "root")
    for bus in (5, 6):
        host.pci(f"0000:{bus:02}:00.0", vendor="10de", device="2330", driver="vfio-pci", iommu_group=bus)
    return host


def test_it_has_the_same_calls_as_the_root(host: Host) -> None:
    host.char_device("/dev/kvm", 10, 232)
    root = HostRoot(host.root)
    with root.sweep() as sweep:
        assert sweep.read_text(f"{GPU}/vendor") == root.read_text(f"{GPU}/vendor") == "0x10de"
        assert sweep.read_link(f"{GPU}/driver") == root.read_link(f"{GPU}/driver")
        assert sweep.names("/sys/bus/pci/devices") == root.names("/sys/bus/pci/devices")
        assert sweep.exists(GPU)
        assert sweep.stat(GPU).st_ino == root.stat(GPU).st_ino
        assert sweep.may_open("/dev/kvm") == root.may_open("/dev/kvm")
        assert sweep.label("/dev/kvm") == root.label("/dev/kvm")
        assert read_device_node(sweep, "/dev/kvm") == read_device_node(root, "/dev/kvm")
        assert sweep.is_this_host == root.is_this_host
        with sweep.sweep() as same:
            assert same is sweep
        assert sweep.exists(GPU)
        assert read_pci(sweep) == read_pci(root)


def test_a_directory_is_read_by_name(host: Host) -> None:
    host.link(f"{GPU}/secret", "/etc/passwd")
    os.mkfifo(host.root / f"{GPU[1:]}/pipe")
    with HostRoot(host.root).sweep() as sweep, sweep.directory(GPU) as directory:
        assert (directory.name, directory.path) == ("0000:05:00.0", GPU)
        assert directory.text("vendor") == "0x10de"
        assert directory.link("driver").endswith("/vfio-pci")
        assert directory.names("vfio-dev") == ("vfio0",)
        assert directory.names("none") == ()
        assert "vendor" in directory
        assert "vendor" in list(directory)
        for name in ("secret", "pipe", "vfio-dev"):
            with pytest.raises(HardwareError, match=name):
                directory.text(name)
        with pytest.raises(HardwareError, match="vendor"):
            directory.link("vendor")
        with pytest.raises(Error, match="vendor"):
            directory.names("vendor")
        for read in (directory.text, directory.link):
            with pytest.raises(NotFoundError, match="none"):
                read("none")


def test_a_file_without_end_is_refused(host: Host) -> None:
    place = host.file(f"{GPU}/vendor", "x", mode=0o644)
    os.truncate(place, 1 << 30)
    root = HostRoot(host.root)
    with root.sweep() as sweep, sweep.directory(GPU) as it, pytest.raises(HardwareError, match="more than"):
        it.text("vendor")


def read_vendor(directory: SysDirectory, problems: list[Problem]) -> str:
    return directory.text("vendor")


def test_one_that_fails_does_not_hide_the_others(host: Host) -> None:
    host.garbage(f"{GPU}/vendor")
    host.file("/sys/bus/pci/devices/odd", "a file")
    with HostRoot(host.root).sweep() as sweep:
        found = sweep.read_each("/sys/bus/pci/devices", read_vendor)
        assert found.items == ("0x10de",)
        assert [problem.path for problem in found.problems] == [f"{GPU}/vendor", "/sys/bus/pci/devices/odd"]
        assert all("is left out" in problem.message for problem in found.problems)
        assert sweep.read_each("/sys/bus/none", read_vendor) == Found()
        only = sweep.read_each("/sys/bus/pci/devices", read_vendor, wanted=lambda name: name > "0000:06")
        assert only == Found(("0x10de",), tuple(p for p in found.problems if "odd" in p.path))


def test_a_link_that_leads_nowhere_is_told_and_one_that_went_is_not(host: Host) -> None:
    host.dangle(GPU)

    def unplug(directory: SysDirectory, problems: list[Problem]) -> str:
        host.vanish(directory.path)
        return directory.text("gone")

    with HostRoot(host.root).sweep() as sweep:
        found = sweep.read_each("/sys/bus/pci/devices", unplug)
    assert [problem.path for problem in found.problems] == [GPU]


def test_a_directory_of_devices_that_cannot_be_listed(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.vanish("/sys/bus/pci/devices")
    host.file("/sys/bus/pci/devices", "not a directory")
    found = read_pci(HostRoot(host.root))
    assert found.items == ()
    assert [problem.path for problem in found.problems] == ["/sys/bus/pci/devices"]


def _fill_gaps(stack: ExitStack) -> int:
    """Occupy all numbers below the highest descriptor that is open; the first free one, above which all are free."""
    highest = max(map(int, os.listdir("/proc/self/fd")))
    while True:
        taken = os.dup(0)
        stack.callback(os.close, taken)
        if taken > highest:
            return taken + 1


def test_without_descriptors_nothing_is_said_about_devices(host: Host) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    refused = 0
    with HostRoot(host.root).sweep() as sweep, ExitStack() as stack:
        free = _fill_gaps(stack)
        try:
            for extra in range(6):
                resource.setrlimit(resource.RLIMIT_NOFILE, (free + extra, hard))
                try:
                    found = sweep.read_each("/sys/bus/pci/devices", read_vendor)
                except UnavailableError as error:
                    assert "too many open files" in str(error)
                    refused += 1
                else:
                    assert (len(found.items), found.problems) == (2, ())
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert 2 <= refused <= 4  # to list, to open the device, to open its file; then it goes


def test_has_device_node(host: Host) -> None:
    host.char_device("/dev/kvm", 10, 232)
    host.link("/dev/loop", "/dev/loop")
    problems: list[Problem] = []
    root = HostRoot(host.root)
    assert has_device_node(root, "/dev/kvm", problems)
    assert not has_device_node(root, "/dev/none", problems)
    assert not has_device_node(root, "/dev", problems)
    assert problems == []
    assert not has_device_node(root, "/dev/loop", problems)
    assert [problem.path for problem in problems] == ["/dev/loop"]


def test_no_descriptor_is_left_open(host: Host) -> None:
    before = len(os.listdir("/proc/self/fd"))
    host.garbage(f"{GPU}/vendor")
    host.garbage(f"{GPU}/uevent")
    read_pci(HostRoot(host.root))
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_may_not_be_read_is_told(host: Host) -> None:
    place = host.root / "sys/devices/pci0000:05/0000:05:00.0"
    place.chmod(0)
    try:
        if os.access(place, os.R_OK):
            pytest.skip("this user may read everything")
        found = read_pci(HostRoot(host.root))
    finally:
        place.chmod(0o755)
    assert [item.address for item in found.items] == ["0000:06:00.0"]
    assert "permission denied" in found.problems[0].message
