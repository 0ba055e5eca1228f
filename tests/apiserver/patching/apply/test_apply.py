from __future__ import annotations

from copy import deepcopy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dray.api import kinds
from dray.api.kinds import Resource
from dray.apiserver.patching.apply.apply import applied, updated, with_kept_times
from dray.apiserver.patching.apply.conflicts import ApplyConflictError
from dray.apiserver.patching.refusal import PatchError

START = datetime(2030, 1, 1, tzinfo=UTC)
WIDGETS = Resource("example.com", "v1", "widgets", "Widget", True, kinds.PODS.type)
Document = dict[str, Any]


def later(seconds: int) -> datetime:
    return START + timedelta(seconds=seconds)


def pod(**spec: Any) -> Document:
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "d"}}
    return {**document, "spec": spec} if spec else document


def container(name: str, **more: Any) -> Document:
    return {"name": name, **more}


def apply(
    live: Document | None, patch: Document, manager: str = "a", force: bool = False, at: int = 0
) -> Document:
    made = applied(kinds.PODS, live, patch, manager, force, "", later(at))
    made["metadata"].setdefault("uid", "1")
    return made


def update(live: Document | None, new: Document, manager: str = "u", door: str = "", at: int = 0) -> Document:
    made = updated(kinds.PODS, live, new, manager, door, later(at))
    made["metadata"].setdefault("uid", "1")
    return made


def owners(document: Document) -> Document:
    return {
        f"{entry['manager']} {entry['operation']}": entry["fieldsV1"]
        for entry in document["metadata"].get("managedFields", [])
    }


def times(document: Document) -> list[str]:
    return [entry["time"][-3:-1] for entry in document["metadata"]["managedFields"]]


def test_an_apply_creates() -> None:
    patch = pod(containers=[container("c", image="i")], nodeSelector={"a": "b"})
    made = apply(None, patch)
    assert made["spec"] == patch["spec"]
    assert made["metadata"]["managedFields"] == [
        {
            "manager": "a",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2030-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:spec": {
                    "f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}, "f:name": {}}},
                    "f:nodeSelector": {},
                }
            },
        }
    ]


def test_what_is_applied_no_more_is_removed() -> None:
    live = apply(None, pod(containers=[container("c", image="i"), container("d")], nodeName="n"))
    made = apply(live, pod(containers=[container("c")]), at=1)
    assert made["spec"] == {"containers": [container("c")]}
    assert owners(made) == {
        "a Apply": {"f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:name": {}}}}}
    }
    assert times(made) == ["01"]


def test_what_another_applied_too_stays() -> None:
    live = apply(None, pod(nodeName="n", hostname="h"))
    live = apply(live, pod(nodeName="n"), manager="b", at=1)
    made = apply(live, pod(), at=2)
    assert made["spec"] == {"nodeName": "n"}
    assert owners(made) == {"b Apply": {"f:spec": {"f:nodeName": {}}}}


def test_what_nobody_applied_is_left_alone() -> None:
    live = apply(None, pod(nodeName="n"))
    changed = deepcopy(live)
    changed["spec"]["hostname"] = "h"
    live = update(live, changed, at=1)
    made = apply(live, pod(), at=2)
    assert made["spec"] == {"hostname": "h"}
    assert owners(made) == {"u Update": {"f:spec": {"f:hostname": {}}}}


def test_one_conflict() -> None:
    live = update(None, pod(nodeName="n"), manager="kubectl")
    with pytest.raises(ApplyConflictError) as caught:
        apply(live, pod(nodeName="m"))
    assert (
        str(caught.value) == 'Apply failed with 1 conflict: conflict with "kubectl" using v1: .spec.nodeName'
    )
    (cause,) = caught.value.causes
    assert (cause.reason, cause.message, cause.field) == (
        "FieldManagerConflict",
        'conflict with "kubectl" using v1',
        ".spec.nodeName",
    )


def test_several_conflicts() -> None:
    live = update(None, pod(containers=[container("c", image="i")]))
    live = apply(live, pod(nodeName="n"), manager="b", at=1)
    with pytest.raises(ApplyConflictError) as caught:
        apply(live, pod(nodeName="m", containers=[container("c", image="j")]))
    assert caught.value.message == (
        'Apply failed with 2 conflicts: conflicts with "b":\n- .spec.nodeName\n'
        'conflicts with "u" using v1:\n- .spec.containers[name="c"].image'
    )
    assert "\n" not in str(caught.value)


def test_force_takes_the_fields() -> None:
    live = update(None, pod(nodeName="n", hostname="h"))
    made = apply(live, pod(nodeName="m"), force=True, at=1)
    assert made["spec"]["nodeName"] == "m"
    assert owners(made) == {
        "a Apply": {"f:spec": {"f:nodeName": {}}},
        "u Update": {"f:spec": {"f:hostname": {}}},
    }


def test_the_same_value_is_shared_without_conflict() -> None:
    live = update(None, pod(nodeName="n"))
    made = apply(live, pod(nodeName="n"), at=1)
    fields: Document = {"f:spec": {"f:nodeName": {}}}
    assert owners(made) == {"a Apply": fields, "u Update": fields}


def test_to_apply_the_same_again_changes_nothing() -> None:
    live = apply(None, pod(nodeName="n"))
    assert apply(live, pod(nodeName="n"), at=5) == live
    assert update(live, deepcopy(live), at=5) == live


def test_an_object_without_owners_has_been_there_before() -> None:
    made = apply({**pod(nodeName="n"), "metadata": {"name": "p", "uid": "1"}}, pod(hostname="h"))
    assert owners(made) == {
        "a Apply": {"f:spec": {"f:hostname": {}}},
        "before-first-apply Update": {"f:spec": {"f:nodeName": {}}},
    }


def test_an_update_takes_what_it_changes() -> None:
    live = apply(None, pod(nodeName="n", hostname="h"))
    new = deepcopy(live)
    new["spec"]["nodeName"] = "m"
    made = update(live, new, at=3)
    assert owners(made) == {
        "a Apply": {"f:spec": {"f:hostname": {}}},
        "u Update": {"f:spec": {"f:nodeName": {}}},
    }
    assert times(made) == ["00", "03"]


def test_a_create_owns_what_it_says() -> None:
    made = update(None, pod(containers=[container("c")], volumes=[{"name": "v", "emptyDir": {}}]))
    assert owners(made) == {
        "u Update": {
            "f:spec": {
                "f:containers": {'k:{"name":"c"}': {".": {}, "f:name": {}}},
                "f:volumes": {".": {}, 'k:{"name":"v"}': {".": {}, "f:emptyDir": {}, "f:name": {}}},
            }
        }
    }


def test_an_update_that_only_removes_keeps_its_time() -> None:
    live = update(None, pod(nodeName="n", hostname="h"))
    new = deepcopy(live)
    del new["spec"]["hostname"]
    made = update(live, new, at=4)
    assert owners(made) == {"u Update": {"f:spec": {"f:nodeName": {}}}}
    assert times(made) == ["00"]


def test_the_status_door_owns_the_status_only() -> None:
    live = update(None, pod(nodeName="n"))
    new = {**deepcopy(live), "status": {"phase": "Running"}}
    new["spec"]["nodeName"] = "m"
    made = update(live, new, manager="kubelet", door="status", at=1)
    entry = made["metadata"]["managedFields"][-1]
    assert (entry["manager"], entry["subresource"]) == ("kubelet", "status")
    assert entry["fieldsV1"] == {"f:status": {"f:phase": {}}}
    by_main_door = update(live, new, manager="x", at=1)
    assert owners(by_main_door)["x Update"] == {"f:spec": {"f:nodeName": {}}}


@pytest.mark.parametrize("reset", [[], [{}]])
def test_an_empty_list_clears_the_owners(reset: list[Any]) -> None:
    live = apply(None, pod(nodeName="n"))
    new = deepcopy(live)
    new["metadata"]["managedFields"] = reset
    cleared = update(live, new)
    assert "managedFields" not in cleared["metadata"]
    changed = {**deepcopy(cleared), "spec": {"nodeName": "m"}}
    assert "managedFields" not in update(cleared, changed)["metadata"]
    by_status = update(live, new, door="status")
    assert by_status["metadata"]["managedFields"] == live["metadata"]["managedFields"]


@pytest.mark.parametrize("sent", [None, [{"manager": "x"}]])
def test_a_client_that_does_not_know_them_does_not_lose_them(sent: Any) -> None:
    live = apply(None, pod(nodeName="n"))
    new = deepcopy(live)
    new["metadata"]["managedFields"] = sent
    assert update(live, new) == live


def test_a_client_may_write_them() -> None:
    live = apply(None, pod(nodeName="n"))
    new = deepcopy(live)
    new["metadata"]["managedFields"][0]["manager"] = "b"
    assert owners(update(live, new)) == {"b Apply": {"f:spec": {"f:nodeName": {}}}}


def test_versions_that_are_gone_own_nothing() -> None:
    live = apply(None, pod(nodeName="n"))
    live["metadata"]["managedFields"][0]["apiVersion"] = "v0"
    assert owners(apply(live, pod(hostname="h"), manager="b")) == {"b Apply": {"f:spec": {"f:hostname": {}}}}
    kept = applied(kinds.PODS, live, pod(hostname="h"), "b", False, "", START, versions=("v0",))
    assert set(owners(kept)) == {"a Apply", "b Apply"}


def test_a_kind_without_schema_merges_maps_and_replaces_lists() -> None:
    def widget(**spec: Any) -> Document:
        return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}

    live = applied(WIDGETS, None, widget(a={"b": 1}, items=[{"name": "x"}]), "a", False, "", START)
    live["metadata"]["uid"] = "1"
    made = applied(WIDGETS, live, widget(a={"c": True}), "b", False, "", START)
    assert made["spec"] == {"a": {"b": 1, "c": True}, "items": [{"name": "x"}]}
    with pytest.raises(ApplyConflictError, match=r'conflict with "a": \.spec\.items$'):
        applied(WIDGETS, live, widget(items=[{"name": "y"}]), "b", False, "", START)


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        ({"metadata": {"managedFields": []}}, 400, "metadata.managedFields must be nil"),
        ({"kind": "Node"}, 400, "invalid object type: /v1, Kind=Node"),
        ({"apiVersion": "a/v2"}, 400, "invalid object type: a/v2, Kind=Pod"),
        (
            {"spec": {"nope": 1}},
            422,
            "failed to create typed patch object (d/p; /v1, Kind=Pod): .spec.nope: field not declared in schema",
        ),
        (
            {"spec": {"containers": [container("c"), container("c")]}},
            422,
            'failed to create typed patch object (d/p; /v1, Kind=Pod): .spec.containers: duplicate entries for key [name="c"]',
        ),
    ],
)
def test_what_cannot_be_applied_is_refused(change: Document, status: int, text: str) -> None:
    with pytest.raises(PatchError) as caught:
        apply(None, {**pod(), **change})
    assert (caught.value.status, str(caught.value)) == (status, text)


def test_a_patch_that_is_too_deep_is_refused() -> None:
    deep: Any = {}
    for _ in range(5_000):
        deep = {"a": deep}
    with pytest.raises(PatchError, match="nested too deeply"):
        applied(
            WIDGETS,
            None,
            {"apiVersion": "example.com/v1", "kind": "Widget", "spec": deep},
            "a",
            False,
            "",
            START,
        )


def test_owners_that_cannot_be_read() -> None:
    live = apply(None, pod(nodeName="n"))
    live["metadata"]["managedFields"][0]["operation"] = "Guess"
    with pytest.raises(PatchError, match="failed to decode managed fields"):
        apply(live, pod())
    assert "managedFields" not in update(live, deepcopy(live))["metadata"]


def test_an_object_of_the_wrong_form_gets_no_owners() -> None:
    live = update(None, pod(containers=[container("c")]))
    wrong = {**deepcopy(live), "spec": {"containers": [{"image": 1}, "c"]}}
    assert "managedFields" not in update(live, wrong)["metadata"]


def test_a_stored_object_may_have_fields_of_a_later_kubernetes() -> None:
    live = update(None, pod(nodeName="n", later={"a": [1]}))
    assert owners(live) == {"u Update": {"f:spec": {"f:later": {".": {}, "f:a": {}}, "f:nodeName": {}}}}
    assert apply(live, pod(hostname="h"))["spec"] == {"nodeName": "n", "later": {"a": [1]}, "hostname": "h"}


def test_times_are_kept_where_nothing_else_changes() -> None:
    live = apply(None, pod(nodeName="n"))
    again = apply(None, pod(nodeName="n"), at=9)
    assert with_kept_times(live, again) == live
    assert with_kept_times(live, {**again, "status": {"phase": "Running"}}) != live
    assert with_kept_times(None, again) is again
