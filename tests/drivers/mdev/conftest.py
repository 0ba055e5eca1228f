from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.drivers.mdev.manager import MdevManager
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host, MdevParent
from tests.drivers.mdev.managed_host import TYPES, Hands, Time


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path / "root")
    host.file("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")
    host.file("/proc/sys/kernel/random/boot_id", "boot-1\n")
    with host.active():
        yield host


@pytest.fixture
def parents(host: Host) -> list[MdevParent]:
    addresses = ["0000:05:00.0", "0000:06:00.0"]
    gpus = [host.pci(address, vendor="10de", device="1eb8", driver="nvidia") for address in addresses]
    return [host.mdev_parent(gpu, TYPES, exclusive=True) for gpu in gpus]


@pytest.fixture
def hands(host: Host) -> Hands:
    return Hands(host)


@pytest.fixture
def manager(host: Host, hands: Hands, tmp_path: Path, clock: Time) -> Iterator[MdevManager]:
    with MdevManager(HostRoot(host.root), tmp_path / "state", hands.apply, clock=clock) as manager:
        yield manager
