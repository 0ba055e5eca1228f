from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

import pytest

from dray.errors import Error, InvalidError, UnavailableError
from dray.kubelet.devices.known import Device, DeviceList
from dray.kubelet.devices.picking import Answer, Offer, Preference, Want, pick
from dray.kubelet.topology.hints import Hint
from tests.kubelet.devices.test_hints import listed

R = "example.com/a"


def want(required: int, **more: Any) -> Want:
    return Want("uid", "c", R, required, **more)


def offer(text: str = "", *, taken: Collection[str] = (), nodes: int | None = None, **more: Any) -> Offer:
    known = listed(text)
    found: dict[str, Any] = {
        "healthy": frozenset(known),
        "free": frozenset(known) - frozenset(taken),
        "devices": known,
        "hint": Hint(nodes, True),
    } | more
    return Offer(**found)


def run(
    wanted: Want, given: Offer, wish: Collection[str] = (), free: frozenset[str] | None = None
) -> tuple[tuple[str, ...], list[Preference]]:
    """What is picked, and the questions; each is answered with `wish`."""
    steps = pick(wanted, given)
    questions: list[Preference] = []
    try:
        questions.append(next(steps))
        while True:
            left = given.free if free is None else free
            questions.append(steps.send(Answer(wish, left - questions[-1].must_include)))
    except StopIteration as done:
        return done.value, questions


NONE: frozenset[str] = frozenset()
X = frozenset({"x"})


@pytest.mark.parametrize(
    ("wanted", "given", "kind", "text"),
    [
        (
            want(2, existing=X),
            offer("x y"),
            InvalidError,
            f'pod "uid" container "c" changed request for resource "{R}" from 1 to 2',
        ),
        (
            want(0, existing=X, was_running=True),
            offer("x"),
            InvalidError,
            f'pod "uid" container "c" changed request for resource "{R}" from 1 to 0',
        ),
        (want(1), offer(healthy=None), UnavailableError, f"cannot allocate unregistered device {R}"),
        (
            want(1, existing=X),
            offer(healthy=None),
            UnavailableError,
            f"cannot allocate unregistered device {R}",
        ),
        (
            want(1),
            offer(),
            UnavailableError,
            f"no healthy devices present; cannot allocate unhealthy devices {R}",
        ),
        (
            want(1, existing=X),
            offer(),
            UnavailableError,
            f"no healthy devices present; cannot allocate unhealthy devices {R}",
        ),
        (
            want(1, existing=X),
            offer("y"),
            UnavailableError,
            f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {R}",
        ),
        (
            want(3),
            offer("x y z", taken="x"),
            UnavailableError,
            f"requested number of devices unavailable for {R}. Requested: 3, Available: 2",
        ),
        (
            want(3, reusable=X),
            offer("x y", taken="x"),
            UnavailableError,
            f"requested number of devices unavailable for {R}. Requested: 2, Available: 1",
        ),
    ],
)
def test_refusals(wanted: Want, given: Offer, kind: type[Error], text: str) -> None:
    with pytest.raises(kind) as caught:
        run(wanted, given)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("wanted", "given", "picked"),
    [
        (want(1, was_running=True), offer(healthy=None), ()),
        (want(1, existing=X, was_running=True), offer(), ()),
        (want(1, existing=X), offer("x y", taken="x"), ()),
        (want(0), offer(), ()),
        (want(0), offer(healthy=None), ()),
        (want(0, existing=NONE), offer(), ()),
        (want(1, reusable=X), offer("y z"), ("x",)),
        (want(1, reusable=frozenset("xyz")), offer("a"), ("x",)),
        (want(2, reusable=X), offer("x y z", taken="x"), ("x", "y")),
        (want(2), offer("c b a"), ("a", "b")),
    ],
)
def test_what_is_picked(wanted: Want, given: Offer, picked: tuple[str, ...]) -> None:
    assert run(wanted, given)[0] == picked


SIX = "Dev1@0 Dev2@1 Dev3@0 Dev4@1 Dev5@0 Dev6@1"
HALVES = " ".join(f"Dev{one}@{one // 100}" for one in range(200))
FEW = " ".join(f"Dev{one}@{0 if one < 3 else 1}" for one in range(100))


@pytest.mark.parametrize(
    ("devices", "request_", "nodes", "wish", "included", "alignment"),
    [
        ("Dev1 Dev2", 1, 0b11, "", "", {}),
        ("Dev1 Dev2@1", 1, 0b10, "", "Dev2", {1: 1}),
        ("Dev1@0 Dev2@1", 1, 0b01, "", "Dev1", {0: 1}),
        ("Dev1@0 Dev2@1", 1, 0b10, "", "Dev2", {1: 1}),
        ("Dev1@0 Dev2@1 Dev3@0 Dev4@1", 2, 0b01, "", "Dev1 Dev3", {0: 2}),
        ("Dev1@0 Dev2@1 Dev3@0 Dev4@1", 2, 0b10, "", "Dev2 Dev4", {1: 2}),
        (SIX, 4, 0b01, "", "Dev1 Dev3 Dev5", {0: 3, 1: 1}),
        (SIX, 4, 0b10, "", "Dev2 Dev4 Dev6", {0: 1, 1: 3}),
        (
            "Dev1@0 Dev2@1 Dev3@2 Dev4@3 Dev5@0 Dev6@1 Dev7@2 Dev8@3",
            4,
            0b1010,
            "",
            "Dev2 Dev4 Dev6 Dev8",
            {1: 2, 3: 2},
        ),
        (HALVES, 5, 0b01, "Dev0 Dev19 Dev83 Dev42 Dev77", "Dev0 Dev19 Dev83 Dev42 Dev77", {0: 5}),
        (HALVES, 5, 0b01, "Dev0 Dev19 Dev83 Dev150 Dev186", "Dev0 Dev19 Dev83", {0: 5}),
        (HALVES, 5, 0b10, "Dev100 Dev119 Dev183 bogus0 bogus1", "Dev100 Dev119 Dev183", {1: 5}),
        (FEW, 5, 0b01, "Dev0 Dev1 Dev2 Dev42 Dev83", "Dev0 Dev1 Dev2 Dev42 Dev83", {0: 3, 1: 2}),
        (FEW, 5, 0b01, "Dev0 Dev1 Dev2 Dev42 bogus0", "Dev0 Dev1 Dev2 Dev42", {0: 3, 1: 2}),
    ],
)
def test_aligned_allocation(
    devices: str, request_: int, nodes: int, wish: str, included: str, alignment: dict[int, int]
) -> None:
    given = offer(devices, nodes=nodes)
    picked, _ = run(want(request_), given, wish.split())
    assert len(set(picked)) == len(picked) == request_
    assert set(included.split()) <= set(picked)
    assert list(picked) == sorted(picked)
    assert Counter(node for one in picked for node in given.devices[one].nodes) == alignment


EIGHT = " ".join(f"Dev{one}@0" for one in range(8))
FOURS = " ".join(f"Dev{one}@{one // 4}" for one in range(8))


@pytest.mark.parametrize(
    ("devices", "request_", "taken", "reusable", "available", "must"),
    [
        ("Dev0@0 Dev1@0 Dev2@0 Dev3@0", 1, "", "", "0 1 2 3", ""),
        (EIGHT, 4, "0 5", "0 5", "0 1 2 3 4 5 6 7", "0 5"),
        (EIGHT, 4, "0 5 4 1", "0 5", "0 2 3 5 6 7", "0 5"),
        (FOURS, 6, "1 6", "1 6", "0 1 2 3 4 5 6 7", "0 1 2 3 6"),
        (FOURS, 6, "0 1 6 7", "1 6", "1 2 3 4 5 6", "1 2 3 6"),
    ],
)
def test_what_the_plugin_is_asked(
    devices: str, request_: int, taken: str, reusable: str, available: str, must: str
) -> None:
    def names(text: str) -> frozenset[str]:
        return frozenset(f"Dev{one}" for one in text.split())

    given = offer(devices, taken=names(taken), nodes=0b01)
    _, questions = run(want(request_, reusable=names(reusable)), given)
    assert questions == [Preference(names(available), names(must), request_)]


def test_without_a_choice_the_plugin_is_not_asked() -> None:
    assert run(want(2), offer("a@0 b@0 c@1", nodes=0b01)) == (("a", "b"), [])
    assert run(want(1, reusable=X), offer("x y", taken="x")) == (("x",), [])
    assert run(want(1, existing=X), offer("x y", taken="x"))[1] == []
    assert run(want(2), offer("a@0 b@0 c@0 d@1", nodes=0b01, has_wishes=False)) == (("a", "b"), [])
    assert run(want(3), offer("d a@0 c@1 b@1", nodes=0b01, has_wishes=False)) == (("a", "b", "c"), [])


def test_what_others_took_meanwhile_is_not_taken() -> None:
    given = offer("a@0 b@0 c@0", nodes=0b01)
    assert run(want(2), given, ["a", "b"], frozenset("bc"))[0] == ("b", "c")
    given = offer("a b c d", taken="a")
    assert run(want(2), given, ["b"], frozenset("cd"))[0] == ("c", "d")
    text = f"requested number of devices unavailable for {R}. Requested: 2, Available: 1"
    with pytest.raises(UnavailableError) as caught:
        run(want(2), given, ["b", "d"], frozenset("d"))
    assert str(caught.value) == text


def test_a_device_that_is_listed_no_more_has_no_node() -> None:
    given = offer(
        "a@0", nodes=0b01, free=frozenset({"a", "ghost"}), devices=DeviceList([Device("a", nodes=(0,))])
    )
    assert run(want(2), given)[0] == ("a", "ghost")


def test_very_many_that_are_held_already_are_enough() -> None:
    held = frozenset(f"d{number}" for number in range(1000))
    given = offer(healthy=held, free=frozenset())
    assert run(want(int("1000"), existing=held), given) == ((), [])
