from __future__ import annotations

from pathlib import Path

import pytest

from dray.hardware.facts import Found
from dray.hardware.host_root import HostRoot
from dray.hardware.numa import NumaNode, read_numa
from dray.testing.host import Host

NODE = "/sys/devices/system/node/node1"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    host = Host(tmp_path)
    host.numa_node(0, cpus="0-3,8", memory_kb=1024)
    host.numa_node(1, cpus="4-7", memory_kb=2048)
    return host


def read(host: Host) -> Found[NumaNode]:
    return read_numa(HostRoot(host.root))


def test_processors_memory_and_distances(host: Host) -> None:
    first = NumaNode(0, (0, 1, 2, 3, 8), 1 << 20, (10, 20))
    assert read(host) == Found((first, NumaNode(1, (4, 5, 6, 7), 2 << 20, (20, 10))))


def test_nodes_are_in_order_of_number(host: Host) -> None:
    for node in (10, 2):
        host.numa_node(node, cpus=str(20 + node))
    assert [node.id for node in read(host).items] == [0, 1, 2, 10]


def test_a_kernel_without_numa(tmp_path: Path) -> None:
    assert read(Host(tmp_path)) == Found()


def test_a_node_with_memory_alone(host: Host) -> None:
    host.garbage(f"{NODE}/cpulist", b"\n")
    assert read(host).items[1] == NumaNode(1, (), 2 << 20, (20, 10))


@pytest.mark.parametrize("text", [b"\xff", b"4-x\n", b"7-4\n", b"0-99999999\n"])
def test_processors_that_cannot_be_read_hide_the_node(host: Host, text: bytes) -> None:
    host.garbage(f"{NODE}/cpulist", text)
    found = read(host)
    assert [node.id for node in found.items] == [0]
    assert [problem.path for problem in found.problems] == [f"{NODE}/cpulist"]


@pytest.mark.parametrize("text", [b"\xff", b"\n", b"10 far\n"])
def test_distances_that_cannot_be_read_are_not_known(host: Host, text: bytes) -> None:
    host.garbage(f"{NODE}/distance", text)
    found = read(host)
    assert [node.distances for node in found.items] == [(10, 20), None]
    assert [problem.path for problem in found.problems] == [f"{NODE}/distance"]


@pytest.mark.parametrize("text", [b"\xff", b"", b"Node 1 MemTotal: much\n"])
def test_memory_that_cannot_be_read_is_not_known(host: Host, text: bytes) -> None:
    host.garbage(f"{NODE}/meminfo", text)
    found = read(host)
    assert [node.memory for node in found.items] == [1 << 20, None]
    assert [problem.path for problem in found.problems] == [f"{NODE}/meminfo"]
