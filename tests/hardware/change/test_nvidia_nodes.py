from __future__ import annotations

import os
import stat

import pytest

from dray.errors import DeniedError, HardwareError, InvalidError
from dray.hardware.change import MakeCapabilityNode
from dray.hardware.change.access import Access
from dray.hardware.change.executor import Executor
from dray.testing.host import Host

MAKE = MakeCapabilityNode(12)
DEVICES = "Character devices:\n  1 mem\n195 nvidia\n241 nvidia-caps\n242 nvidia-caps-imex-channels\n"


def test_a_node_as_the_drivers_own_program_makes_it(host: Host, executor: Executor, access: Access) -> None:
    host.file("/proc/devices", DEVICES)
    host.file("/dev/keep", "")
    assert not MAKE.is_so(access)
    if os.geteuid() != 0:
        with pytest.raises(DeniedError, match="nvidia-cap12"):
            executor.apply(MAKE)
        return
    assert executor.apply(MAKE).changed and MAKE.is_so(access)
    made = (host.root / "dev/nvidia-caps/nvidia-cap12").stat()
    assert stat.S_ISCHR(made.st_mode) and stat.S_IMODE(made.st_mode) == 0o444
    assert (os.major(made.st_rdev), os.minor(made.st_rdev)) == (241, 12)
    assert stat.S_IMODE((host.root / "dev/nvidia-caps").stat().st_mode) == 0o755
    assert not executor.apply(MAKE).changed


def test_a_stand_in_counts(host: Host, executor: Executor) -> None:
    host.file("/proc/devices", DEVICES)
    host.file("/dev/nvidia-caps/nvidia-cap12", "")
    assert not executor.apply(MAKE).changed


def test_a_driver_that_knows_no_parts(host: Host, executor: Executor) -> None:
    host.file("/proc/devices", "Character devices:\n195 nvidia\n")
    host.file("/dev/keep", "")
    with pytest.raises(HardwareError, match="no nvidia-caps"):
        executor.apply(MAKE)
    assert not (host.root / "dev/nvidia-caps").exists()


def test_a_link_in_the_way_is_not_followed(host: Host, executor: Executor) -> None:
    host.file("/proc/devices", DEVICES)
    host.file("/dev/keep", "")
    host.link("/dev/nvidia-caps", "/etc")
    (host.root / "etc").mkdir()
    with pytest.raises(DeniedError, match="symbolic link"):
        executor.apply(MAKE)
    assert not list((host.root / "etc").iterdir())


def test_minors_that_no_kernel_has() -> None:
    for minor in (-1, 1 << 20):
        with pytest.raises(InvalidError, match="minor"):
            MakeCapabilityNode(minor)
