from __future__ import annotations

import pytest

from dray.kubelet.devices.known import Device
from dray.kubelet.plugins.listing import LONGEST_ID, MOST_DEVICES, read
from dray.wire.gen.deviceplugin_v1beta1_pb2 import Device as WireDevice
from dray.wire.gen.deviceplugin_v1beta1_pb2 import ListAndWatchResponse, NUMANode, TopologyInfo


def wire(name: str, *nodes: int, health: str = "Healthy", topology: bool = False) -> WireDevice:
    info = TopologyInfo(nodes=[NUMANode(ID=node) for node in nodes]) if nodes or topology else None
    return WireDevice(ID=name, health=health, topology=info)


@pytest.mark.parametrize(
    ("listed", "expected", "faults"),
    [
        ([], (), ()),
        ([wire("b"), wire("a")], (Device("b"), Device("a")), ()),
        ([wire("a", health="healthy")], (Device("a", is_healthy=False),), ()),
        ([wire("a", health="")], (Device("a", is_healthy=False),), ()),
        ([wire("a", 1, 0)], (Device("a", nodes=(0, 1), has_topology=True),), ()),
        ([wire("a", topology=True)], (Device("a", has_topology=True),), ()),
        (
            [wire("a"), wire("a", health="Unhealthy")],
            (Device("a", is_healthy=False),),
            ("1 ids listed again",),
        ),
        ([wire(""), wire("a"), wire("")], (Device("a"),), ("2 devices without an id",)),
        (
            [wire("i" * LONGEST_ID), wire("i" * (LONGEST_ID + 1))],
            (Device("i" * LONGEST_ID),),
            ("1 devices with an id of more than 4096 characters",),
        ),
        ([wire("a", -1)], (Device("a"),), ("1 devices on NUMA nodes that cannot be",)),
        (
            [wire("a", -5, 2, 2**62), wire("b", 2**63 - 1), wire("c", 1024), wire("d", 1023)],
            (
                Device("a", nodes=(2,), has_topology=True),
                Device("b"),
                Device("c"),
                Device("d", nodes=(1023,), has_topology=True),
            ),
            ("3 devices on NUMA nodes that cannot be",),
        ),
    ],
)
def test_lists(listed: list[WireDevice], expected: tuple[Device, ...], faults: tuple[str, ...]) -> None:
    found = read(ListAndWatchResponse(devices=listed))
    assert found.devices == expected
    assert found.faults == faults


def test_a_list_without_end_is_cut() -> None:
    listed = b"".join(b"\x0a\x07\x0a\x05%05x" % one for one in range(MOST_DEVICES + 7))
    found = read(ListAndWatchResponse.FromString(listed))
    assert len(found.devices) == MOST_DEVICES
    assert found.faults == (f"7 devices beyond the first {MOST_DEVICES}",)
