from __future__ import annotations

from pathlib import Path

import pytest

from dray.hardware.facts import Found
from dray.hardware.host_root import HostRoot
from dray.hardware.pci import PciFunction, Sriov, read_pci
from dray.hardware.vgpu import PassThrough, VgpuFunction, VgpuType, pass_through, read_vgpus, why_not
from dray.testing.host import Host

TYPES = {1428: "NVIDIA H200X-141C", 1414: "NVIDIA H200X-1-18C"}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path / "root")
    gpu = host.pci(
        "0000:41:00.0", vendor="10de", device="2335", driver="nvidia", iommu_group=20, sriov_total=4
    )
    for _ in range(2):
        gpu.vf(driver="nvidia", vgpu_types=TYPES)
    gpu.vfs[0].set_vgpu_type(1414)
    return host


def read(host: Host) -> Found[VgpuFunction]:
    root = HostRoot(host.root)
    return read_vgpus(root, read_pci(root).items)


def creatable(address: str) -> str:
    return f"/sys/bus/pci/devices/{address}/nvidia/creatable_vgpu_types"


def test_what_each_function_has_and_could_have(host: Host) -> None:
    types = (VgpuType(1414, "NVIDIA H200X-1-18C"), VgpuType(1428, "NVIDIA H200X-141C"))
    assert read(host) == Found(
        (VgpuFunction("0000:41:00.4", "1414", types), VgpuFunction("0000:41:00.5", None, types))
    )


def test_lines_with_and_without_heading(host: Host) -> None:
    host.garbage(creatable("0000:41:00.4"), b"1428 : NVIDIA H200X-141C\n  7:A : B \n\n")
    assert read(host).items[0].creatable == (VgpuType(7, "A : B"), VgpuType(1428, "NVIDIA H200X-141C"))
    host.garbage(creatable("0000:41:00.4"), b"")
    assert read(host).items[0].creatable == ()


def test_what_cannot_be_read_hides_no_function(host: Host) -> None:
    host.garbage(creatable("0000:41:00.4"), b"1 : A\nodd\n: B\n")
    host.unreadable(creatable("0000:41:00.5"))
    found = read(host)
    assert [item.creatable for item in found.items] == [(VgpuType(1, "A"),), ()]
    assert len(found.problems) == 3
    host.vanish(creatable("0000:41:00.5"))
    assert len(read(host).problems) == 2


def function(
    driver: str | None, *, pf: bool = False, vgpu: bool = False, profile: str | None = None
) -> PciFunction:
    sriov = Sriov(4) if pf else None
    return PciFunction(
        "0000:41:00.0",
        "10de",
        "2335",
        "030200",
        driver=driver,
        sriov=sriov,
        is_vgpu=vgpu,
        vgpu_profile=profile,
    )


@pytest.mark.parametrize(
    ("given", "rule", "advice"),
    [
        (function("vfio-pci"), PassThrough.VFIO, ""),
        (function("vfio-pci", pf=True), PassThrough.VFIO, ""),
        (function("nvidia", vgpu=True, profile="256"), PassThrough.VGPU, ""),
        (function("nvidia", pf=True, vgpu=True, profile="256"), None, "physical function"),
        (function("nvidia", vgpu=True), None, "current_vgpu_type"),
        (function("nvidia"), None, "bound to nvidia"),
        (function("nouveau", vgpu=True, profile="256"), None, "bound to nouveau"),
        (function(None), None, "no driver"),
    ],
)
def test_the_rule_that_permits_a_function(given: PciFunction, rule: PassThrough | None, advice: str) -> None:
    assert pass_through(given) == rule
    assert advice in why_not(given)
    assert bool(why_not(given)) == (rule is None)
