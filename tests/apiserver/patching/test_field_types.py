from __future__ import annotations

from typing import Any

import pytest

from dray.apiserver.patching.field_types import wrong_type
from tests.apiserver.bad_input.seeds import SEEDS

POD = "v1/Pod"


def told(kind: str, document: Any) -> str:
    found = wrong_type(kind, document)
    return "" if found is None else str(found)


@pytest.mark.parametrize(
    ("kind", "document", "text"),
    [
        (POD, {"spec": []}, "spec: must be an object"),
        (POD, {"spec": {"volumes": {}}}, "spec.volumes: must be a list"),
        (
            POD,
            {"spec": {"volumes": [{"name": "a"}, {"name": ["a"]}]}},
            "spec.volumes[1].name: must be a string",
        ),
        (POD, {"metadata": {"labels": {"a": 1}}}, "metadata.labels[a]: must be a string"),
        (POD, {"metadata": {"labels": ["a"]}}, "metadata.labels: must be an object"),
        (POD, {"spec": {"priority": 2**31}}, "spec.priority: must be a 32-bit integer"),
        (POD, {"spec": {"priority": True}}, "spec.priority: must be a 32-bit integer"),
        (
            POD,
            {"spec": {"activeDeadlineSeconds": 1e300}},
            "spec.activeDeadlineSeconds: must be a 64-bit integer",
        ),
        (POD, {"spec": {"hostNetwork": "yes"}}, "spec.hostNetwork: must be a boolean"),
        ("apps/v1/Deployment", {"spec": {"template": {"spec": 5}}}, "spec.template.spec: must be an object"),
        ("v1/Secret", {"data": {"a": 5}}, "data[a]: must be a string"),
    ],
)
def test_the_first_fault_is_told_by_its_place(kind: str, document: Any, text: str) -> None:
    assert told(kind, document) == text


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        (POD, {"spec": None, "other": 5, "metadata": {"labels": {"a": None}}}),
        (POD, {"spec": {"priority": 1.0, "tolerations": [None]}}),
        (POD, {"spec": {"containers": [{"resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]}}),
        ("v1/Service", {"spec": {"ports": [{"targetPort": "http"}, {"targetPort": 80}]}}),
        ("example.com/v1/Widget", {"spec": 5}),
    ],
)
def test_what_is_let_through(kind: str, document: Any) -> None:
    assert told(kind, document) == ""


def test_right_objects_are_right() -> None:
    kinds = {
        "pods": POD,
        "deployments": "apps/v1/Deployment",
        "resourceslices": "resource.k8s.io/v1/ResourceSlice",
    }
    kinds |= {
        "jobs": "batch/v1/Job",
        "customresourcedefinitions": "apiextensions.k8s.io/v1/CustomResourceDefinition",
    }
    for plural, kind in kinds.items():
        assert told(kind, SEEDS[plural]) == ""
