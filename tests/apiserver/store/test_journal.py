"""The file: what it keeps, what it refuses to open, and what a full disk does."""

from __future__ import annotations

import contextlib
import os
import resource
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from dray.apiserver.store.contract import Change, ChangeKind, Stored
from dray.apiserver.store.journal import SCHEMA, Batch, Journal, Row, connect
from dray.errors import DeniedError, Error, HardwareError, InvalidError, UnavailableError
from tests.apiserver.store.stores import Gate, delete, key, put, store_at, value_of


def change(revision: int, name: str = "a", kind: ChangeKind = ChangeKind.ADDED, raw: bytes = b"{}") -> Change:
    return Change(kind, revision, Stored(key(name), "u", revision, raw), None)


def opened(path: Path) -> Journal:
    journal = Journal(path)
    journal.open()
    return journal


def test_rows_come_back_in_order_with_the_counters(tmp_path: Path) -> None:
    journal = opened(tmp_path / "s")
    assert (journal.given, journal.floor, list(journal.rows())) == (1, 1, [])
    journal.commit(Batch([change(2), change(4, "b\0ü")], 9, 1, ()))
    journal.commit(Batch([change(10, kind=ChangeKind.DELETED, raw=b"x" * 10_000)], 10, 4, (2,)))
    journal.close()
    journal.close()
    journal = opened(tmp_path / "s")
    assert (journal.given, journal.floor) == (10, 4)
    assert list(journal.rows()) == [
        Row(ChangeKind.ADDED, change(4, "b\0ü").new),
        Row(ChangeKind.DELETED, change(10, raw=b"x" * 10_000).new),
    ]
    journal.close()


def test_batches_of_any_size_are_whole(tmp_path: Path) -> None:
    journal = opened(tmp_path / "s")
    revision, written = 2, []
    for size in (0, 1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 150):
        changes = [change(revision + number, f"n{number}", raw=b"%d" % number) for number in range(size)]
        journal.commit(Batch(changes, revision + size, 1, ()))
        revision += size
        written += [one.new for one in changes]
    assert [row.new for row in journal.rows()] == written
    journal.close()


def test_a_failed_batch_leaves_nothing(tmp_path: Path) -> None:
    journal = opened(tmp_path / "s")
    journal.commit(Batch([change(2)], 2, 1, ()))
    with pytest.raises(HardwareError, match="UNIQUE"):
        journal.commit(Batch([change(3), change(2)], 3, 1, ()))
    journal.commit(Batch([change(4)], 4, 1, ()))
    assert [row.new.revision for row in journal.rows()] == [2, 4]
    journal.close()


def test_a_failed_batch_takes_nothing_of_a_larger_one_with_it(tmp_path: Path) -> None:
    journal = opened(tmp_path / "s")
    journal.commit(Batch([change(2), change(3, "b"), change(4, "c")], 4, 1, ()))
    with pytest.raises(HardwareError, match="UNIQUE"):
        journal.commit(Batch([change(5, "d"), change(2)], 5, 1, ()))
    journal.commit(Batch([change(6, "e")], 6, 1, ()))
    assert [row.new.revision for row in journal.rows()] == [2, 3, 4, 6]
    journal.close()


async def test_rows_that_nobody_needs_are_removed(tmp_path: Path) -> None:
    async with store_at(tmp_path / "s", history_changes=5) as store:
        for number in range(50):
            await store.write(put(key("a"), number))
            await store.write(put(key(f"gone{number}")))
            await store.write(delete(key(f"gone{number}")))
        await store.write(put(key("b")))
    with connect(str(tmp_path / "s")) as connection:
        count = connection.execute("SELECT count(*) FROM log").fetchone()[0]
    connection.close()
    assert count < 20
    async with store_at(tmp_path / "s") as store:
        assert [value_of(item) for item in store.list("pods").items] == [49, 0]
        assert len(store.list("pods", at=store.revision - 4).items) >= 1


def refusal(path: Path) -> Error:
    with pytest.raises(Error) as caught:
        list(opened(path).rows())
    assert str(path) in str(caught.value)
    return caught.value


def filled(path: Path) -> None:
    journal = opened(path)
    journal.commit(Batch([change(n, f"n{n}", raw=b"x" * 3000) for n in range(2, 60)], 60, 1, ()))
    journal.close()


def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    filled(path)
    connection = connect(str(path))
    connection.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    connection.close()
    before = path.read_bytes()
    error = refusal(path)
    assert isinstance(error, InvalidError)
    assert "has schema 2, and this Dray knows 1" in str(error)
    assert path.read_bytes() == before


def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    connection = connect(str(path))
    connection.execute("CREATE TABLE log (x)")
    connection.close()
    before = path.read_bytes()
    assert "another program" in str(refusal(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("where", [0, 100, 4096, 100_000])
def test_a_damaged_file_is_refused(tmp_path: Path, where: int) -> None:
    path = tmp_path / "s"
    filled(path)
    with path.open("r+b") as file:
        file.seek(where)
        file.write(bytes(range(1, 200)))
    error = refusal(path)
    assert isinstance(error, HardwareError | InvalidError)
    assert "is damaged" in str(error)
    assert "put a copy in its place, or move it" in str(error)


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s"
    filled(path)
    os.truncate(path, 20_000)
    assert "is damaged" in str(refusal(path))


def test_one_wrong_bit_in_a_document_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    filled(path)
    content = bytearray(path.read_bytes())
    content[content.rindex(b"x" * 100) + 50] ^= 1
    path.write_bytes(bytes(content))
    assert "is not what was written" in str(refusal(path))


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM counters",
        "DROP TABLE counters",
        "UPDATE log SET kind = 'X' WHERE revision = 5",
        "UPDATE log SET raw = 7 WHERE revision = 5",
        "UPDATE log SET name = CAST(x'ff' AS TEXT) WHERE revision = 5",
    ],
)
def test_foreign_hands_are_noticed(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "s"
    filled(path)
    connection = connect(str(path))
    connection.execute(statement)
    connection.close()
    assert "is damaged" in str(refusal(path))


async def test_a_deletion_of_nothing_is_damage(tmp_path: Path) -> None:
    journal = opened(tmp_path / "s")
    journal.commit(Batch([change(2, kind=ChangeKind.DELETED)], 2, 1, ()))
    journal.close()
    with pytest.raises(HardwareError, match="row 2 removes what is not there"):
        async with store_at(tmp_path / "s"):
            pass


def test_a_program_that_looks_at_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s"
    filled(path)
    connection = connect(str(path))
    connection.execute("BEGIN IMMEDIATE")
    error = refusal(path)
    connection.close()
    assert isinstance(error, UnavailableError)
    assert "another program has it open" in str(error)


def test_nobody_else_gets_in(tmp_path: Path) -> None:
    journal = opened(tmp_path / "s")
    other = connect(str(tmp_path / "s"))
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("SELECT * FROM log")
    other.close()
    journal.close()


@pytest.mark.parametrize("make", ["directory", "link", "fifo"])
def test_what_is_no_file_is_refused(tmp_path: Path, make: str) -> None:
    path = tmp_path / "s"
    if make == "directory":
        path.mkdir()
    elif make == "link":
        path.symlink_to(tmp_path / "elsewhere")
    else:
        os.mkfifo(path)
    assert isinstance(refusal(path), InvalidError | DeniedError | HardwareError)


async def test_a_database_that_may_not_grow_refuses_and_goes_on(tmp_path: Path) -> None:
    """SQLite's own limit answers as a full disk does, in the middle of a transaction."""
    limits: list[sqlite3.Connection] = []

    def small(path: str) -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        limits.append(connection)
        return connection

    from dray.apiserver.store.sqlite import open_store

    async with open_store(tmp_path / "s", connect=small) as store:
        await store.write(put(key("a"), "kept"))
        limits[0].execute("PRAGMA max_page_count = 20")
        with pytest.raises(UnavailableError, match="the disk is full: free space"):
            await store.write(put(key("a"), "x" * 200_000))
        assert value_of(store.get(key("a"))) == "kept"
        await store.write(put(key("b"), "small"))
        limits[0].execute("PRAGMA max_page_count = 1000000")
        await store.write(put(key("a"), "x" * 200_000))
    async with store_at(tmp_path / "s") as store:
        assert [len(value_of(item)) for item in store.list("pods").items] == [200_000, 5]


FULL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from dray.apiserver.store.sqlite import open_store
from dray.errors import Error
from tests.apiserver.store.stores import key, put, value_of

async def main():
    async with open_store(Path(sys.argv[1])) as store:
        refused = stored = 0
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
        for number in range(60):
            try:
                await store.write(put(key(f"n{number:02}"), "x" * 20_000))
                stored += 1
            except Error as error:
                refused += 1
                text = str(error)
        assert refused and stored and len(store.list("pods").items) == stored, (refused, stored)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        await store.write(put(key("after"), ""))
        print(stored, store.revision, text)

asyncio.run(main())
"""


async def test_a_disk_that_takes_no_more_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """The kernel refuses to let the files grow, wherever in a commit or a checkpoint that falls."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "s")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    stored, revision, text = run.stdout.split(" ", 2)
    assert "cannot write the store" in text
    async with store_at(tmp_path / "s") as store:
        assert store.revision == int(revision) == 62
        names = [item.key.name for item in store.list("pods").items]
        assert len(names) == int(stored) + 1
        assert names[0] == "after"


def test_a_batch_whose_sync_failed_is_written_over_at_once(tmp_path: Path) -> None:
    gate = Gate()
    journal = Journal(tmp_path / "s", gate.connect)
    journal.open()
    gate.is_on = True
    journal.commit(Batch([change(2)], 2, 1, ()))
    gate.fail_once_after = "SQLITE_IOERR_FSYNC"
    with pytest.raises(HardwareError):
        journal.commit(Batch([change(3, "b")], 3, 1, ()))
    assert [row.new.revision for row in journal.rows()] == [2]
    journal.close()


@pytest.mark.parametrize("name", ["SQLITE_FULL", "SQLITE_BUSY"])
def test_what_may_pass_is_tried_again_in_five_seconds(tmp_path: Path, name: str) -> None:
    gate = Gate()
    journal = Journal(tmp_path / "s", gate.connect)
    journal.open()
    gate.is_on, gate.fail_before = True, name
    with pytest.raises(UnavailableError) as caught:
        journal.commit(Batch([change(2)], 2, 1, ()))
    assert caught.value.retry_after == 5.0
    journal.close()


def test_what_sqlite_itself_finds_wrong_is_told_when_the_file_is_opened(tmp_path: Path) -> None:
    """A row without a value that every row has: no page is damaged, and SQLite's check finds it."""
    path = tmp_path / "s"
    journal = opened(path)
    journal.commit(Batch([change(2)], 2, 1, ()))
    journal.close()
    with contextlib.closing(connect(str(path))) as connection:
        (text,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'log'").fetchone()
        for sql, change_row in (
            (text.replace(" NOT NULL", ""), "UPDATE log SET uid = NULL"),
            (text, "SELECT 1"),
        ):
            connection.execute("PRAGMA writable_schema = ON")
            connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'log'", (sql,))
            connection.execute("PRAGMA writable_schema = RESET")
            connection.execute(change_row)
    with pytest.raises(HardwareError, match=r"is damaged .*NULL value in log"):
        Journal(path).open()
