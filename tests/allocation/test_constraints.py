from __future__ import annotations

from typing import Any

import pytest

from tests.allocation.world import (
    LIST,
    LISTS,
    Json,
    case,
    claim,
    device,
    every,
    fault,
    first,
    picks,
    piece,
    request,
    wish,
)

PROFILES = ("k8s-1.36", "k8s-1.37", "correct")


def with_values(*values: Any, name: str = "x") -> list[Json]:
    """One device per value: d0, d1, … An int, string or bool becomes a scalar, a list a list attribute."""
    kinds = {bool: "bool", int: "int", str: "string"}
    found = []
    for number, value in enumerate(values):
        if value is None:
            attributes = {}
        elif isinstance(value, list):
            attributes = {name: {kinds[type(value[0])] + "s": value}}
        elif isinstance(value, dict):
            attributes = {name: value}
        else:
            attributes = {name: {kinds[type(value)]: value}}
        found.append(device(f"d{number}", attributes=attributes))
    return [piece(*found)]


def match(attribute: str = "driver-a/x", *requests: str) -> Json:
    return {"matchAttribute": attribute, **({"requests": list(requests)} if requests else {})}


def distinct(attribute: str = "driver-a/x", *requests: str) -> Json:
    return {"distinctAttribute": attribute, **({"requests": list(requests)} if requests else {})}


def chosen(
    slices: list[Json], count: int, *constraints: Json, profile: str = "k8s-1.36", lists: bool = False
) -> str:
    got = picks(
        case(
            slices, claim(request(count), constraints=list(constraints)), features=(LISTS,) if lists else ()
        ),
        profile,
    )
    return "-" if got is None else " ".join(one.removeprefix("req-0=d") for one in got)


@pytest.mark.parametrize(
    ("values", "count", "expected"),
    [
        ((1, 2, 1, 1), 3, "0 2 3"),
        ((1, 2, 3), 2, "-"),
        (("a", "b", "b"), 2, "1 2"),
        ((True, False, False), 2, "1 2"),
        ((1, "1", True, 1), 2, "0 3"),
        ((None, 1, 1), 2, "1 2"),
        ((None, None), 1, "-"),
        (({"version": "1.0.0"}, {"version": "1.0.0+x"}, {"version": "1.0.0"}), 2, "0 2"),
        (({"version": "1.0.0"}, "1.0.0"), 2, "-"),
    ],
)
def test_match_scalar(values: tuple[Any, ...], count: int, expected: str) -> None:
    for profile in PROFILES:
        assert chosen(with_values(*values), count, match(), profile=profile) == expected


def test_attribute_names() -> None:
    full = with_values(1, 1, name="example.com/x")
    assert chosen(full, 2, match("example.com/x")) == "0 1"
    assert chosen(full, 2, match("driver-a/x")) == "-"
    both = [
        piece(
            device("d0", attributes={"driver-a/x": {"int": 1}, "x": {"int": 2}}),
            device("d1", attributes={"x": {"int": 2}}),
            device("d2", attributes={"x": {"int": 1}}),
        )
    ]
    assert chosen(both, 2, match("driver-a/x")) == "0 2"
    assert chosen(with_values(1, 1), 2, match("x")) == "0 1"
    assert chosen(with_values(1, 1), 2, match("driver-b/x")) == "-"


@pytest.mark.parametrize(
    ("values", "count", "expected"),
    [
        ((1, 1, 2), 2, "0 2"),
        ((1, 1, 1), 2, "-"),
        ((1, "1", True), 3, "0 1 2"),
        ((None, 1, 2), 2, "1 2"),
    ],
)
def test_distinct_scalar(values: tuple[Any, ...], count: int, expected: str) -> None:
    for profile in PROFILES:
        assert chosen(with_values(*values), count, distinct(), profile=profile) == expected


@pytest.mark.parametrize(
    ("profile", "expected"), [("k8s-1.36", "0 1 2"), ("k8s-1.37", "0 1 3"), ("correct", "0 1 3")]
)
def test_q1_distinct_forgets_all_but_the_last(profile: str, expected: str) -> None:
    assert chosen(with_values(1, 2, 1, 3), 3, distinct(), profile=profile) == expected


@pytest.mark.parametrize(
    ("values", "count", "expected"),
    [
        (([1, 2], [2, 3], [3, 4], [2]), 3, "0 1 3"),
        (([1], 1, [1, 2]), 3, "0 1 2"),
        (([1], ["1"]), 2, "-"),
        (([1, 2], [3]), 2, "-"),
    ],
)
def test_match_lists(values: tuple[Any, ...], count: int, expected: str) -> None:
    for profile in PROFILES:
        assert chosen(with_values(*values), count, match(), profile=profile, lists=True) == expected


def test_distinct_lists() -> None:
    values = ([1, 2], [2, 3], [3], ["2"], 4)
    assert chosen(with_values(*values), 4, distinct(), profile="correct", lists=True) == "0 2 3 4"


@pytest.mark.parametrize(("profile", "expected"), [("k8s-1.36", None), ("k8s-1.37", True), ("correct", True)])
def test_q2_the_intersection_stays_narrow(profile: str, expected: bool | None) -> None:
    """Trying d1 narrows d0's values to 1; after the step back d2 (value 2) no longer matches in 1.36."""
    slices = [
        piece(
            device("d0", attributes={"x": {"ints": [1, 2]}, "type": {"string": "X"}}),
            device("d1", attributes={"x": {"ints": [1]}, "type": {"string": "Y"}}),
            device("d2", attributes={"x": {"ints": [2]}, "type": {"string": "Y"}}),
            device("d3", attributes={"x": {"ints": [2]}, "type": {"string": "Z"}}),
        )
    ]
    x, y = (f'device.attributes["driver-a"].type == "{letter}"' for letter in "XY")
    asked = claim(request(1, x), request(1, y, name="b"), request(1, name="c"), constraints=[match()])
    got = picks(case(slices, asked, features=(LISTS,)), profile)
    assert (got == ["req-0=d0", "b=d2", "c=d3"]) is bool(expected)
    assert expected or got is None


def test_without_the_gate_lists_do_not_compare() -> None:
    slices = with_values([1], [1])
    given = case(slices, claim(request(2, deviceClassName="any"), constraints=[match()]))
    given["classes"] = [{"metadata": {"name": "any"}}]
    assert picks(given) is None
    given["claims"] = [claim(request(1, deviceClassName="any"), constraints=[match()])]
    assert picks(given) == ["req-0=d0"]


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ((), ["req-0=d0", "b=d2"]),
        (("req-0", "b"), ["req-0=d0", "b=d2"]),
        (("req-0",), ["req-0=d0", "b=d1"]),
        (("nobody",), ["req-0=d0", "b=d1"]),
    ],
)
def test_which_requests_are_meant(requests: tuple[str, ...], expected: list[str]) -> None:
    given = case(
        with_values(1, 2, 1),
        claim(request(), request(name="b"), constraints=[match("driver-a/x", *requests)]),
    )
    assert picks(given) == expected


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        (("req-0", "b"), ["req-0/sub-0=d0", "b=d2"]),
        (("req-0/sub-0", "b"), ["req-0/sub-0=d0", "b=d2"]),
        (("req-0/sub-1", "b"), ["req-0/sub-0=d0", "b=d1"]),
    ],
)
def test_alternatives_are_named_alone_or_by_their_request(
    requests: tuple[str, ...], expected: list[str]
) -> None:
    given = case(
        with_values(1, 2, 1),
        claim(first(wish(), wish()), request(name="b"), constraints=[match("driver-a/x", *requests)]),
        features=(LIST,),
    )
    assert picks(given) == expected


def test_claims_do_not_share_constraints() -> None:
    one = claim(request(), constraints=[match()])
    other = claim(request(), name="claim-1", constraints=[match()])
    assert picks(case(with_values(1, 2), one, other)) == ["req-0=d0", "req-0=d1"]


def test_neither_is_an_error() -> None:
    given = case(with_values(1), claim(request(), constraints=[match(), {}]))
    assert fault(given) == "claim claim-0, constraint #1: empty constraint (unsupported constraint type?)"


@pytest.mark.parametrize(
    ("profile", "expected"), [("k8s-1.36", "0 1"), ("k8s-1.37", "0 1"), ("correct", "0 2")]
)
def test_q11_match_hides_distinct(profile: str, expected: str) -> None:
    slices = [
        piece(
            *(device(f"d{n}", attributes={"x": {"int": 1}, "y": {"int": y}}) for n, y in enumerate((1, 1, 2)))
        )
    ]
    both = {"matchAttribute": "driver-a/x", "distinctAttribute": "driver-a/y"}
    assert chosen(slices, 2, both, profile=profile) == expected


def test_all_against_a_constraint() -> None:
    text = "claim claim-0, request req-0: cannot add device driver-a/pool-1/d1 because a claim constraint would not be satisfied"
    given = case(with_values(1, 2), claim(every(), constraints=[match()]))
    assert fault(given) == text == fault(given, "k8s-1.37")
    assert picks(given, "correct") is None


def test_all_after_a_choice_that_can_be_made_otherwise() -> None:
    slices = [
        piece(
            device("d0", attributes={"x": {"int": 1}, "type": {"string": "X"}}),
            device("d1", attributes={"x": {"int": 2}, "type": {"string": "X"}}),
            device("d2", attributes={"x": {"int": 2}, "type": {"string": "Y"}}),
        )
    ]
    x, y = (f'device.attributes["driver-a"].type == "{letter}"' for letter in "XY")
    given = case(slices, claim(request(1, x), every(y, name="b"), constraints=[match()]))
    assert "cannot add device driver-a/pool-1/d2" in fault(given)
    assert picks(given, "correct") == ["req-0=d1", "b=d2"]


@pytest.mark.parametrize(
    ("constraint", "lists", "by_count"),
    [
        (match(), False, ["0", "1 4", "-"]),
        (match(), True, ["1", "1 4", "-"]),
        (distinct(), False, ["0", "0 1", "0 1 3"]),
        (distinct(), True, ["1", "1 3", "-"]),
    ],
)
def test_a_value_of_no_known_kind_goes_with_nothing_and_with_lists_not_at_all(
    constraint: Json, lists: bool, by_count: list[str]
) -> None:
    """Such devices come from a newer Kubernetes; a selector would fail on them, so the class has none."""
    classes = [{"metadata": {"name": "class-a"}, "spec": {}}]
    for count, expected in enumerate(by_count, 1):
        asked = claim(request(count), constraints=[constraint])
        given = case(with_values({}, 1, {}, 2, 1), asked, features=(LISTS,) if lists else (), classes=classes)
        found = picks(given, "k8s-1.37")
        assert expected == ("-" if found is None else " ".join(one.removeprefix("req-0=d") for one in found))
