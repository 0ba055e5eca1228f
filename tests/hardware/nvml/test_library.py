from __future__ import annotations

from pathlib import Path

import pytest

from dray.hardware.host_root import HostRoot
from dray.hardware.nvml.library import DIRECTORIES, LIBRARY, find_library, has_driver
from dray.testing.host import Host


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_the_library_is_found_where_distributions_put_it(tmp_path: Path, directory: str) -> None:
    Host(tmp_path).file(f"{directory}/{LIBRARY}", "")
    assert find_library(HostRoot(tmp_path)) == f"{directory}/{LIBRARY}"


def test_a_link_is_followed_as_the_host_would(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.file("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.159.04", "")
    host.link(f"/usr/lib/x86_64-linux-gnu/{LIBRARY}", "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.159.04")
    assert find_library(HostRoot(tmp_path)) == f"/usr/lib/x86_64-linux-gnu/{LIBRARY}"


def test_links_that_lead_nowhere_are_passed_over(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.link(f"/usr/lib64/{LIBRARY}", LIBRARY)
    host.link(f"/usr/lib/x86_64-linux-gnu/{LIBRARY}", "/gone")
    host.file("/etc/ld.so.cache", "no cache at all")
    assert find_library(HostRoot(tmp_path)) is None
    host.file(f"/usr/lib/{LIBRARY}", "")
    assert find_library(HostRoot(tmp_path)) == f"/usr/lib/{LIBRARY}"


def test_a_loaded_module_shows(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert not has_driver(HostRoot(tmp_path))
    host.file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04\n")
    assert has_driver(HostRoot(tmp_path))
