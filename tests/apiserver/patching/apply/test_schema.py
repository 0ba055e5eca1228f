from __future__ import annotations

from typing import Any

import pytest

from dray.api import kinds
from dray.api.kinds import Resource
from dray.apiserver.patching.apply.fields import PathSet, keyed, named, valued
from dray.apiserver.patching.apply.schema import (
    DEDUCED,
    Type,
    empty_document,
    filled,
    reset_fields,
    same,
    type_of,
    with_structs,
)
from dray.errors import InvalidError

WIDGETS = Resource("example.com", "v1", "widgets", "Widget", True, kinds.PODS.type)


def at(type_: Type, *names: str) -> Type:
    for name in names:
        inner = type_.list.items if name == "*" and type_.list else type_.under(named(name))
        assert inner is not None, name
        type_ = inner
    return type_


def test_lists_of_a_pod() -> None:
    containers = at(type_of(kinds.PODS), "spec", "containers").list
    assert containers is not None
    assert (containers.is_atomic, containers.keys) == (False, ("name",))
    command = at(type_of(kinds.PODS), "spec", "containers", "*", "command").list
    assert command is not None
    assert command.is_atomic
    finalizers = at(type_of(kinds.PODS), "metadata", "finalizers").list
    assert finalizers is not None
    assert (finalizers.is_atomic, finalizers.keys) == (False, ())


def test_a_key_that_is_left_out_has_its_default() -> None:
    ports = at(type_of(kinds.PODS), "spec", "containers", "*", "ports").list
    assert ports is not None
    assert ports.element({"containerPort": 80}) == keyed({"containerPort": 80, "protocol": "TCP"})


def test_items_that_have_no_name_are_refused() -> None:
    devices = at(type_of(kinds.RESOURCE_CLAIMS), "status", "devices").list
    finalizers = at(type_of(kinds.PODS), "metadata", "finalizers").list
    assert devices is not None
    assert finalizers is not None
    for wrong in (None, "a"):
        with pytest.raises(InvalidError):
            devices.element(wrong)
    for wrong in (None, {}, []):  # type: ignore[assignment]
        with pytest.raises(InvalidError):
            finalizers.element(wrong)
    assert finalizers.element("a") == valued("a")


def test_selectors_are_atomic_and_labels_are_not() -> None:
    node_selector = at(type_of(kinds.RESOURCE_SLICES), "spec", "nodeSelector").map
    labels = at(type_of(kinds.PODS), "metadata", "labels").map
    assert node_selector is not None
    assert labels is not None
    assert (node_selector.is_atomic, labels.is_atomic) == (True, False)


def test_an_unknown_kind_is_deduced() -> None:
    assert type_of(WIDGETS) is DEDUCED
    values: tuple[Any, ...] = ({}, [], "a", 1, True, None)
    assert [DEDUCED.form(value) for value in values] == [
        "map",
        "list",
        "scalar",
        "scalar",
        "scalar",
        "any",
    ]
    assert empty_document(WIDGETS) == {"apiVersion": "example.com/v1", "kind": "Widget"}


def test_a_new_pod_is_compared_with_an_empty_one() -> None:
    empty = empty_document(kinds.PODS)
    assert empty == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {},
        "spec": {"containers": None},
        "status": {},
    }
    empty["spec"]["containers"] = []
    assert empty_document(kinds.PODS)["spec"]["containers"] is None


def test_each_door_resets_what_it_does_not_write() -> None:
    status, spec, metadata = (named("status"),), (named("spec"),), (named("metadata"),)
    assert list(reset_fields(kinds.PODS, "")) == [status]
    assert list(reset_fields(kinds.PODS, "status")) == [
        spec,
        (*metadata, named("deletionTimestamp")),
        (*metadata, named("ownerReferences")),
    ]
    assert list(reset_fields(kinds.NODES, "status")) == [spec]
    assert list(reset_fields(kinds.RESOURCE_CLAIMS, "status")) == [metadata, spec]
    assert list(reset_fields(kinds.RESOURCE_SLICES, "")) == []


def test_struct_fields_join_their_children() -> None:
    label = (named("metadata"), named("labels"), named("a"))
    assert list(with_structs(PathSet.of(label), type_of(kinds.PODS))) == [label[:1], label[:2], label]
    assert list(with_structs(PathSet.of(label), type_of(WIDGETS))) == [label]


def test_equality_of_json() -> None:
    assert same({"a": [1, None]}, {"a": [1.0, None]})
    assert not same([True], [1])
    assert not same({"a": None}, {})
    assert not same([1], [1, 1])


def test_the_parts_that_are_always_there_are_filled_in() -> None:
    claim = {"metadata": {"name": "a"}, "spec": {"devices": None}, "status": {"allocation": {}}}
    assert filled(kinds.RESOURCE_CLAIMS, claim) == {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "a"},
        "spec": {"devices": {"requests": None}},
        "status": {"allocation": {}},
    }
    assert claim["spec"] == {"devices": None}
