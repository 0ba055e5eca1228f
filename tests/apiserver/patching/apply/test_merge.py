from __future__ import annotations

from typing import Any

import pytest

from dray.api import kinds
from dray.apiserver.patching.apply.compare import ABSENT
from dray.apiserver.patching.apply.fields import PathSet, keyed, named
from dray.apiserver.patching.apply.merge import merged, without, without_nulls
from dray.apiserver.patching.apply.schema import DEDUCED, type_of

POD = type_of(kinds.PODS)


def containers(*names: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name} for name in names]}}


def names(pod: Any) -> list[str]:
    return [container["name"] for container in pod["spec"]["containers"]]


@pytest.mark.parametrize(
    ("live", "applied", "order"),
    [
        ("abc", "b", "abc"),
        ("abc", "cb", "acb"),
        ("abc", "xb", "axbc"),
        ("abc", "bx", "abcx"),
        ("ab", "xy", "abxy"),
        ("abcd", "dbx", "acdbx"),
        ("", "ab", "ab"),
    ],
)
def test_list_items_keep_the_live_order_where_they_can(live: str, applied: str, order: str) -> None:
    assert "".join(names(merged(containers(*live), containers(*applied), POD))) == order


def test_items_are_merged_by_their_key() -> None:
    live = {"spec": {"containers": [{"name": "a", "image": "one", "command": ["x", "y"]}]}}
    patch = {"spec": {"containers": [{"name": "a", "command": ["z"]}]}}
    assert merged(live, patch, POD)["spec"]["containers"] == [{"name": "a", "image": "one", "command": ["z"]}]


def test_an_item_that_is_there_twice_is_replaced() -> None:
    live = {"spec": {"containers": [{"name": "a", "image": "one"}, {"name": "a", "image": "two"}]}}
    patch = {"spec": {"containers": [{"name": "a", "tty": True}]}}
    assert merged(live, patch, POD)["spec"]["containers"] == [{"name": "a", "tty": True}]


def test_atomic_values_are_replaced_whole() -> None:
    live = {"spec": {"tolerations": [{"key": "a"}]}, "metadata": {"labels": {"a": "1"}}}
    patch = {"spec": {"tolerations": [{"key": "b"}]}, "metadata": {"labels": {"b": "2"}}}
    assert merged(live, patch, POD) == {
        "spec": {"tolerations": [{"key": "b"}]},
        "metadata": {"labels": {"a": "1", "b": "2"}},
    }


def test_null_takes_no_map_away_but_a_scalar() -> None:
    assert merged({"a": {"b": 1}, "c": 1}, {"a": None, "c": None}, DEDUCED) == {"a": {"b": 1}, "c": None}
    assert merged({}, {}, DEDUCED) == {}
    assert merged({"a": 1}, ABSENT, DEDUCED) == {"a": 1}


def test_items_are_taken_out_and_empty_containers_become_null() -> None:
    pod = {"spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b"}], "nodeSelector": {"a": "1"}}}
    spec, a, b = named("spec"), keyed({"name": "a"}), keyed({"name": "b"})
    out = PathSet.of(
        (spec, named("containers"), a, named("image")),
        (spec, named("containers"), b),
    )
    assert without(pod, out, POD)["spec"] == {"containers": [{"name": "a"}], "nodeSelector": {"a": "1"}}
    both = PathSet.of((spec, named("containers"), a), (spec, named("containers"), b))
    assert without(pod, both, POD)["spec"]["containers"] is None
    assert without_nulls(without(pod, both, POD)) == {"spec": {"nodeSelector": {"a": "1"}}}
