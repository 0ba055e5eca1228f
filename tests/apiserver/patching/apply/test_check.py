from __future__ import annotations

from typing import Any

import pytest

from dray.api import kinds
from dray.apiserver.patching.apply.check import faults
from dray.apiserver.patching.apply.schema import type_of

POD = type_of(kinds.PODS)


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"nodeName": 1}, ".spec.nodeName: expected string, got &value.valueUnstructured{Value:1}"),
        ({"hostNetwork": "x"}, ".spec.hostNetwork: expected boolean, got &{x}"),
        ({"priority": "x"}, ".spec.priority: expected numeric (int or float), got string"),
        ({"priority": True}, ".spec.priority: expected numeric (int or float), got bool"),
        ({"nodeSelector": [1]}, ".spec.nodeSelector: expected map, got &{[1]}"),
        ({"tolerations": {"a": None}}, ".spec.tolerations: expected list, got &{map[a:<nil>]}"),
        (
            {"containers": ["a"]},
            ".spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
        (
            {"containers": [{"name": "a", "args": [1]}]},
            '.spec.containers[name="a"].args[0]: expected string, got &value.valueUnstructured{Value:1}',
        ),
        ({"nope": 1}, ".spec.nope: field not declared in schema"),
        ({"nodeName": None, "containers": None, "nodeSelector": None}, ""),
    ],
)
def test_faults_of_what_is_applied(spec: dict[str, Any], fault: str) -> None:
    assert list(faults({"spec": spec}, POD, is_applied=True)) == ([fault] if fault else [])


def test_a_stored_document_may_have_duplicates_and_more() -> None:
    document = {"spec": {"nope": {"a": [1]}, "containers": [{"name": "a"}, {"name": "a"}]}}
    assert list(faults(document, POD, is_applied=False)) == []
    assert len(list(faults(document, POD, is_applied=True))) == 2
