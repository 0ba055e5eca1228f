from __future__ import annotations

from typing import Any

import pytest

from tests.allocation.world import (
    ADMIN,
    BINDING,
    LIST,
    PARTITIONS,
    Json,
    answer,
    case,
    claim,
    device,
    devices,
    fault,
    first,
    piece,
    request,
    wish,
)

PROFILES = ("k8s-1.36", "k8s-1.37", "correct")
PINNED = {
    "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]
}


def selector(*expressions: tuple[str, ...]) -> Json:
    terms = [{"key": key, "operator": "In", "values": values} for key, *values in expressions]
    return {"nodeSelectorTerms": [{"matchExpressions": terms}]}


def config(name: str) -> Json:
    return {"opaque": {"driver": "driver-a", "parameters": {"is": name}}}


def configs(given: Json, profile: str = "k8s-1.36") -> list[tuple[str, Any]]:
    got = answer(given, profile)
    assert got["error"] == ""
    entries = got["results"][0]["devices"].get("config", [])
    return [
        (one["source"].removeprefix("From") + " " + one["opaque"]["parameters"]["is"], one.get("requests"))
        for one in entries
    ]


def with_class_config(given: Json) -> Json:
    classes = [
        one | {"spec": one["spec"] | {"config": [config(one["metadata"]["name"]), config("more")]}}
        for one in given["classes"]
    ]
    return given | {"classes": classes}


def test_binding_conditions_admin_access_and_names() -> None:
    slow = device("one", bindingConditions=["ready"], bindingFailureConditions=["broken"])
    given = case([piece(slow)], claim(request(adminAccess=True)), features=(BINDING, ADMIN))
    assert answer(given)["results"][0]["devices"]["results"] == [
        {
            "request": "req-0",
            "driver": "driver-a",
            "pool": "pool-1",
            "device": "one",
            "adminAccess": True,
            "bindingConditions": ["ready"],
            "bindingFailureConditions": ["broken"],
        }
    ]


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        ([piece(*devices("a", "b"))], PINNED),
        ([piece(*devices("a", "b"), allNodes=True)], None),
        (
            [piece(*devices("a", "b"), nodeSelector=selector(("region", "west")))],
            selector(("region", "west")),
        ),
        ([piece(device("a"), device("b", bindsToNode=True), allNodes=True)], PINNED),
        (
            [
                piece(*devices("a"), allNodes=True),
                piece(*devices("b"), pool="pool-2", name="s2"),
            ],
            PINNED,
        ),
        (
            [
                piece(*devices("a"), nodeSelector=selector(("region", "west", "east"))),
                piece(
                    *devices("b"), pool="pool-2", name="s2", nodeSelector=selector(("region", "east", "west"))
                ),
            ],
            selector(("region", "west", "east")),
        ),
        (
            [
                piece(*devices("a"), nodeSelector=selector(("region", "west", "east"))),
                piece(*devices("b"), pool="pool-2", name="s2", nodeSelector=selector(("region", "west"))),
            ],
            selector(("region", "west", "east"), ("region", "west")),
        ),
        (
            [
                piece(
                    device("a", allNodes=True),
                    device("b", nodeSelector=selector(("region", "west"))),
                    perDeviceNodeSelection=True,
                )
            ],
            selector(("region", "west")),
        ),
        (
            [piece(device("a", allNodes=True), device("b", nodeName="node-1"), perDeviceNodeSelection=True)],
            PINNED,
        ),
    ],
)
def test_node_selector(slices: list[Json], expected: Json | None) -> None:
    got = answer(case(slices, claim(request(2)), features=(PARTITIONS,)))
    assert got["results"][0].get("nodeSelector") == expected


def test_each_claim_has_its_own_node_selector() -> None:
    slices = [piece(*devices("a"), allNodes=True), piece(*devices("b"), pool="pool-2", name="s2")]
    got = answer(case(slices, claim(request()), claim(request(), name="c1")))["results"]
    assert [one.get("nodeSelector") for one in got] == [None, PINNED]


def test_a_selector_with_two_terms_is_fatal_once_it_is_chosen() -> None:
    two = {"nodeSelectorTerms": selector(("region", "west"))["nodeSelectorTerms"] * 2}
    text = "create NodeSelector for claim claim-0: unsupported ResourceSlice.NodeSelector with 2 terms"
    assert fault(case([piece(*devices("a"), nodeSelector=two)], claim(request()))) == text


def test_class_configuration_comes_first_and_once() -> None:
    given = with_class_config(
        case(
            [piece(*devices("a", "b")), piece(*devices("c"), driver="driver-b", name="s2")],
            claim(
                request(name="x"),
                request(name="y", deviceClassName="class-b"),
                request(name="z"),
                config=[config("all"), config("y") | {"requests": ["y"]}],
            ),
        )
    )
    for profile in PROFILES:
        assert configs(given, profile) == [
            ("Class class-a", ["x", "z"]),
            ("Class more", ["x", "z"]),
            ("Class class-b", ["y"]),
            ("Class more", ["y"]),
            ("Claim all", None),
            ("Claim y", ["y"]),
        ]


def test_the_chosen_alternative_decides_what_applies() -> None:
    given = with_class_config(
        case(
            [piece(*devices("a"), driver="driver-b")],
            claim(
                first(wish(), wish(deviceClassName="class-b")),
                request(0, name="b", deviceClassName="class-b"),
                config=[
                    config("any") | {"requests": ["req-0"]},
                    config("first") | {"requests": ["req-0/sub-0"]},
                    config("second") | {"requests": ["req-0/sub-1"]},
                ],
            ),
            features=(LIST,),
        )
    )
    assert configs(given) == [
        ("Class class-b", ["req-0/sub-1", "b"]),
        ("Class more", ["req-0/sub-1", "b"]),
        ("Claim any", ["req-0"]),
        ("Claim second", ["req-0/sub-1"]),
    ]


@pytest.mark.parametrize("profile", PROFILES)
def test_q3_configuration_of_several_requests(profile: str) -> None:
    given = case(
        [piece(*devices("a", "b", "c"))],
        claim(
            request(name="x"),
            request(name="y"),
            request(name="z"),
            config=[
                config("two") | {"requests": ["x", "y"]},
                config("three") | {"requests": ["x", "y", "z"]},
            ],
        ),
    )
    if profile == "k8s-1.36":
        assert configs(given) == [("Claim two", ["x", "y"])] * 2 + [("Claim three", ["x", "y", "z"])] * 3
    else:
        assert configs(given, profile) == [("Claim two", ["x", "y"]), ("Claim three", None)]


def test_q3_class_configuration_for_all_requests_names_none() -> None:
    given = with_class_config(case([piece(*devices("a"))], claim(request())))
    assert configs(given)[0] == ("Class class-a", ["req-0"])
    assert configs(given, "k8s-1.37")[0] == ("Class class-a", None)
