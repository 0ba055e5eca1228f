from __future__ import annotations

from typing import Any

from dray.api import kinds
from dray.apiserver.patching.apply.compare import compared, field_set
from dray.apiserver.patching.apply.fields import PathSet, named, shown
from dray.apiserver.patching.apply.schema import type_of

POD = type_of(kinds.PODS)


def containers(*names: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name} for name in names]}}


def test_a_field_set_has_leaves_and_items() -> None:
    pod = {
        "metadata": {"labels": {"a": "1"}, "finalizers": ["f"], "annotations": {}},
        "spec": {"containers": [{"name": "a", "command": ["x"]}], "nodeName": None},
    }
    assert [shown(path) for path in field_set(pod, POD)] == [
        ".metadata.annotations",
        '.metadata.finalizers[="f"]',
        ".metadata.labels.a",
        ".spec.nodeName",
        '.spec.containers[name="a"]',
        '.spec.containers[name="a"].command',
        '.spec.containers[name="a"].name',
    ]


def test_a_comparison_tells_added_changed_and_removed() -> None:
    old = {"metadata": {"labels": {"a": "1", "b": "1"}}, "spec": {"nodeName": "n"}}
    new = {"metadata": {"labels": {"a": "2"}}, "spec": {"nodeName": "n", "tolerations": []}}
    found = compared(old, new, POD)
    assert [shown(path) for path in found.added] == [".spec.tolerations"]
    assert [shown(path) for path in found.modified] == [".metadata.labels.a"]
    assert [shown(path) for path in found.removed] == [".metadata.labels.b"]
    assert not found.without(PathSet.of((named("spec"),))).added
    assert not compared(new, new, POD).set


def test_duplicates_are_one_value() -> None:
    one, two = containers("a"), containers("a", "a")
    path = '.spec.containers[name="a"]'
    assert [shown(found) for found in compared(one, two, POD).added] == [path]
    assert [shown(found) for found in compared(two, one, POD).removed] == [path]
    assert not compared(two, two, POD).set
    three = containers("a", "a", "a")
    assert [shown(found) for found in compared(two, three, POD).modified] == [path]
    assert [shown(found) for found in field_set(two, POD)] == [path]
