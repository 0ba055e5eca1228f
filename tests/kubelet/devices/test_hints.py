from __future__ import annotations

import pytest

from dray.kubelet.devices.hints import Ask, generate, resource_hints
from dray.kubelet.devices.known import Device, DeviceList
from dray.kubelet.topology.hints import Hint

Found = list[tuple[tuple[int, ...], bool]]


def listed(text: str) -> DeviceList:
    """`a@0 b@0+1 c`: ids with their nodes."""
    found = []
    for word in text.split():
        name, _, nodes = word.partition("@")
        on = tuple(int(node) for node in nodes.split("+") if node)
        found.append(Device(name, nodes=on, has_topology="@" in word))
    return DeviceList(found)


def shown(hints: list[Hint] | None) -> Found | None:
    if hints is None:
        return None
    return [
        (tuple(node for node in range(70) if (one.nodes or 0) >> node & 1), one.preferred) for one in hints
    ]


P, N = True, False


@pytest.mark.parametrize(
    ("devices", "request_", "taken", "expected"),
    [
        ("Dev1 Dev2", 1, "", None),
        ("Dev1 Dev2@1", 1, "", [((1,), P)]),
        ("Dev1@0 Dev2@1", 1, "", [((0,), P), ((1,), P), ((0, 1), N)]),
        ("Dev1@0 Dev2@1", 1, "Dev1", [((1,), P), ((0, 1), N)]),
        ("Dev1@0 Dev2@1", 2, "", [((0, 1), P)]),
        ("Dev1@0 Dev2@1 Dev3@0 Dev4@1", 2, "", [((0,), P), ((1,), P), ((0, 1), N)]),
        ("Dev1@0 Dev2@1 Dev3@0 Dev4@1", 2, "Dev1 Dev2", [((0, 1), N)]),
        ("Dev1@0 Dev2@1 Dev3@0 Dev4@1", 6, "", []),
        ("Dev1@0+1 Dev2@1", 2, "", [((1,), P), ((0, 1), N)]),
        ("Dev1@0 Dev2@1", 0, "", [((0,), P), ((1,), P), ((0, 1), N)]),
    ],
)
def test_new_requests(devices: str, request_: int, taken: str, expected: Found | None) -> None:
    known = listed(devices)
    free = frozenset(known) - set(taken.split())
    ask = Ask(request_, frozenset(), free)
    assert shown(resource_hints(ask, known, (0, 1))) == expected


@pytest.mark.parametrize(
    ("existing", "request_", "expected"),
    [
        ("Dev1 Dev2", 2, [((0, 1), N)]),
        ("Dev1 Dev3", 2, [((0,), P), ((0, 1), N)]),
        ("Dev1", 2, []),
        ("Dev1 Dev2 Dev3", 2, []),
    ],
)
def test_what_is_held_already_gives_the_same_hints_again(
    existing: str, request_: int, expected: Found
) -> None:
    known = listed("Dev1@0 Dev2@1 Dev3@0 Dev4@1")
    ask = Ask(request_, frozenset(existing.split()), frozenset())
    assert shown(resource_hints(ask, known, (0, 1))) == expected


@pytest.mark.parametrize(
    ("devices", "reusable", "request_", "expected"),
    [
        ("a@0 b@1 c@0", "a", 2, [((0,), P), ((0, 1), N)]),
        ("a@0 b@1 c@0", "b", 2, [((0, 1), N)]),
        ("a@0 b@1 c", "c", 1, [((0,), P), ((1,), P), ((0, 1), N)]),
        ("a@0 b@1 c@", "c", 1, []),
    ],
)
def test_what_is_handed_on_must_be_among_the_nodes(
    devices: str, reusable: str, request_: int, expected: Found
) -> None:
    known = listed(devices)
    ask = Ask(request_, frozenset(), frozenset(known) - {reusable}, frozenset({reusable}))
    assert shown(resource_hints(ask, known, (0, 1))) == expected


@pytest.mark.parametrize(
    ("devices", "machine", "request_", "expected"),
    [
        ("a@3 b@5", (0, 3, 5, 7), 1, [((3,), P), ((5,), P), ((3, 5), N)]),
        ("a@3 b@5 c", (0, 3, 5, 7), 2, [((3, 5), P)]),
        ("a@3 b@99 c@-4 d@9223372036854775807", (0, 3), 1, [((3,), P)]),
        ("a@8 b@9", tuple(range(34)), 1, [((8,), P), ((9,), P), ((8, 9), N)]),
        ("a@99", (0, 1), 1, []),
        ("a@99", (0, 1), 0, [((0,), P), ((1,), P), ((0, 1), N)]),
        ("a@0", (), 1, []),
    ],
)
def test_only_nodes_with_devices_are_looked_at(
    devices: str, machine: tuple[int, ...], request_: int, expected: Found
) -> None:
    known = listed(devices)
    assert shown(generate(request_, known, machine, frozenset(known), frozenset())) == expected


def test_many_devices_on_eight_nodes_are_counted_once() -> None:
    known = DeviceList(Device(f"d{one}", nodes=(one % 8,), has_topology=True) for one in range(10_000))
    found = generate(1250, known, range(8), frozenset(known), frozenset())
    assert len(found) == 255
    assert sum(one.preferred for one in found) == 8
