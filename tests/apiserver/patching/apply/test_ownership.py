from __future__ import annotations

from typing import Any

import pytest

from dray.api import kinds
from dray.apiserver.patching.apply.conflicts import ApplyConflictError
from dray.apiserver.patching.apply.fields import PathSet, decode_fields, encode_fields, named
from dray.apiserver.patching.apply.managers import APPLY, UPDATE, ManagerId, Owned
from dray.apiserver.patching.apply.ownership import Rules, after_apply, after_update, fitted
from dray.apiserver.patching.apply.schema import type_of

POD = type_of(kinds.PODS)
RULES = Rules(POD, "v1", frozenset({"v1"}), PathSet.of((named("status"),)))
ME, OTHER = ManagerId("me", APPLY), ManagerId("other", UPDATE, "v1")


def owned(fields: dict[str, Any]) -> Owned:
    return Owned(decode_fields(fields), "v1")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"f:spec": {"f:tolerations": {'k:{"key":"a"}': {"f:key": {}}}}}, {"f:spec": {"f:tolerations": {}}}),
        ({"f:spec": {"f:tolerations": {".": {}, "i:0": {}}}}, {"f:spec": {"f:tolerations": {}}}),
        ({"f:spec": {"f:tolerations": {}}}, {"f:spec": {"f:tolerations": {}}}),
        ({"f:metadata": {"f:labels": {"f:a": {}}}}, {"f:metadata": {"f:labels": {"f:a": {}}}}),
        ({"f:nope": {"f:a": {}}}, {"f:nope": {"f:a": {}}}),
    ],
)
def test_sets_of_an_older_schema_are_made_to_fit(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert encode_fields(fitted(decode_fields(before), POD)) == after


def test_an_update_takes_from_others_and_drops_what_is_gone() -> None:
    managers = {OTHER: owned({"f:spec": {"f:nodeName": {}, "f:hostname": {}, "f:subdomain": {}}})}
    live = {"spec": {"nodeName": "a", "hostname": "h", "subdomain": "s"}}
    new = {"spec": {"nodeName": "b", "subdomain": "s"}, "status": {"phase": "Running"}}
    made = after_update(live, new, managers, ME, RULES)
    assert encode_fields(made[OTHER].fields) == {"f:spec": {"f:subdomain": {}}}
    assert encode_fields(made[ME].fields) == {"f:spec": {"f:nodeName": {}}}
    assert encode_fields(managers[OTHER].fields)["f:spec"].keys() == {
        "f:nodeName",
        "f:hostname",
        "f:subdomain",
    }


def test_who_has_nothing_left_is_gone() -> None:
    managers = {OTHER: owned({"f:spec": {"f:nodeName": {}}})}
    assert after_update({"spec": {"nodeName": "a"}}, {"spec": {}}, managers, ME, RULES) == {}


def test_conflicts_are_sorted_by_owner_and_path() -> None:
    third = ManagerId("third", APPLY, subresource="status")
    managers = {
        third: owned({"f:spec": {"f:hostname": {}}}),
        OTHER: owned({"f:spec": {"f:nodeName": {}, "f:hostname": {}}}),
    }
    live = {"spec": {"nodeName": "a", "hostname": "h"}}
    with pytest.raises(ApplyConflictError) as caught:
        after_apply(live, {"spec": {"nodeName": "b", "hostname": "i"}}, managers, ME, RULES, force=False)
    assert [(cause.message, cause.field) for cause in caught.value.causes] == [
        ('conflict with "other" using v1', ".spec.hostname"),
        ('conflict with "other" using v1', ".spec.nodeName"),
        ('conflict with "third" with subresource "status"', ".spec.hostname"),
    ]


def test_an_apply_that_changes_nothing_says_so() -> None:
    live = {"spec": {"nodeName": "a"}}
    new, managers = after_apply(live, live, {}, ME, RULES, force=False)
    assert new is None
    assert encode_fields(managers[ME].fields) == {"f:spec": {"f:nodeName": {}}}
