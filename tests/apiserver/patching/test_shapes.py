from __future__ import annotations

import pytest

from dray.api.kinds import ALL_RESOURCES
from dray.apiserver.patching.refusal import PatchError
from dray.apiserver.patching.shapes import Shape, shape_of, tidied


def pod() -> Shape:
    found = shape_of("v1/Pod")
    assert found is not None
    return found


def test_all_our_kinds_have_a_shape_and_custom_ones_do_not() -> None:
    for resource in ALL_RESOURCES:
        assert shape_of(f"{resource.api_version}/{resource.kind}") is not None
    assert shape_of("kubevirt.io/v1/KubeVirt") is None
    assert shape_of("Pod") is None


def test_a_list_has_the_strategy_and_the_key_of_the_go_type() -> None:
    spec = pod().field("spec").shape
    for name, key in {"containers": "name", "volumes": "name", "hostAliases": "ip"}.items():
        field = spec.list_field(name)
        assert (field.strategy, field.merge_key) == ("merge", key)
    assert spec.list_field("tolerations").strategy == ""
    assert spec.list_field("containers").shape.list_field("ports").merge_key == "containerPort"
    finalizers = pod().field("metadata").shape.list_field("finalizers")
    assert (finalizers.strategy, finalizers.merge_key) == ("merge", "")


def test_fields_of_embedded_structs_are_fields_of_the_outer_one() -> None:
    volume = pod().field("spec").shape.list_field("volumes").shape
    assert volume.field("hostPath").shape.name == "core.v1.HostPathVolumeSource"
    assert pod().field("apiVersion").shape.fields == {}


def test_a_field_is_found_in_any_case_of_letters_but_rather_in_its_own() -> None:
    assert pod().field("SPEC") == pod().field("spec")
    with pytest.raises(PatchError, match='unable to find api field in Pod for the json field "spek"'):
        pod().field("spek")
    with pytest.raises(PatchError, match="holds no list"):
        pod().list_field("spec")


def test_tidying_looks_only_into_what_is_known() -> None:
    untidy = {
        "metadata": {"name": "a", "labels": None, "annotations": {"x": None}, "$patch": "x"},
        "spec": {"containers": [{"name": "a", "image": None, "$retainKeys": []}, None], "new": {"a": None}},
        "$setElementOrder/x": [],
    }
    assert tidied(untidy, pod()) == {
        "metadata": {"name": "a", "annotations": {"x": None}},
        "spec": {"containers": [{"name": "a"}, None], "new": {"a": None}},
    }
