"""The check of a store at rest: it accepts what a server leaves behind, and names everything that none would."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dray.api.codec import encode
from dray.apiserver.check import Report, check_store
from dray.apiserver.http.server import Address
from dray.apiserver.store.contract import Change, ChangeKind, Key, Stored
from dray.apiserver.store.journal import Batch, Journal
from dray.cli.main import main
from dray.errors import ConflictError, HardwareError, NotFoundError
from dray.processes.apiserver import ApiServerOptions, api_server

Json = dict[str, Any]
CLAIMS = "resourceclaims.resource.k8s.io"


def stored(revision: int, key: Key, uid: str = "", metadata: Json | None = None, **fields: Any) -> Stored:
    own = {"name": key.name, "uid": uid or f"uid-{key.name}", "resourceVersion": str(revision)}
    place = {"namespace": key.namespace} if key.namespace else {}
    document = {"metadata": own | place | (metadata or {}), **fields}
    return Stored(key, uid or f"uid-{key.name}", revision, encode(document))


def added(one: Stored) -> Change:
    return Change(ChangeKind.ADDED, one.revision, one, None)


def modified(one: Stored) -> Change:
    return Change(ChangeKind.MODIFIED, one.revision, one, None)


def deleted(one: Stored) -> Change:
    return Change(ChangeKind.DELETED, one.revision, one, None)


NS = Key("namespaces", "", "ns")
MAP = Key("configmaps", "ns", "m")


def claim(revision: int, name: str, *results: Json) -> Change:
    allocation = {
        "devices": {"results": [{"driver": "d", "pool": "p", "request": "r"} | one for one in results]}
    }
    return added(stored(revision, Key(CLAIMS, "ns", name), status={"allocation": allocation}))


def checked(path: Path, *changes: Change, given: int = 20, floor: int = 1) -> Report:
    journal = Journal(path / "store.db")
    journal.open()
    journal.commit(Batch([added(stored(2, NS)), *changes], given, floor, ()))
    journal.close()
    return check_store(path / "store.db")


async def test_what_a_server_leaves_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with api_server(ApiServerOptions(tmp_path, Address(port=0))):
        with pytest.raises(ConflictError, match="is locked by"):
            check_store(tmp_path / "store.db")
    assert main(["apiserver", "--check", f"--data-dir={tmp_path}"]) == 0
    assert capsys.readouterr().out.endswith(": in order\n")


def test_a_store_in_order(tmp_path: Path) -> None:
    changes = [
        added(stored(3, MAP)),
        modified(stored(5, MAP)),
        deleted(stored(6, MAP)),
        added(stored(7, MAP, uid="another")),
        claim(8, "a", {"device": "whole"}),
        claim(9, "b", {"device": "whole", "adminAccess": True}),
        claim(10, "c", {"device": "s", "shareID": "1"}, {"device": "s", "shareID": "2"}),
    ]
    assert checked(tmp_path, *changes) == Report(20, 8, 5, ())


def test_what_was_forgotten_before_the_floor(tmp_path: Path) -> None:
    assert checked(tmp_path, modified(stored(5, MAP)), floor=5).faults == ()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        (
            [added(stored(21, MAP))],
            "revision 21, configmaps ns/m: it is newer than the counter, which is at 20",
        ),
        (
            [added(stored(3, MAP)), added(stored(4, MAP))],
            "revision 4, configmaps ns/m: it is added, but was there",
        ),
        (
            [modified(stored(4, MAP))],
            "revision 4, configmaps ns/m: it is modified, but the log does not have it before",
        ),
        (
            [deleted(stored(4, MAP))],
            "revision 4, configmaps ns/m: it is deleted, but the log does not have it before",
        ),
        (
            [added(stored(3, MAP)), modified(stored(4, MAP, uid="u"))],
            "revision 4, configmaps ns/m: its uid was uid-m and is u",
        ),
        (
            [added(stored(3, MAP, metadata={"resourceVersion": "2"}))],
            "revision 3, configmaps ns/m: metadata.resourceVersion is '2', where '3' belongs",
        ),
        (
            [added(stored(3, MAP, metadata={"name": "x"}))],
            "revision 3, configmaps ns/m: metadata.name is 'x', where 'm' belongs",
        ),
        (
            [added(Stored(MAP, "u", 3, b"[]"))],
            "revision 3, configmaps ns/m: its document has no metadata",
        ),
        (
            [added(stored(3, MAP, data={"a": 1}))],
            "revision 3, configmaps ns/m: it cannot be read as ConfigMap: data[a]",
        ),
        (
            [added(Stored(MAP, "u", 3, b"{"))],
            "revision 3, configmaps ns/m: its document cannot be read: ",
        ),
        (
            [added(stored(3, MAP, uid="uid-ns"))],
            "configmaps ns/m and namespaces ns have the same uid uid-ns",
        ),
        (
            [added(stored(3, Key("configmaps", "other", "m")))],
            "configmaps other/m is in a namespace that does not exist",
        ),
        (
            [claim(3, "a", {"device": "g"}), claim(4, "b", {"device": "g", "shareID": "1"})],
            f"device d/p/g is held by {CLAIMS} ns/a and {CLAIMS} ns/b",
        ),
        ([claim(3, "a", {"device": "g"}, {"device": "g"})], f"{CLAIMS} ns/a holds device d/p/g twice"),
    ],
)
def test_every_fault_is_named(tmp_path: Path, changes: list[Change], fault: str) -> None:
    [found] = checked(tmp_path, *changes).faults
    assert found.startswith(fault)


def test_the_command_names_the_faults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checked(tmp_path, modified(stored(4, MAP)))
    assert main(["apiserver", "--check", f"--data-dir={tmp_path}"]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert "the log does not have it before" in first
    assert last == "2 objects, 2 changes, revision 20: 1 faults"


def spoil(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE log SET raw = ?", (b"{}",))


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(("harm", "kind"), [(spoil, HardwareError), (remove, NotFoundError)])
def test_no_store_that_a_server_would_start_with(
    tmp_path: Path, harm: Callable[[Path], None], kind: type[Exception]
) -> None:
    checked(tmp_path)
    harm(tmp_path / "store.db")
    with pytest.raises(kind):
        check_store(tmp_path / "store.db")
