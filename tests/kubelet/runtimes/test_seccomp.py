"""What it allows is compared with containerd's in tests/e2e/test_oci_agrees.py; here is what does not need one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.kubelet.runtimes.capabilities import ALL_CAPABILITIES, DEFAULT_CAPABILITIES
from dray.kubelet.runtimes.hidden import MASKED, masked_paths
from dray.kubelet.runtimes.seccomp import default_profile


def allowed(profile: dict[str, Any]) -> set[str]:
    """Without any condition."""
    found = [
        one["names"] for one in profile["syscalls"] if one["action"] == "SCMP_ACT_ALLOW" and "args" not in one
    ]
    return {name for names in found for name in names}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64", "s390x", "ppc64le", "vax"])
def test_calls_that_no_plain_container_may_make(machine: str) -> None:
    profile = default_profile(DEFAULT_CAPABILITIES, machine)
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    forbidden = {"mount", "umount2", "setns", "unshare", "clone", "clone3", "bpf", "init_module", "reboot"}
    forbidden |= {"keyctl", "add_key", "kexec_load", "open_by_handle_at", "socket", "personality", "swapon"}
    assert not forbidden & allowed(profile)
    assert {"read", "openat", "execve", "chroot", "ptrace"} <= allowed(profile)


def test_capabilities_bring_their_calls() -> None:
    plain = allowed(default_profile((), "x86_64"))
    assert "chroot" not in plain
    mighty = default_profile(ALL_CAPABILITIES, "x86_64")
    assert {"mount", "clone", "clone3", "bpf", "reboot", "chroot"} <= allowed(mighty)
    assert not any(one["action"] == "SCMP_ACT_ERRNO" for one in mighty["syscalls"])


def test_counters_of_processors_are_masked(tmp_path: Path) -> None:
    for name in ("cpu0/thermal_throttle", "cpu11/thermal_throttle", "cpu2", "cpufreq/thermal_throttle"):
        (tmp_path / name).mkdir(parents=True)
    found = masked_paths(tmp_path)
    assert found == (*MASKED, f"{tmp_path}/cpu0/thermal_throttle", f"{tmp_path}/cpu11/thermal_throttle")
    assert "/proc/interrupts" in found
