from __future__ import annotations

import os
from pathlib import Path

import pytest

from dray.errors import InvalidError
from dray.testing.host import Host
from dray.testing.host.system import cpu_list, cpu_mask, parse_cpus


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-3,8", (0, 1, 2, 3, 8)), ("5", (5,)), ("", ()), ("1,0", (0, 1)), ("2-2", (2,))]
)
def test_parse_cpus(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpus(text) == cpus


@pytest.mark.parametrize("text", ["a", "1-", "-1", "1--2", "1 2"])
def test_parse_cpus_refuses(text: str) -> None:
    with pytest.raises(InvalidError, match="0-3,8"):
        parse_cpus(text)


def test_cpu_list_and_mask_are_the_kernels() -> None:
    assert cpu_list((0, 1, 2, 5, 7, 8)) == "0-2,5,7-8"
    assert cpu_list(()) == ""
    assert cpu_mask((0, 1), 2) == "3"
    assert cpu_mask((4, 5, 6, 7), 8) == "f0"
    assert cpu_mask((0, 32, 39), 40) == "81,00000001"
    assert cpu_mask((), 64) == "00000000,00000000"


def test_numa_nodes(tmp_path: Path) -> None:
    host = Host(tmp_path)
    near = host.pci("0000:05:00.0", vendor="10de", device="2330", numa_node=1)
    anywhere = host.pci("0000:06:00.0", vendor="10de", device="2330")
    host.numa_node(0, cpus="0-1")
    host.numa_node(1, cpus="2-3", memory_kb=4096)
    nodes = tmp_path / "sys/devices/system/node"
    assert (nodes / "online").read_text() == "0-1\n"
    assert (nodes / "node1/cpulist").read_text() == "2-3\n"
    assert (nodes / "node1/distance").read_text() == "20 10\n"
    assert "4096 kB" in (nodes / "node1/meminfo").read_text()
    assert "4096 kB" not in (nodes / "node0/meminfo").read_text()
    assert os.readlink(tmp_path / "sys/bus/node/devices/node1") == "../../../devices/system/node/node1"
    assert (near.path / "local_cpulist").read_text() == "2-3\n"
    assert (anywhere.path / "local_cpulist").read_text() == "0-3\n"
    near.set(numa_node=0)
    assert (near.path / "local_cpus").read_text() == "3\n"


def test_misc_capacity(tmp_path: Path) -> None:
    host = Host(tmp_path)
    capacity = tmp_path / "sys/fs/cgroup/misc.capacity"
    assert not capacity.exists()
    host.misc_capacity(sev=500, sev_es=99, tdx=10)
    assert capacity.read_text() == "sev 500\nsev_es 99\ntdx 10\n"
    host.misc_capacity()
    assert capacity.read_text() == ""


def test_cgroup_version(tmp_path: Path) -> None:
    host = Host(tmp_path)
    controllers = tmp_path / "sys/fs/cgroup/cgroup.controllers"
    assert "misc" in controllers.read_text().split()
    host.cgroup(1)
    assert not controllers.exists()
    assert (tmp_path / "sys/fs/cgroup/devices").is_dir()
    host.cgroup(2)
    assert controllers.exists()
    with pytest.raises(InvalidError, match="3"):
        host.cgroup(3)


def test_selinux(tmp_path: Path) -> None:
    host = Host(tmp_path)
    enforce = tmp_path / "sys/fs/selinux/enforce"
    assert not enforce.exists()
    host.selinux("enforcing")
    assert enforce.read_text() == "1"
    host.selinux("permissive")
    assert enforce.read_text() == "0"
    host.selinux("disabled")
    assert not enforce.parent.exists()


def test_modules(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.module("kvm-intel", nested="Y")
    assert (tmp_path / "sys/module/kvm_intel/parameters/nested").read_text() == "Y\n"
