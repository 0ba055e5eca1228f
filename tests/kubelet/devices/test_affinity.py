from __future__ import annotations

import pytest

from dray.kubelet.devices.affinity import Split, is_on, split_by_affinity
from dray.kubelet.devices.known import Device, DeviceList
from dray.kubelet.topology.hints import Hint

LISTED = {
    "dev1": (1,),
    "dev2": (1, 2),
    "dev3": (2,),
    "dev4": (2,),
    "dev5": (),
    "dev6": (-1,),
    "dev7": (-1, 3),
}
DEVICES = DeviceList(Device(name, nodes=nodes, has_topology=bool(nodes)) for name, nodes in LISTED.items())


@pytest.mark.parametrize(
    ("available", "nodes", "aligned", "unaligned", "unbound"),
    [
        ("dev1 dev2", 0b100, "dev2", "dev1", ""),
        ("dev1 dev2 dev3 dev4", 0b100, "dev2 dev3 dev4", "dev1", ""),
        ("dev1 dev2 dev3 dev4", None, "", "", "dev1 dev2 dev3 dev4"),
        ("dev1 dev5 dev6 dev7 gone", 0b10, "dev1", "dev7", "dev5 dev6 gone"),
        ("", 0b10, "", "", ""),
    ],
)
def test_split(available: str, nodes: int | None, aligned: str, unaligned: str, unbound: str) -> None:
    found = split_by_affinity(frozenset(available.split()), DEVICES, Hint(nodes, True))
    assert found == Split(*(frozenset(text.split()) for text in (aligned, unaligned, unbound)))


def test_without_any_node_a_hint_means_nothing() -> None:
    available = frozenset({"dev5"})
    assert split_by_affinity(available, DeviceList([Device("dev5")]), Hint(0b1, True)).unbound == available


def test_odd_nodes_are_nowhere() -> None:
    assert not is_on((-1, -(2**63), 2**63 - 1), 0b11)
    assert is_on((-1, 1), 0b11)
