from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dray.apiserver.patching.apply.fields import PathSet, named
from dray.apiserver.patching.apply.managers import (
    APPLY,
    MOST_UPDATERS,
    UPDATE,
    ManagerId,
    Managers,
    Owned,
    capped,
    decode_managers,
    encode_managers,
    entries_of,
    manager_id,
    stripped,
    with_entries,
)
from dray.errors import InvalidError

START = datetime(2030, 1, 1, tzinfo=UTC)
ENTRY: dict[str, Any] = {
    "manager": "agent",
    "operation": "Update",
    "apiVersion": "v1",
    "time": "2030-01-01T00:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:spec": {"f:x": {}}},
    "subresource": "status",
}


def owned(*names: str, seconds: int | None = 0, version: str = "v1") -> Owned:
    since = None if seconds is None else START + timedelta(seconds=seconds)
    return Owned(PathSet.of(*((named(name),) for name in names)), version, since)


def test_an_entry_is_read_and_written_as_it_was() -> None:
    managers = decode_managers([ENTRY])
    assert managers == {
        ManagerId("agent", UPDATE, "v1", "status"): Owned(
            PathSet.of((named("spec"), named("x"))), "v1", START
        )
    }
    assert encode_managers(managers) == [ENTRY]
    assert list(encode_managers(managers)[0]) == list(ENTRY)
    assert decode_managers(None) == {}


def test_an_applier_is_one_in_all_versions() -> None:
    entries = [{**ENTRY, "operation": "Apply", "apiVersion": version} for version in ("v1", "v2")]
    (key,) = decode_managers(entries)
    assert key == manager_id("agent", APPLY, "v1", "status") == ManagerId("agent", APPLY, "", "status")
    assert manager_id("", UPDATE, "v1", "") == ManagerId("unknown", UPDATE, "v1")


@pytest.mark.parametrize(
    "wrong",
    [
        {"operation": "Delete"},
        {"apiVersion": ""},
        {"fieldsType": "FieldsV2"},
        {"fieldsType": None},
        {"fieldsV1": {"x": {}}},
        {"time": "yesterday"},
        {"time": "2030-01-01T00:00:00"},
    ],
)
def test_an_entry_that_cannot_be_read_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        decode_managers([{**ENTRY, **wrong}])


def test_appliers_come_first_then_the_oldest_then_by_name() -> None:
    managers: Managers = {
        ManagerId("b", UPDATE, "v1"): owned("x", seconds=1),
        ManagerId("c", UPDATE, "v1"): owned("x", seconds=0),
        ManagerId("a", UPDATE, "v1"): owned("x", seconds=1),
        ManagerId("z", APPLY): owned("x", seconds=9),
        ManagerId("d", UPDATE, "v1"): owned("x", seconds=None),
    }
    entries = encode_managers(managers)
    assert [entry["manager"] for entry in entries] == ["z", "d", "c", "a", "b"]
    assert "time" not in entries[1]


def test_managers_are_named_as_in_conflicts() -> None:
    assert str(ManagerId("a", APPLY)) == '"a"'
    assert str(ManagerId("a", UPDATE, "v1")) == '"a" using v1'
    assert str(ManagerId("a", UPDATE, "v1", "status")) == '"a" with subresource "status" using v1'
    assert ManagerId("a", UPDATE, "v1").text == '{"manager":"a","operation":"Update","apiVersion":"v1"}'


def test_nobody_owns_what_identifies_an_object() -> None:
    key, metadata = ManagerId("a", APPLY), named("metadata")
    paths = PathSet.of(
        (named("kind"),),
        (named("apiVersion"),),
        (metadata,),
        *((metadata, named(name)) for name in ("name", "namespace", "uid", "resourceVersion", "generation")),
        (metadata, named("labels")),
    )
    assert list(stripped({key: Owned(paths, "v1")}, key)[key].fields) == [(metadata, named("labels"))]
    assert stripped({key: owned("kind")}, key) == {}
    assert stripped({}, key) == {}


def crowd(count: int) -> Managers:
    return {
        ManagerId(f"m{index:02}", UPDATE, "v1"): owned(f"f{index:02}", seconds=index)
        for index in range(count)
    }


def test_ten_updaters_are_kept() -> None:
    assert capped(crowd(MOST_UPDATERS)) == crowd(MOST_UPDATERS)
    applier = {ManagerId("z", APPLY): owned("x")}
    assert capped({**crowd(MOST_UPDATERS), **applier}) == {**crowd(MOST_UPDATERS), **applier}


def test_the_oldest_updaters_become_one() -> None:
    made = capped(crowd(MOST_UPDATERS + 3))
    ancient = ManagerId("ancient-changes", UPDATE, "v1")
    assert len(made) == MOST_UPDATERS
    assert made[ancient] == owned("f00", "f01", "f02", "f03", seconds=3)
    assert min(key.manager for key in made if key != ancient) == "m04"


def test_the_ancient_entry_grows_and_loses_nothing() -> None:
    ancient = ManagerId("ancient-changes", UPDATE, "v1")
    older = {ancient: owned("old", seconds=-1), **crowd(MOST_UPDATERS)}
    assert capped(older)[ancient] == owned("old", "f00", seconds=0)
    # Of the same second as an entry that sorts before it: Kubernetes 1.36 drops the ancient entry here.
    level = {ManagerId("a", UPDATE, "v1"): owned("a"), ancient: owned("old"), **crowd(MOST_UPDATERS)}
    made = capped(level)
    assert len(made) == MOST_UPDATERS
    assert {path for one in made.values() for path in one.fields} == {
        path for one in level.values() for path in one.fields
    }


def test_updaters_of_two_versions_are_not_mixed() -> None:
    other = {ManagerId("old", UPDATE, "v0"): owned("x", seconds=-5, version="v0")}
    made = capped({**other, **crowd(MOST_UPDATERS)})
    assert len(made) == MOST_UPDATERS
    assert made[ManagerId("ancient-changes", UPDATE, "v1")] == owned("f00", "f01", seconds=1)
    assert other.items() <= made.items()


def test_entries_replace_those_of_the_document() -> None:
    document = {"metadata": {"name": "a", "managedFields": [ENTRY]}}
    assert with_entries(document, {}) == {"metadata": {"name": "a"}}
    assert entries_of(document) == [ENTRY]
    assert entries_of(None) is None
    assert with_entries({}, decode_managers([ENTRY])) == {"metadata": {"managedFields": [ENTRY]}}
