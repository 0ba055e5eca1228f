from __future__ import annotations

import pytest

from dray.api.codec import view
from dray.api.field_errors import Path
from dray.api.selectors import NodeSelector, compile_node_selector
from dray.errors import InvalidError

NODE = {"zone": "a", "cores": "16", "gpu": ""}


def selector(*terms: object) -> NodeSelector:
    return view({"nodeSelectorTerms": list(terms)}, NodeSelector)


def expressions(*conditions: tuple[str, str, list[str]]) -> dict[str, object]:
    return {
        "matchExpressions": [{"key": key, "operator": op, "values": values} for key, op, values in conditions]
    }


def names(operator: str, *values: str) -> dict[str, object]:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        ([], False),
        ([{}], False),
        ([{"matchExpressions": [], "matchFields": []}], False),
        ([{}, expressions(("zone", "In", ["a"]))], True),
        ([expressions(("zone", "In", ["b"])), expressions(("gpu", "Exists", []))], True),
        ([expressions(("zone", "In", ["a"]), ("gpu", "DoesNotExist", []))], False),
        ([expressions(("zone", "NotIn", ["b"]), ("missing", "NotIn", ["x"]))], True),
        ([expressions(("cores", "Gt", ["8"]))], True),
        ([expressions(("cores", "Gt", ["16"]))], False),
        ([expressions(("cores", "Lt", ["17"]))], True),
        ([expressions(("zone", "Gt", ["1"]))], False),
        ([expressions(("missing", "Lt", ["1"]))], False),
        ([names("In", "n1")], True),
        ([names("In", "n2")], False),
        ([names("NotIn", "n2")], True),
        ([names("NotIn", "n1")], False),
        ([names("In", "n1") | expressions(("zone", "In", ["b"]))], False),
        ([names("In", "n1") | expressions(("zone", "In", ["a"]))], True),
        ([{"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["x"]}]}], False),
    ],
)
def test_terms_are_alternatives_of_conditions(terms: list[object], matches: bool) -> None:
    assert compile_node_selector(selector(*terms)).matches(NODE, "n1") is matches


def test_a_node_without_a_name_passes_field_conditions() -> None:
    assert compile_node_selector(selector(names("In", "n2"))).matches(NODE, "")


BROKEN = selector(
    expressions(("zone", "Near", ["a"]), ("cores", "Gt", ["many"]), ("-", "Exists", ["x"])),
    names("Exists"),
    names("In", "a", "b"),
    expressions(("zone", "In", ["a"])),
)


def test_every_fault_is_named() -> None:
    with pytest.raises(InvalidError) as caught:
        compile_node_selector(BROKEN, Path("spec").child("nodeSelector"))
    start = "spec.nodeSelector.nodeSelectorTerms"
    assert [cause.field for cause in caught.value.causes] == [
        f"{start}[0].matchExpressions[0].operator",
        f"{start}[0].matchExpressions[1].values[0]",
        f"{start}[0].matchExpressions[2].key",
        f"{start}[0].matchExpressions[2].values",
        f"{start}[1].matchFields[0].operator",
        f"{start}[2].matchFields[0].values",
    ]
    assert 'supported values: "DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"' in str(caught.value)


def test_a_lenient_matcher_fails_only_where_nothing_matches() -> None:
    matcher = compile_node_selector(BROKEN, lenient=True)
    assert matcher.matches(NODE, "n1")
    with pytest.raises(InvalidError, match="must have one element"):
        matcher.matches({"zone": "b"}, "n1")
