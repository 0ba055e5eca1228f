from __future__ import annotations

from pathlib import Path

import pytest

from dray.doctor.passthrough import Node, Passthrough, check_passthrough, look_at_passthrough
from dray.doctor.places import State
from dray.errors import InvalidError
from dray.testing.host import Host
from tests.doctor.findings_text import text_of, told


def test_a_machine_with_everything(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.pci("0000:05:00.0", vendor="10de", device="2330", driver="vfio-pci", iommu_group=3)
    host.char_device("/dev/kvm", 10, 232, mode=0o666)
    host.module("vfio")
    host.module("vfio_pci")
    facts = look_at_passthrough(str(tmp_path))
    assert (facts.groups, facts.cards, facts.modules) == (1, 1, ("vfio", "vfio_pci"))
    findings = list(check_passthrough(facts))
    assert {("iommu", "ok"), ("vfio", "ok"), ("kvm", "ok"), ("selinux", "ok"), ("nvidia", "note")} == told(
        findings
    )


@pytest.mark.parametrize(
    ("cpu", "line", "advice"),
    [
        ("vendor_id : GenuineIntel\nflags : vmx", "quiet", "intel_iommu=on iommu=pt"),
        ("vendor_id : GenuineIntel\nflags : vmx", "intel_iommu=on", "firmware"),
        ("vendor_id : AuthenticAMD\nflags : svm", "quiet", "AMD-Vi"),
        ("", "", "firmware"),
    ],
)
def test_without_an_iommu_it_says_what_to_add(tmp_path: Path, cpu: str, line: str, advice: str) -> None:
    host = Host(tmp_path)
    host.file("/proc/cpuinfo", cpu)
    host.file("/proc/cmdline", line)
    facts = look_at_passthrough(str(tmp_path))
    findings = list(check_passthrough(facts))
    assert ("iommu", "note") in told(findings)
    assert advice in text_of(findings, "iommu")
    assert ("firmware (or nested" in text_of(findings, "kvm")) == (not facts.has_virtualization)


def test_rights_and_enforcing() -> None:
    facts = Passthrough(kvm=Node(State.THERE, may_open=False), selinux="enforcing", groups=2)
    found = list(check_passthrough(facts))
    assert {("kvm", "warning"), ("selinux", "note"), ("vfio", "note")} <= told(found)
    assert "modprobe vfio vfio-pci" in text_of(found, "vfio")
    denied = check_passthrough(Passthrough(kvm=Node(State.DENIED)))
    assert "run as root" in text_of(denied, "kvm")


def test_nvidia() -> None:
    facts = Passthrough(
        has_nvidia=True, nvml="the driver is too old", nvidia_nodes={"/dev/nvidiactl": Node()}
    )
    found = list(check_passthrough(facts))
    assert {("nvidia", "warning"), ("nvidia-nodes", "warning")} <= told(found)
    assert "/dev/nvidiactl" in text_of(found, "nvidia-nodes")
    assert ("nvidia", "ok") in told(check_passthrough(Passthrough(has_nvidia=True)))


def test_a_host_with_nvidias_driver_and_without_its_library(tmp_path: Path) -> None:
    Host(tmp_path).file("/proc/driver/nvidia/version", "NVRM")
    facts = look_at_passthrough(str(tmp_path))
    assert facts.has_nvidia
    assert "not found" in facts.nvml


def test_a_root_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidError):
        look_at_passthrough(str(tmp_path / "none"))
