from __future__ import annotations

import os

import pytest

from dray.errors import ConflictError, DeniedError, HardwareError, InvalidError, NotFoundError
from dray.hardware.change import BindDriver, UnbindDriver
from dray.hardware.change.access import Access
from dray.hardware.change.executor import Executor
from dray.testing.host import Host, PciFunction

ADDRESS = "0000:05:00.0"
BIND = BindDriver(ADDRESS, "vfio-pci")


@pytest.fixture
def nic(host: Host) -> PciFunction:
    host.driver("vfio-pci")
    return host.pci(ADDRESS, vendor="8086", device="10d3", driver="e1000e", iommu_group=2)


def override(nic: PciFunction) -> str:
    return (nic.path / "driver_override").read_text().strip()


def test_bind_and_undo(host: Host, nic: PciFunction, executor: Executor, access: Access) -> None:
    assert not BIND.is_so(access)
    bound = executor.apply(BIND)
    assert bound.changed and BIND.is_so(access)
    assert (nic.driver, override(nic)) == ("vfio-pci", "vfio-pci")
    assert (host.root / "dev/vfio/2").exists()
    assert bound.undo == BindDriver(ADDRESS, "e1000e", override="")
    executor.undo(bound)
    assert (nic.driver, override(nic)) == ("e1000e", "(null)")


def test_twice_is_fine(host: Host, nic: PciFunction, executor: Executor) -> None:
    executor.apply(BIND)
    seen = len(host.writes)
    assert not executor.apply(BIND).changed
    assert executor.apply(UnbindDriver(ADDRESS)).changed
    assert not executor.apply(UnbindDriver(ADDRESS)).changed
    assert len(host.writes) == seen + 1


def test_a_function_without_a_driver(host: Host, nic: PciFunction, executor: Executor) -> None:
    nic.unbind()
    bound = executor.apply(BIND)
    assert nic.driver == "vfio-pci" and bound.undo == UnbindDriver(ADDRESS, override="")
    executor.undo(bound)
    assert (nic.driver, override(nic)) == ("", "(null)")


def test_unbind_and_undo(nic: PciFunction, executor: Executor) -> None:
    executor.apply(BIND)
    freed = executor.apply(UnbindDriver(ADDRESS))
    assert nic.driver == "" and freed.undo == BindDriver(ADDRESS, "vfio-pci", override="vfio-pci")
    executor.undo(freed)
    assert (nic.driver, override(nic)) == ("vfio-pci", "vfio-pci")


def test_a_driver_that_refuses_gives_the_function_back(host: Host, nic: PciFunction, quick: Executor) -> None:
    host.ignore_writes("*/vfio-pci/bind")
    with pytest.raises(HardwareError, match=f"{ADDRESS}: vfio-pci did not take it.*IOMMU") as caught:
        quick.apply(BIND)
    assert (nic.driver, override(nic)) == ("e1000e", "(null)")
    assert caught.value.device == ADDRESS
    assert "could not be given back" not in str(caught.value)


@pytest.mark.parametrize("pattern", ["*/driver_override", "*/e1000e/unbind"])
def test_a_step_that_does_nothing_leaves_all_as_it_was(
    host: Host, nic: PciFunction, quick: Executor, executor: Executor, pattern: str
) -> None:
    host.ignore_writes(pattern)
    with pytest.raises(HardwareError, match=ADDRESS):
        quick.apply(BIND)
    assert (nic.driver, override(nic)) == ("e1000e", "(null)")
    assert executor.apply(BIND).changed


def test_a_function_that_cannot_be_given_back_says_so(host: Host, nic: PciFunction, quick: Executor) -> None:
    host.ignore_writes("*/bind", times=2)
    with pytest.raises(HardwareError, match="could not be given back to e1000e"):
        quick.apply(BIND)
    assert nic.driver == ""


def test_slow_drivers_are_waited_for(host: Host, nic: PciFunction, executor: Executor) -> None:
    host.delay_writes("*bind", 0.1)
    host.delay_writes("*/driver_override", 0.05)
    executor.undo(executor.apply(BIND))
    assert nic.driver == "e1000e"


def test_what_is_not_there(host: Host, nic: PciFunction, executor: Executor) -> None:
    with pytest.raises(NotFoundError, match="driver nvidia is not loaded: run `modprobe nvidia`"):
        executor.apply(BindDriver(ADDRESS, "nvidia"))
    for change in (BindDriver("0000:09:00.0", "vfio-pci"), UnbindDriver("0000:09:00.0")):
        with pytest.raises(NotFoundError, match=r"no PCI function 0000:09:00\.0"):
            executor.apply(change)
    assert nic.driver == "e1000e"


def test_a_device_in_use_stays(host: Host, nic: PciFunction, executor: Executor) -> None:
    executor.apply(BIND)
    host.file("/proc/12/comm", "qemu-kvm\n")
    host.link("/proc/12/fd/30", "/dev/vfio/2")
    for change in (UnbindDriver(ADDRESS), BindDriver(ADDRESS, "e1000e")):
        with pytest.raises(ConflictError, match="in use by process 12"):
            executor.apply(change)
    assert (nic.driver, override(nic)) == ("vfio-pci", "vfio-pci")


def test_a_device_held_by_its_own_node_stays(host: Host, executor: Executor) -> None:
    """Kernels with VFIO character devices: the holder need not have the group open."""
    nic = host.pci(ADDRESS, vendor="8086", device="10d3", driver="vfio-pci", iommu_group=2)
    (name,) = (entry.name for entry in (nic.path / "vfio-dev").iterdir())
    host.link("/proc/12/fd/30", f"/dev/vfio/devices/{name}")
    with pytest.raises(ConflictError, match="in use"):
        executor.apply(UnbindDriver(ADDRESS))


def test_a_dev_without_vfio_is_not_waited_for(host: Host, nic: PciFunction, executor: Executor) -> None:
    executor.apply(BIND)
    host.vanish("/dev/vfio")
    assert not executor.apply(BIND).changed


def test_a_link_that_leads_out_of_the_host_is_not_followed(
    host: Host, nic: PciFunction, quick: Executor
) -> None:
    outside = host.root.parent / "outside"
    outside.write_text("untouched")
    host.vanish(f"{nic.directory}/driver_override")
    host.link(f"{nic.directory}/driver_override", str(outside))
    with pytest.raises(NotFoundError, match="driver_override"):
        quick.apply(BIND)
    assert outside.read_text() == "untouched" and nic.driver == "e1000e"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_that_may_not_be_written(host: Host, nic: PciFunction, executor: Executor) -> None:
    host.deny(f"{nic.directory}/driver_override")
    with pytest.raises(DeniedError, match=f"{ADDRESS}.*driver_override"):
        executor.apply(BIND)


@pytest.mark.parametrize("address", ["0000:05:00", "05:00.0", "0000:05:00.8", "../x", "0000:0A:00.0", ""])
def test_addresses(address: str) -> None:
    with pytest.raises(InvalidError, match="PCI address"):
        BindDriver(address, "vfio-pci")


def test_driver_names() -> None:
    for name in ("", "a/b", "..", "a b"):
        with pytest.raises(InvalidError):
            BindDriver(ADDRESS, name)
