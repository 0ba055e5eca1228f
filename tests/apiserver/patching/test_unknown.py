from __future__ import annotations

from typing import Any

import pytest

from dray.apiserver.patching.unknown import unknown_names


def test_names_are_told_with_their_place_at_any_depth() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "labels": {"any": "thing"}, "lables": {}},
        "spec": {
            "containers": [
                {"name": "a"},
                {"name": "b", "imagePullPolice": "Always", "resources": {"limit": {}}},
            ],
            "overhead": {"example.com/any": "1"},
        },
        "colour": "red",
    }
    assert unknown_names("v1/Pod", pod) == (
        "metadata.lables",
        "spec.containers[1].imagePullPolice",
        "spec.containers[1].resources.limit",
        "colour",
    )


def test_maps_and_opaque_values_are_open() -> None:
    device = {"name": "d", "attributes": {"a": {"string": "x"}, "b": {"text": "x"}}}
    assert unknown_names("resource.k8s.io/v1/ResourceSlice", {"spec": {"devices": [device]}}) == (
        "spec.devices[0].attributes.b.text",
    )
    opaque = {"opaque": {"driver": "d", "parameters": {"any": {"thing": 1}}}}
    assert unknown_names("resource.k8s.io/v1/DeviceClass", {"spec": {"config": [opaque]}}) == ()


def test_kinds_without_a_type_of_their_own_are_known_too() -> None:
    assert unknown_names("apps/v1/Deployment", {"spec": {"replica": 1}}) == ("spec.replica",)
    assert unknown_names("kubevirt.io/v1/KubeVirt", {"any": 1}) is None


@pytest.mark.parametrize(
    "value", [None, [], "text", {"spec": [1]}, {"spec": {"containers": {"a": 1}}}, {"metadata": 3}]
)
def test_values_of_another_form_are_not_looked_into(value: Any) -> None:
    assert unknown_names("v1/Pod", value) == ()


def test_there_is_an_end_to_it() -> None:
    assert len(unknown_names("v1/Pod", {f"x{number}": 1 for number in range(500)}) or ()) == 100
