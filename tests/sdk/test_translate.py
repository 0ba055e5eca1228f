from __future__ import annotations

from typing import Any

import pytest

from dray.cdi.edits import ContainerEdits, DeviceNode
from dray.cdi.edits import Mount as CdiMount
from dray.dra.claims.stored_device import restore, store
from dray.drivers.contract import Health
from dray.errors import InvalidError
from dray.sdk import Device, Edits, Mount, Node
from dray.sdk.translate import required, to_contract, to_device, to_edits

FULL = Device(
    "desk",
    nodes=("/dev/lamp0",),
    mounts=("/run/lamp0.sock",),
    attributes={"colour": "red", "watts": 60, "dimmable": True},
    versions={"firmware": "1.2.3"},
    capacity={"watts": "60", "memory": "16Gi"},
    shares=3,
    numa_node=1,
    pci_address="0000:05:00.0",
)


def test_a_device_comes_back_as_it_was_also_out_of_a_checkpoint() -> None:
    there = to_contract(FULL, "lamp.example.com", "example.com/lamp")
    assert to_device(there) == FULL
    kept = to_device(restore(store(there)))
    assert kept.problem and kept == to_device(restore(store(there)))
    assert (kept.nodes, kept.mounts, kept.attributes) == (FULL.nodes, FULL.mounts, FULL.attributes)


def test_a_problem_is_ill_health() -> None:
    there = to_contract(Device("desk", problem="bulb\x07broken"), "k", "r")
    assert (there.health, there.reason) == (Health.UNHEALTHY, "bulb\N{REPLACEMENT CHARACTER}broken")
    assert to_contract(Device("desk"), "k", "r").health is Health.HEALTHY


def test_no_numa_node_as_sysfs_says_it() -> None:
    assert to_contract(Device("desk", numa_node=-1), "k", "r").numa_node is None


def test_another_driver_knows_the_same_function_by_its_address() -> None:
    assert to_contract(FULL, "k", "r").parts == ("pci:0000:05:00.0",)
    assert to_contract(Device("desk"), "k", "r").parts == ("k:desk",)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"id": ""}, "id"),
        ({"id": "a" * 64}, "id"),
        ({"id": "a" * 60, "shares": 2}, "short"),
        ({"id": "a\nb"}, "printable"),
        ({"id": 5}, "id"),
        ({"nodes": "/dev/lamp0"}, "nodes"),
        ({"nodes": ["dev/lamp0"]}, "nodes[0]"),
        ({"mounts": ["/a\0"]}, "mounts[0]"),
        ({"attributes": None}, "attributes"),
        ({"attributes": {"a": 1.5}}, "attributes"),
        ({"versions": {"a": 1}}, "versions"),
        ({"capacity": {"m": "16Xi"}}, "capacity m"),
        ({"shares": 0}, "shares"),
        ({"numa_node": "0"}, "numa_node"),
        ({"pci_address": "05:00.0"}, "pci_address"),
        ({"problem": None}, "problem"),
    ],
)
def test_what_is_no_device(fields: dict[str, Any], text: str) -> None:
    device = Device(**{"id": "desk", **fields})
    with pytest.raises(InvalidError) as caught:
        to_contract(device, "k", "r")
    assert text in str(caught.value)


def test_edits() -> None:
    edits = Edits(
        env={"B": "2", "A": "1"},
        nodes=[Node("/dev/lamp0"), Node("/dev/lamp1", "/dev/other", "r")],
        mounts=[Mount("/run/a", read_only=True), Mount("/run/b", "/b")],
    )
    assert to_edits(edits) == ContainerEdits(
        env=(("B", "2"), ("A", "1")),
        device_nodes=(
            DeviceNode("/dev/lamp0", "/dev/lamp0", "rw"),
            DeviceNode("/dev/lamp1", "/dev/other", "r"),
        ),
        mounts=(CdiMount("/run/a", "/run/a", True), CdiMount("/run/b", "/b")),
    )


@pytest.mark.parametrize(
    "edits",
    [
        None,
        Edits(env={"A=B": "1"}),
        Edits(env={"": "1"}),
        Edits(env={"A": "\0"}),
        Edits(nodes=[Node("dev/lamp0")]),
        Edits(nodes=[Node("/dev/lamp0", permissions="rx")]),
        Edits(mounts=[Mount("/a", "/c"), Mount("/b", "/c")]),
    ],
)
def test_what_no_container_can_get(edits: Any) -> None:
    with pytest.raises(InvalidError):
        to_edits(edits)


def test_required_paths_each_once() -> None:
    one, two = (to_contract(Device(name, nodes=["/dev/a"], mounts=[f"/{name}"]), "k", "r") for name in "xy")
    assert required([one, two]) == ("/dev/a", "/x", "/y")
