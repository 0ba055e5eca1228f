from __future__ import annotations

from pathlib import Path

import pytest

from dray.drivers.mdev.situation import NodeTypes, View, desired_types, is_managed
from dray.hardware.host_root import HostRoot
from dray.hardware.mdev import read_mdev_cards, read_mdev_parents, read_mdevs
from dray.testing.host import Host, MdevType

ONE = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"
TWO = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1002"


@pytest.mark.parametrize(
    ("labels", "types"),
    [
        ({}, ("nvidia-222",)),
        ({"gpu": "a40"}, ("nvidia-222",)),
        ({"gpu": "t4"}, ("nvidia-223", "nvidia-224")),
        ({"zone": "x", "rack": "1"}, ("nvidia-224", "i915-GVTg_V5_4")),
        ({"zone": "x"}, ("nvidia-222",)),
        ({"gpu": "t4", "zone": "x", "rack": "1"}, ("nvidia-223", "nvidia-224", "i915-GVTg_V5_4")),
    ],
    ids=["default", "wrong value", "one key", "all keys", "a key is missing", "merged"],
)
def test_desired_types_follow_the_labels(labels: dict[str, str], types: tuple[str, ...]) -> None:
    entries = [
        NodeTypes({"gpu": "t4"}, ("nvidia-223", "nvidia-224")),
        NodeTypes({"zone": "x", "rack": "1"}, ("nvidia-224", "i915-GVTg_V5_4")),
    ]
    assert desired_types(["nvidia-222"], entries, labels) == types


def test_an_entry_without_labels_is_for_every_node_and_one_without_types_for_none() -> None:
    assert desired_types(["a"], [NodeTypes({}, ("b",))], {}) == ("b",)
    assert desired_types(["a"], [NodeTypes({}, ())], {}) == ("a",)
    assert desired_types([], [], {"any": "label"}) == ()


@pytest.mark.parametrize(
    ("enabled", "gate", "managed"),
    [
        (None, False, True),
        (None, True, False),
        (False, False, False),
        (False, True, False),
        (True, False, True),
        (True, True, True),
    ],
)
def test_who_switches_the_handling_off(enabled: bool | None, gate: bool, managed: bool) -> None:
    assert is_managed(enabled, gate) is managed


def _view(host: Host) -> View:
    root = HostRoot(host.root)
    return View.of(read_mdev_parents(root), read_mdevs(root), read_mdev_cards(root), frozenset({TWO}))


def test_a_view_knows_that_unreadable_instances_are_there(tmp_path: Path) -> None:
    host = Host(tmp_path)
    card = host.mdev_parent("mtty", {"mtty-1": MdevType(3)})
    card.create("mtty-1", ONE)
    host.vanish(card.create("mtty-1", TWO).path / "mdev_type")
    view = _view(host)
    assert [mdev.uuid for mdev in view.mdevs] == [ONE]
    assert view.hidden == {TWO: "mtty"} and view.held == {TWO}
    assert view.present == {ONE, TWO} and not view.blind


def test_a_view_says_where_it_does_not_even_know_the_card(tmp_path: Path) -> None:
    host = Host(tmp_path)
    card = host.mdev_parent("mtty", {"mtty-1": MdevType(3)})
    card.create("mtty-1", ONE)
    card.create("mtty-1", TWO)
    host.link(f"/sys/bus/mdev/devices/{ONE}", ONE)
    host.unreadable(f"/sys/bus/mdev/devices/{TWO}")
    assert _view(host).hidden == {ONE: "", TWO: ""}


def test_a_view_without_any_parents_is_empty_and_not_blind(tmp_path: Path) -> None:
    assert _view(Host(tmp_path)) == View((), (), held=frozenset({TWO}))


def test_a_view_is_blind_when_the_bus_cannot_be_listed(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.mdev_parent("mtty", {"mtty-1": MdevType(3)})
    host.vanish("/sys/bus/mdev/devices")
    host.file("/sys/bus/mdev/devices", "no directory")
    assert "/sys/bus/mdev/devices" in _view(host).blind


def test_a_view_knows_which_instances_were_not_read_in_full(tmp_path: Path) -> None:
    host = Host(tmp_path)
    card = host.mdev_parent("mtty", {"mtty-1": MdevType(3, "Serial"), "mtty-2": MdevType(3, "Two")})
    card.create("mtty-1", ONE)
    card.create("mtty-2", TWO)
    host.garbage(card.type_path("mtty-2") / "name")
    view = _view(host)
    assert [mdev.type_name for mdev in view.mdevs] == ["Serial", "mtty-2"]
    assert view.unclear == {TWO} and not view.hidden
