"""Strategic merge patches of a pod: what they make of it. `make e2e` asks Kubernetes' own library for the same."""

from __future__ import annotations

from typing import Any

Document = dict[str, Any]


def containers(*items: Any, **more: Any) -> Document:
    return {"spec": {"containers": list(items), **more}}


def named(*names: str) -> list[Document]:
    return [{"name": name} for name in names]


def finalizers(*names: str, **more: Any) -> Document:
    return {"metadata": {"finalizers": list(names), **more}}


A1, B1 = {"name": "a", "image": "1"}, {"name": "b", "image": "1"}
GONE_A = {"name": "a", "$patch": "delete"}
ORDER = "$setElementOrder/containers"
FINALIZER_ORDER = "$setElementOrder/finalizers"
DELETE_FINALIZERS = "$deleteFromPrimitiveList/finalizers"
EMPTY_DIR: Document = {"name": "v", "emptyDir": {}}
HOST_PATH: Document = {"name": "v", "hostPath": {"path": "/x"}}

APPLIED: dict[str, tuple[Document, Document, Document]] = {
    "a field is added": ({"spec": {}}, {"spec": {"nodeName": "n"}}, {"spec": {"nodeName": "n"}}),
    "a field is removed by null": ({"spec": {"nodeName": "n"}}, {"spec": {"nodeName": None}}, {"spec": {}}),
    "null for what is not there does nothing": ({"spec": {}}, {"spec": {"nodeName": None}}, {"spec": {}}),
    "maps of strings are merged": (
        {"metadata": {"labels": {"a": "1", "b": "1"}}},
        {"metadata": {"labels": {"b": "2", "c": "2", "a": None}}},
        {"metadata": {"labels": {"b": "2", "c": "2"}}},
    ),
    "a new map comes without its nulls": (
        {},
        {"metadata": {"labels": {"a": None, "b": "1"}}},
        {"metadata": {"labels": {"b": "1"}}},
    ),
    "items are merged by their key": (
        containers(A1, B1),
        containers({"name": "b", "image": "2"}),
        containers(A1, {"name": "b", "image": "2"}),
    ),
    "a new item comes first where the patch has no other": (
        containers(A1),
        containers(B1),
        containers(B1, A1),
    ),
    "new items stand as the patch has them": (
        containers(A1),
        containers(*named("c", "b")),
        containers(*named("c", "b"), A1),
    ),
    "an item in an item is merged too": (
        containers({"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "1"}]}),
        containers({"name": "a", "env": [{"name": "Y", "value": "2"}]}),
        containers({"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}),
    ),
    "a number can be the key": (
        containers({"name": "a", "ports": [{"containerPort": 80, "name": "x"}]}),
        containers({"name": "a", "ports": [{"containerPort": 80, "name": "y"}]}),
        containers({"name": "a", "ports": [{"containerPort": 80, "name": "y"}]}),
    ),
    "an item is deleted": (containers(A1, B1), containers(GONE_A), containers(B1)),
    "all items of the key are deleted": (containers(A1, B1, A1), containers(GONE_A), containers(B1)),
    "deleting what is not there does nothing": (containers(B1), containers(GONE_A), containers(B1)),
    "an item is deleted and put there anew": (
        containers(A1, B1),
        containers(GONE_A, {"name": "a", "args": ["x"]}),
        containers({"name": "a", "args": ["x"]}, B1),
    ),
    "a deletion in a new list leaves nothing": ({"spec": {}}, containers(GONE_A, B1), containers(B1)),
    "a list is replaced": (
        containers(A1, B1),
        containers({"name": "c"}, {"$patch": "replace"}),
        containers({"name": "c"}),
    ),
    "a list is replaced by nothing": (containers(A1), containers({"$patch": "replace"}), containers()),
    "two empty lists are one": (containers(), containers(), containers()),
    "an empty list merges nothing": (containers(A1), containers(), containers(A1)),
    "a list without a strategy is replaced": (
        {"spec": {"tolerations": [{"key": "a"}, {"key": "b"}]}},
        {"spec": {"tolerations": [{"key": "c"}]}},
        {"spec": {"tolerations": [{"key": "c"}]}},
    ),
    "a list of strings without a strategy is replaced": (
        containers({"name": "a", "args": ["x", "y"]}),
        containers({"name": "a", "args": ["z"]}),
        containers({"name": "a", "args": ["z"]}),
    ),
    "a map is replaced": (
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"b": "2", "$patch": "replace"}}},
        {"metadata": {"labels": {"b": "2"}}},
    ),
    "a map is emptied": (
        {"metadata": {"labels": {"a": "1"}}},
        {"metadata": {"labels": {"b": "2", "$patch": "delete"}}},
        {"metadata": {"labels": {}}},
    ),
    "a map to empty that is not there stays away": (
        {"metadata": {}},
        {"metadata": {"labels": {"$patch": "delete"}}},
        {"metadata": {}},
    ),
    "the whole object is replaced": (containers(A1), {"$patch": "replace", "spec": {}}, {"spec": {}}),
    "a value of another type takes the place": ({"spec": "x"}, {"spec": {"a": None}}, {"spec": {}}),
    "finalizers are merged": (finalizers("a", "b"), finalizers("c", "a"), finalizers("c", "a", "b")),
    "a finalizer is removed": (
        finalizers("a", "b", "c"),
        {"metadata": {DELETE_FINALIZERS: ["b", "x"]}},
        finalizers("a", "c"),
    ),
    "finalizers are removed and added": (
        finalizers("a", "b"),
        finalizers("c", **{DELETE_FINALIZERS: ["a"]}),
        finalizers("c", "b"),
    ),
    "removing from a list that is not there does nothing": (
        {"metadata": {}},
        {"metadata": {DELETE_FINALIZERS: ["b"]}},
        {"metadata": {}},
    ),
    "finalizers are put in order": (
        finalizers("a", "b", "c"),
        {"metadata": {FINALIZER_ORDER: ["c", "a"]}},
        finalizers("b", "c", "a"),
    ),
    "items are put in order": (
        containers(*named("a", "b", "c")),
        {"spec": {ORDER: named("c", "b", "a")}},
        containers(*named("c", "b", "a")),
    ),
    "the server's own items stay between those of the patch": (
        containers(*named("a", "server", "b")),
        containers(*named("a", "b", "c"), **{ORDER: named("a", "b", "c")}),
        containers(*named("a", "server", "b", "c")),
    ),
    "items are deleted, added and put in order as kubectl asks for it": (
        containers(*named("a", "server", "b")),
        containers(*named("c"), GONE_A, **{ORDER: named("c", "b")}),
        containers(*named("server", "c", "b")),
    ),
    "an order for what is not there does nothing": (
        {"spec": {}},
        {"spec": {ORDER: named("a")}},
        {"spec": {}},
    ),
    "the order of a list that is new": (
        {"spec": {}},
        containers(*named("b", "a"), **{ORDER: named("b", "a")}),
        containers(*named("b", "a")),
    ),
    "only the keys that are retained stay": (
        {"spec": {"volumes": [EMPTY_DIR]}},
        {"spec": {"volumes": [{**HOST_PATH, "$retainKeys": ["name", "hostPath"]}]}},
        {"spec": {"volumes": [HOST_PATH]}},
    ),
    "without retained keys both sources stay": (
        {"spec": {"volumes": [EMPTY_DIR]}},
        {"spec": {"volumes": [HOST_PATH]}},
        {"spec": {"volumes": [{**EMPTY_DIR, **HOST_PATH}]}},
    ),
    "a retained key that is null is removed": (
        {"spec": {"volumes": [EMPTY_DIR]}},
        {"spec": {"volumes": [{"name": "v", "emptyDir": None, "$retainKeys": ["name"]}]}},
        {"spec": {"volumes": [{"name": "v"}]}},
    ),
}

REFUSED: dict[str, tuple[Document, Document, int]] = {
    "an item without its key": (containers(A1), containers({"image": "2"}), 422),
    "a deletion without a key": (containers(A1), containers({"$patch": "delete"}), 422),
    "an item of the object without its key": (containers({"image": "1"}), containers(A1), 422),
    "merge is no directive for a list": (containers(A1), containers({"name": "a", "$patch": "merge"}), 422),
    "another directive in a list": (containers(A1), containers({"name": "a", "$patch": "x"}), 422),
    "another directive in a map": ({"spec": {}}, {"spec": {"$patch": "x"}}, 422),
    "a directive that is no text": ({"spec": {}}, {"spec": {"$patch": {}}}, 422),
    "a list of lists": (containers(A1), containers([]), 422),
    "items of two types": (containers(A1), containers("a"), 422),
    "a null item": (finalizers("a"), {"metadata": {"finalizers": [None]}}, 422),
    "a key that is an object": (containers(A1), containers({"name": {}}), 422),
    "retained keys that are no list": ({"spec": {}}, {"spec": {"$retainKeys": "a"}}, 400),
    "a key that is not retained": ({"spec": {}}, {"spec": {"$retainKeys": ["a"], "b": 1}}, 400),
    "an order without a field": ({"spec": {}}, {"spec": {"$setElementOrder": []}}, 400),
    "an order of nothing known": ({"spec": {}}, {"spec": {"$setElementOrder/none": []}}, 422),
    "an order that is no list": ({"spec": {}}, {"spec": {ORDER: "a"}}, 422),
    "an order that does not have the patch's items": (
        containers(A1),
        containers(B1, **{ORDER: named("a")}),
        422,
    ),
    "an order that the patch does not keep": (
        containers(A1, B1),
        containers(A1, B1, **{ORDER: named("b", "a")}),
        422,
    ),
    "an order of an empty list": (containers(), {"spec": {ORDER: named("a")}}, 422),
    "an order of what is no list": (
        {"spec": {"containers": None}},
        {"spec": {ORDER: named("a")}},
        422,
    ),
    "a deletion list without a field": (
        {"metadata": {}},
        {"metadata": {"$deleteFromPrimitiveListX/a": []}},
        400,
    ),
    "a field that nobody knows": ({"spec": {"none": {}}}, {"spec": {"none": {}}}, 422),
    "a list that nobody knows": ({"spec": {"none": []}}, {"spec": {"none": []}}, 422),
    "a map in a map of strings": (
        {"metadata": {"labels": {"a": {}}}},
        {"metadata": {"labels": {"a": {}}}},
        422,
    ),
}
"""With the status; where Kubernetes answers 500 it is 422 here."""
