"""nodeSelector and node affinity."""

from __future__ import annotations

from typing import Any

import pytest

from dray.api.core import Pod
from dray.errors import InvalidError
from dray.scheduler.fit.selectors import Preferred, Required
from tests.scheduler.objects import make_node, make_pod

NODE = make_node("a", labels={"zone": "x", "count": "5"})


def asking(*terms: dict[str, Any], **spec: Any) -> Pod:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return make_pod(affinity={"nodeAffinity": required}, **spec)


def one(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def named(operator: str, *values: str) -> dict[str, Any]:
    return {
        "matchFields": [{"key": "metadata.name", "operator": operator, "values": [value]} for value in values]
    }


@pytest.mark.parametrize(
    ("term", "fits"),
    [
        (one("zone", "In", "x", "y"), True),
        (one("zone", "NotIn", "x"), False),
        (one("rack", "NotIn", "x"), True),
        (one("zone", "Exists"), True),
        (one("rack", "DoesNotExist"), True),
        (one("count", "Gt", "4"), True),
        (one("count", "Lt", "5"), False),
        (one("zone", "Gt", "4"), False),
        (named("In", "a"), True),
        (named("In", "b"), False),
        (named("NotIn", "b"), True),
        ({}, False),
        (one("zone", "Odd", "x"), False),
    ],
)
def test_terms(term: dict[str, Any], fits: bool) -> None:
    found = Required.of(asking(term)).refused(NODE)
    assert (found is None) is fits
    if found is not None:
        assert str(found) == "node(s) didn't match Pod's node affinity/selector"


def test_terms_are_alternatives_and_the_selector_comes_on_top() -> None:
    either = (one("zone", "In", "y"), one("zone", "In", "x"))
    assert Required.of(asking(*either)).refused(NODE) is None
    assert Required.of(asking(*either, nodeSelector={"zone": "y"})).refused(NODE) is not None
    assert Required.of(make_pod(nodeSelector={"zone": "x", "count": "5"})).refused(NODE) is None
    assert Required.of(asking()).refused(NODE) is not None
    assert Required.of(make_pod()).refused(NODE) is None


def test_a_broken_term_does_not_hide_a_good_one() -> None:
    assert Required.of(asking(one("zone", "Odd"), one("zone", "Exists"))).refused(NODE) is None
    with pytest.raises(InvalidError, match="Unsupported value"):
        Required.of(asking(one("zone", "Odd"))).matches(NODE)


def test_names_narrow_the_search() -> None:
    assert Required.of(asking(named("In", "a"), named("In", "b"))).only == frozenset({"a", "b"})
    assert Required.of(asking(named("In", "a"), one("zone", "Exists"))).only is None
    assert Required.of(asking(named("NotIn", "a"))).only is None
    assert Required.of(asking()).only is None
    impossible = Required.of(asking(named("In", "a", "b")))
    assert str(impossible.conflict()) == "pod affinity terms conflict"
    assert Required.of(asking(named("In", "a"))).conflict() is None


def test_preferred_terms_add_up() -> None:
    wishes = [
        (1, one("zone", "Exists")),
        (10, one("zone", "In", "x")),
        (100, one("rack", "Exists")),
        (5, {}),
        (0, named("In", "a")),
    ]
    terms = [{"weight": weight, "preference": term} for weight, term in wishes]
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": terms}
    found = Preferred.of(make_pod(affinity={"nodeAffinity": preferred}))
    assert found.weight(NODE) == 11 and len(found.terms) == 3
    assert Preferred.of(make_pod()).weight(NODE) == 0
    preferred["preferredDuringSchedulingIgnoredDuringExecution"] = [
        {"weight": 1, "preference": one("zone", "Odd")}
    ]
    with pytest.raises(InvalidError):
        Preferred.of(make_pod(affinity={"nodeAffinity": preferred}))
