from __future__ import annotations

import random
from typing import Any

import pytest

from dray.api import kinds
from dray.apiserver.patching.apply.check import faults, is_sound
from dray.apiserver.patching.apply.schema import type_of
from tests.campaign import campaign, seeded

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


def random_value(rng: random.Random, depth: int = 0) -> Any:
    names = (
        "name",
        "spec",
        "status",
        "containers",
        "ports",
        "containerPort",
        "labels",
        "priority",
        "hostNetwork",
    )
    if depth < 4 and rng.random() < 0.6:
        return {rng.choice(names): random_value(rng, depth + 1) for _ in range(rng.randrange(4))}
    if depth < 4 and rng.random() < 0.4:
        return [random_value(rng, depth + 1) for _ in range(rng.randrange(3))]
    return rng.choice((None, True, 1, 1.5, "a", "b"))


SOUND = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {
        "containers": [{"name": "a", "ports": [{"containerPort": 1}]}],
        "priority": 1,
        "hostNetwork": True,
    },
}


def test_a_document_is_sound_where_it_has_no_fault() -> None:
    rng = seeded(7)
    seen = {True: 0, False: 0}
    for number in range(campaign(2000, 200_000)):
        document = {**SOUND, rng.choice(("spec", "metadata", "status")): random_value(rng, number % 3)}
        container = {"name": "a", rng.choice(("ports", "args", "image")): random_value(rng, 2)}
        if number % 2:
            document = {**SOUND, "spec": {"containers": [container]}}
        expected = not list(faults(document, POD, is_applied=False))
        assert is_sound(document, POD) == expected, document
        seen[expected] += 1
    assert min(seen.values()) > 100
