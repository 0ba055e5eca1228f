from __future__ import annotations

import pytest

from dray.errors import ConflictError, HardwareError, InvalidError, NotFoundError
from dray.hardware.change import SetSriovVfs, SetVgpuProfile
from dray.hardware.change.executor import Executor
from dray.testing.host import Host, PciFunction

PF = "0000:05:00.0"


@pytest.fixture
def card(host: Host) -> PciFunction:
    return host.pci(PF, vendor="10de", device="2330", driver="nvidia", iommu_group=2, sriov_total=4)


@pytest.fixture
def vf(card: PciFunction) -> PciFunction:
    return card.vf(driver="nvidia", vgpu_types={1414: "NVIDIA H200X-1-18C", 1415: "NVIDIA H200X-2-35C"})


def test_virtual_functions_come_and_go(card: PciFunction, executor: Executor) -> None:
    made = executor.apply(SetSriovVfs(PF, 3))
    assert made.undo == SetSriovVfs(PF, 0) and len(card.vfs) == 3
    assert not executor.apply(SetSriovVfs(PF, 3)).changed
    undone = executor.undo(made)
    assert undone is not None and undone.undo == SetSriovVfs(PF, 3) and not card.vfs


def test_from_one_number_to_another_goes_by_zero(card: PciFunction, executor: Executor) -> None:
    executor.apply(SetSriovVfs(PF, 2))
    with pytest.raises(ConflictError, match=f"{PF} has 2 virtual functions: set 0 first"):
        executor.apply(SetSriovVfs(PF, 4))
    executor.apply_all([SetSriovVfs(PF, 0), SetSriovVfs(PF, 4)])
    assert len(card.vfs) == 4


def test_more_than_the_card_makes(card: PciFunction, executor: Executor) -> None:
    with pytest.raises(HardwareError, match="it makes 4 at most"):
        executor.apply(SetSriovVfs(PF, 5))
    with pytest.raises(InvalidError):
        SetSriovVfs(PF, -1)


def test_a_card_that_fails_in_silence(host: Host, card: PciFunction, quick: Executor) -> None:
    host.ignore_writes("*/sriov_numvfs")
    with pytest.raises(HardwareError, match=f"{PF}: asked for 2"):
        quick.apply(SetSriovVfs(PF, 2))


def test_a_function_without_sriov(host: Host, executor: Executor) -> None:
    host.pci("0000:06:00.0", vendor="10de", device="2330")
    for address in ("0000:06:00.0", "0000:07:00.0"):
        with pytest.raises(NotFoundError, match=address):
            executor.apply(SetSriovVfs(address, 1))
        with pytest.raises(NotFoundError, match=address):
            executor.apply(SetVgpuProfile(address, 1))


def test_profiles(host: Host, vf: PciFunction, executor: Executor) -> None:
    current = vf.path / "nvidia/current_vgpu_type"
    first = executor.apply(SetVgpuProfile(vf.address, 1414))
    assert current.read_text() == "1414\n" and first.undo == SetVgpuProfile(vf.address, 0)
    assert not executor.apply(SetVgpuProfile(vf.address, 1414)).changed
    second = executor.apply(SetVgpuProfile(vf.address, 1415))
    assert current.read_text() == "1415\n" and second.undo == SetVgpuProfile(vf.address, 1414)
    assert [write.text for write in host.writes] == ["1414", "0", "1415"]
    executor.undo(second)
    executor.undo(first)
    assert current.read_text() == "0\n"


def test_a_profile_the_gpu_does_not_offer_leaves_the_old_one(
    host: Host, vf: PciFunction, quick: Executor
) -> None:
    quick.apply(SetVgpuProfile(vf.address, 1414))
    with pytest.raises(HardwareError, match=r"does not offer profile 7 now.*creatable_vgpu_types") as caught:
        quick.apply(SetVgpuProfile(vf.address, 7))
    host.settle()
    assert (vf.path / "nvidia/current_vgpu_type").read_text() == "1414\n"
    assert caught.value.device == vf.address


def test_a_virtual_function_in_use_stays(host: Host, card: PciFunction, executor: Executor) -> None:
    vf = card.vf(driver="vfio-pci")
    host.link("/proc/12/fd/30", f"/dev/vfio/{vf.facts.iommu_group}")
    with pytest.raises(ConflictError, match=f"{PF} is in use by process 12"):
        executor.apply(SetSriovVfs(PF, 0))
    assert card.vfs == [vf]
