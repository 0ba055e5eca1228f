from __future__ import annotations

import json
from copy import deepcopy
from datetime import UTC, datetime
from typing import Any

import pytest

from dray.api import kinds
from dray.apiserver.patching.apply.apply import applied, updated
from dray.apiserver.patching.apply.conflicts import ApplyConflictError
from dray.apiserver.patching.apply.last_applied import ANNOTATION

NOW = datetime(2030, 1, 1, tzinfo=UTC)
Document = dict[str, Any]


def node(**spec: Any) -> Document:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": spec}


def by_client_side_apply(text: str | None = None, **spec: Any) -> Document:
    new = node(**spec)
    new["metadata"]["annotations"] = {ANNOTATION: json.dumps(new) if text is None else text}
    made = updated(kinds.NODES, None, new, "kubectl-client-side-apply", "", NOW)
    made["metadata"]["uid"] = "1"
    return made


def apply(live: Document, patch: Document, manager: str = "kubectl") -> Document:
    return applied(kinds.NODES, live, patch, manager, False, "", NOW)


def test_kubectl_moves_to_server_side_apply_without_conflict() -> None:
    live = by_client_side_apply(podCIDR="a")
    made = apply(live, node(podCIDR="b"))
    assert made["spec"] == {"podCIDR": "b"}
    wanted = '{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"spec":{"podCIDR":"b"}}\n'
    assert made["metadata"]["annotations"][ANNOTATION] == wanted


def test_other_managers_have_the_conflict() -> None:
    with pytest.raises(ApplyConflictError):
        apply(by_client_side_apply(podCIDR="a"), node(podCIDR="b"), manager="other")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"apiVersion":"v0"}', '{"apiVersion":"v1","nope":1}'])
def test_an_annotation_that_says_nothing_helps_nobody(text: str) -> None:
    with pytest.raises(ApplyConflictError):
        apply(by_client_side_apply(text, podCIDR="a"), node(podCIDR="b"))


def test_what_changed_since_is_not_kubectls() -> None:
    live = by_client_side_apply(podCIDR="a", providerID="p")
    new = deepcopy(live)
    new["spec"]["podCIDR"] = "x"
    live = updated(kinds.NODES, live, new, "other", "", NOW)
    with pytest.raises(ApplyConflictError) as caught:
        apply(live, node(podCIDR="b", providerID="q"))
    assert str(caught.value) == 'Apply failed with 1 conflict: conflict with "other" using v1: .spec.podCIDR'


def test_an_annotation_that_would_be_too_large_goes() -> None:
    live = by_client_side_apply(podCIDR="a")
    patch = node(providerID="x" * 300_000)
    assert "annotations" not in apply(live, patch)["metadata"]


def test_the_annotation_does_not_hold_itself() -> None:
    live = by_client_side_apply(podCIDR="a")
    patch = node(podCIDR="a")
    patch["metadata"]["annotations"] = {ANNOTATION: "old", "b": "<"}
    made = applied(kinds.NODES, live, patch, "kubectl", True, "", NOW)
    text = made["metadata"]["annotations"][ANNOTATION]
    assert '"annotations":{"b":"\\u003c"}' in text
