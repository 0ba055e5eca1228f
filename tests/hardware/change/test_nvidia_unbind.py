from __future__ import annotations

import threading

import pytest

from dray.errors import ConflictError, HardwareError, InvalidError
from dray.hardware.change import BindDriver, SetUnbindLock
from dray.hardware.change.access import Access
from dray.hardware.change.executor import Executor
from dray.testing.host import Host, PciFunction

ADDRESS = "0000:05:00.0"
CARD = f"/proc/driver/nvidia/gpus/{ADDRESS}"
LOCK = SetUnbindLock(ADDRESS)


@pytest.fixture
def card(host: Host) -> PciFunction:
    host.driver("vfio-pci")
    host.file(f"{CARD}/information", "Model: \t\t NVIDIA H200\nDevice Minor: \t 3\nGPU Excluded:\t No\n")
    host.file(f"{CARD}/unbindLock", "0\n", mode=0o644)
    return host.pci(ADDRESS, vendor="10de", device="2335", driver="nvidia", iommu_group=2, sriov_total=4)


def lock(host: Host) -> str:
    return (host.root / CARD.lstrip("/") / "unbindLock").read_text().strip()


def test_the_lock_is_taken_and_given_back(
    host: Host, card: PciFunction, executor: Executor, access: Access
) -> None:
    assert not LOCK.is_so(access)
    done = executor.apply(LOCK)
    assert lock(host) == "1" and done.undo == SetUnbindLock(ADDRESS, locked=False)
    assert not executor.apply(LOCK).changed
    executor.undo(done)
    assert lock(host) == "0"


def test_a_card_of_another_driver_needs_none(host: Host, card: PciFunction, executor: Executor) -> None:
    executor.apply(BindDriver(ADDRESS, "vfio-pci"))
    assert not executor.apply(LOCK).changed
    assert lock(host) == "0"


def test_a_card_that_a_process_has_open_stays(host: Host, card: PciFunction, quick: Executor) -> None:
    """The error names the process, and not one that has another card."""
    host.file("/proc/12/comm", "python3\n")
    host.link("/proc/12/fd/30", "/dev/nvidia3")
    host.file("/proc/13/comm", "other\n")
    host.link("/proc/13/fd/30", "/dev/nvidia30")
    with pytest.raises(ConflictError, match=r"in use by process 12 \(python3\): stop it first"):
        quick.apply(LOCK)
    assert lock(host) == "0"


def test_the_last_process_may_take_a_moment_to_end(host: Host, card: PciFunction, executor: Executor) -> None:
    host.file("/proc/12/comm", "python3\n")
    host.link("/proc/12/fd/30", "/dev/nvidia3")
    ending = threading.Timer(0.2, (host.root / "proc/12/fd/30").unlink)
    ending.start()
    assert executor.apply(LOCK).changed
    ending.join()


def test_a_driver_that_does_not_take_the_lock(host: Host, card: PciFunction, quick: Executor) -> None:
    """What is written stands before the old text here, and changes nothing."""
    (host.root / CARD.lstrip("/") / "unbindLock").unlink()
    host.file(f"{CARD}/unbindLock", "somebody has it: 0\n", mode=0o644)
    with pytest.raises(HardwareError, match="does not take the lock"):
        quick.apply(LOCK)


def test_virtual_functions_would_vanish(host: Host, card: PciFunction, executor: Executor) -> None:
    card.vf(driver="nvidia")
    with pytest.raises(ConflictError, match="has virtual functions"):
        executor.apply(LOCK)
    assert lock(host) == "0"


def test_a_driver_without_a_lock(host: Host, card: PciFunction, quick: Executor) -> None:
    """As on the H200 that was tried: then only nobody may use the card."""
    (host.root / CARD.lstrip("/") / "unbindLock").unlink()
    assert not quick.apply(LOCK).changed
    host.file("/proc/12/comm", "python3\n")
    host.link("/proc/12/fd/30", "/dev/nvidia3")
    with pytest.raises(ConflictError, match="in use by process 12"):
        quick.apply(LOCK)
    assert not quick.apply(SetUnbindLock(ADDRESS, locked=False)).changed


def test_addresses_only() -> None:
    with pytest.raises(InvalidError):
        SetUnbindLock("../../etc/passwd")
