from __future__ import annotations

from typing import Any

import pytest

from dray.apiserver.writing.faults import BadRequestError, ObjectInvalidError
from dray.apiserver.writing.kinds.scale import scale_of, selector_text, update_scale
from dray.errors import ConflictError, Error, NotFoundError
from tests.apiserver.writing.small_store import SmallStore, body


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (None, ""),
        ({"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        ({"a": "1"}, "a=1"),
        (
            {
                "matchExpressions": [
                    {"key": "k", "operator": "In", "values": ["x", "y"]},
                    {"key": "l", "operator": "NotIn", "values": ["x"]},
                    {"key": "m", "operator": "Exists"},
                    {"key": "n", "operator": "DoesNotExist"},
                ]
            },
            "k in (x,y),l notin (x),m,!n",
        ),
    ],
)
def test_a_selector_as_text(selector: Any, text: str) -> None:
    assert selector_text(selector) == text


@pytest.mark.parametrize(
    "selector",
    [7, [], {"matchExpressions": [7, None, {"values": 5}]}, {"matchLabels": [], "matchExpressions": {}}],
)
def test_a_selector_that_is_none_is_no_fault_of_the_reader(selector: Any) -> None:
    """Of a kind that others define anything may have been stored."""
    assert isinstance(selector_text(selector), str)
    for odd in (selector, [selector]):
        scale = scale_of({"metadata": {"name": "x"}, "spec": odd, "status": odd})
        assert (scale["kind"], scale["spec"]) == ("Scale", {})


def scaled(store: SmallStore, scale: Any, name: str = "d") -> dict[str, Any]:
    write = store.write("deployments", name)
    return body(store.run(lambda transaction: update_scale(transaction, write, lambda old: scale)))


def test_only_the_replicas_count() -> None:
    store = SmallStore()
    made = store.create("deployments", {"metadata": {"name": "d", "labels": {"a": "b"}}, "spec": {"x": 1}})
    scale = scaled(store, {"metadata": {"name": "other"}, "spec": {"replicas": 4, "x": 2}})
    found = store.get("deployments", "d")
    assert found is not None and scale_of(found) == scale
    assert found["spec"] == made["spec"] | {"replicas": 4} and found["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    ("scale", "error", "text"),
    [
        ([], BadRequestError, "must be a Scale"),
        ({"kind": "Pod"}, BadRequestError, "must be a Scale"),
        ({"spec": {"replicas": "4"}}, BadRequestError, "32-bit integer"),
        ({"spec": {"replicas": True}}, BadRequestError, "32-bit integer"),
        ({"metadata": []}, BadRequestError, "metadata: must be an object"),
        (
            {"metadata": {"resourceVersion": {}}},
            BadRequestError,
            r"metadata\.resourceVersion: must be a string",
        ),
        ({"spec": {"replicas": -1}}, ObjectInvalidError, r"spec\.replicas: Invalid value: -1"),
        ({"metadata": {"resourceVersion": "1"}}, ConflictError, "the object has been modified"),
        ({"metadata": {"uid": "x"}}, ConflictError, "Precondition failed: UID"),
    ],
)
def test_what_is_refused(scale: Any, error: type[Error], text: str) -> None:
    store = SmallStore()
    store.create("deployments", {"metadata": {"name": "d"}})
    with pytest.raises(error, match=text):
        scaled(store, scale)
    with pytest.raises(NotFoundError):
        scaled(store, scale, "none")
