"""The durable log in SQLite: one row for each change, until neither the objects nor the history need it.

WAL mode with `synchronous=FULL`: when `commit` returned, the log was synced, so a kill or a power cut loses nothing of
it. All of it runs in one thread, which is not the event loop's.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from sys import intern
from typing import Final, NamedTuple
from zlib import crc32

from dray.apiserver.store.contract import Change, ChangeKind, Key, Stored
from dray.errors import Error, HardwareError, InvalidError, UnavailableError
from dray.runtime.files.durable import open_directory, sync_directory
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log

_log = get_log("apiserver.store.journal")

SCHEMA: Final = 1
_APPLICATION: Final = 0x44726179  # "Dray"
_LOG: Final = """CREATE TABLE log (
    revision INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    resource TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    uid TEXT NOT NULL,
    raw BLOB NOT NULL,
    checksum INTEGER NOT NULL
)"""
_TABLES: Final = (
    _LOG,
    "CREATE TABLE counters (given INTEGER NOT NULL, floor INTEGER NOT NULL)",
    "INSERT INTO counters VALUES (1, 1)",  # Kubernetes gives 0 a meaning of its own
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {SCHEMA}",
)
_ROWS: Final = (
    "SELECT revision, kind, resource, namespace, name, uid, raw, checksum FROM log ORDER BY revision"
)
_WAL_BYTES: Final = 64 << 20
_DAMAGE: Final = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")
# What the system says about a file, rather than its content.
_SYSTEM: Final = (
    "BUSY",
    "CANTOPEN",
    "FULL",
    "INTERRUPT",
    "IOERR",
    "LOCKED",
    "NOLFS",
    "NOMEM",
    "PERM",
    "READONLY",
)

_INSERT: Final = "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_AT_ONCE: Final = (64, 16, 4, 1)
_INSERTS: Final = {count: _INSERT + ", (?, ?, ?, ?, ?, ?, ?, ?)" * (count - 1) for count in _AT_ONCE}

Connect = Callable[[str], sqlite3.Connection]


class Batch(NamedTuple):
    """What one commit makes durable. `given` is the counter, `floor` the history's, `unneeded` are rows to remove."""

    changes: Sequence[Change]
    given: int
    floor: int
    unneeded: Sequence[int]


class Row(NamedTuple):
    """A change as the log has it."""

    kind: ChangeKind
    new: Stored


def connect(path: str) -> sqlite3.Connection:
    """A connection that starts no transaction by itself and never waits for a lock."""
    return sqlite3.connect(path, timeout=0, isolation_level=None)


class Journal:
    """The open log. `given` and `floor` are as the last run left them."""

    def __init__(self, path: Path, connect: Connect = connect) -> None:
        self._path = path
        self._connect = connect
        self._durable = 0
        self._doubtful = False
        self._is_open = False
        self.given = 0
        self.floor = 0

    def open(self) -> None:
        """Open or create. InvalidError: not ours, or newer than us; HardwareError: damaged or unreadable."""
        try:
            self._create_file()
            self._connection = self._connect(str(self._path))
        except OSError as error:
            raise from_os_error(error, "open the store", str(self._path)) from error
        except sqlite3.Error as error:
            raise self._opening(error) from error
        try:
            self._prepare()
            self._is_open = True
        except sqlite3.Error as error:
            self._connection.close()
            raise self._opening(error) from error
        except BaseException:
            self._connection.close()
            raise

    def rows(self) -> Iterator[Row]:
        """Everything in the log, oldest first. HardwareError where a row is not what was written."""
        try:
            yield from self._rows()
        except sqlite3.Error as error:
            raise self._opening(error) from error
        except TypeError as error:  # a field is not of the kind that was written
            raise self.damaged(str(error)) from error

    def commit(self, batch: Batch) -> None:
        """Make it durable as a whole, or raise UnavailableError or HardwareError: then nothing of it is in the log."""
        try:
            self._write(batch)
        except sqlite3.Error as error:
            self._undo(batch)
            raise self._refused(error) from error
        self.given, self.floor = batch.given, batch.floor
        if batch.changes:
            self._durable = batch.changes[-1].revision

    def close(self) -> None:
        """Fold the log into the file and let go of it; nothing where it was never opened."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._connection.close()
        except sqlite3.Error as error:
            _log.warning("store not closed in order", path=str(self._path), error=str(error))

    def _create_file(self) -> None:
        """Readable for its owner only, like what it holds; SQLite gives its own files the same mode."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        os.close(os.open(self._path, flags, 0o600))
        with open_directory(self._path.parent) as directory:
            sync_directory(directory)

    def _prepare(self) -> None:
        # No other process gets in, not even to look: it could not be kept from writing.
        self._pragma("locking_mode = EXCLUSIVE")
        new = not self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if not new:
            self._check_version()
        self._pragma(f"journal_size_limit = {_WAL_BYTES}")
        mode = self._pragma("journal_mode = WAL")
        self._pragma("synchronous = FULL")
        level = self._pragma("synchronous")
        if (mode, level) != ("wal", 2):
            raise HardwareError(
                f"the file system of {str(self._path)!r} cannot keep a durable log (journal_mode {mode}, synchronous"
                f" {level}): choose another data directory",
                path=str(self._path),
            )
        if new:
            self._all_of(_TABLES)
        elif (found := self._pragma("quick_check(1)")) != "ok":
            raise self.damaged(str(found))
        counters = self._connection.execute("SELECT given, floor FROM counters").fetchone()
        if counters is None:
            raise self.damaged("it has lost its counters")
        self.given, self.floor = counters
        self._durable = self._connection.execute("SELECT ifnull(max(revision), 0) FROM log").fetchone()[0]

    def _check_version(self) -> None:
        if self._pragma("application_id") != _APPLICATION:
            raise InvalidError(
                f"{str(self._path)!r} is a database of another program: choose another data directory",
                field=str(self._path),
            )
        version = self._pragma("user_version")
        if version != SCHEMA:
            raise InvalidError(
                f"the store {str(self._path)!r} has schema {version}, and this Dray knows {SCHEMA}: start it with the"
                " Dray that wrote it, or choose another data directory",
                field=str(self._path),
            )

    def _rows(self) -> Iterator[Row]:
        kinds = {str(kind): kind for kind in ChangeKind}
        for revision, kind, resource, namespace, name, uid, raw, checksum in self._connection.execute(_ROWS):
            found = _checksum(revision, kind, (resource, namespace, name, uid), raw)
            if found != checksum or kind not in kinds:
                raise self.damaged(f"row {revision} is not what was written")
            key = Key(intern(resource), intern(namespace), name)
            yield Row(kinds[kind], Stored(key, uid, revision, raw))

    def _write(self, batch: Batch) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        if self._doubtful:
            execute("DELETE FROM log WHERE revision > ?", (self._durable,))
        many = self._connection.executemany
        for statement, values in _inserts(batch.changes):
            execute(statement, values)
        many("DELETE FROM log WHERE revision = ?", ((revision,) for revision in batch.unneeded))
        execute("UPDATE counters SET given = ?, floor = ?", (batch.given, batch.floor))
        execute("COMMIT")
        self._doubtful = False

    def _undo(self, batch: Batch) -> None:
        """A commit whose sync failed may lie in the file whole and come back after a kill: write over it at once.

        Where the disk refuses that too, the next commit does it first.
        """
        self._doubtful = True
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._write(Batch((), batch.given, self.floor, ()))
            self.given = batch.given
        except sqlite3.Error as error:
            _log.debug("nothing can be written yet", path=str(self._path), error=str(error))
            if self._connection.in_transaction:
                self._roll_back()

    def _roll_back(self) -> None:
        try:
            self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            _log.debug("cannot roll back", path=str(self._path), error=str(error))

    def _all_of(self, statements: Sequence[str]) -> None:
        for statement in ("BEGIN IMMEDIATE", *statements, "COMMIT"):
            self._connection.execute(statement)

    def _pragma(self, text: str) -> object:
        row = self._connection.execute(f"PRAGMA {text}").fetchone()
        return None if row is None else row[0]

    def damaged(self, what: str) -> HardwareError:
        """The error for a log that cannot be what was written."""
        path = str(self._path)
        return HardwareError(
            f"the store {path!r} is damaged ({what}): put a copy in its place, or move it and the files"
            f" {self._path.name}-* away to start empty",
            path=path,
        )

    def _opening(self, error: sqlite3.Error) -> Error:
        if _name(error).removeprefix("SQLITE_").startswith(_SYSTEM):
            return self._refused(error, "open")
        return self.damaged(str(error))

    def _refused(self, error: sqlite3.Error, doing: str = "write") -> Error:
        path, name = str(self._path), _name(error)
        start = f"cannot {doing} the store {path!r}: "
        if name.startswith("SQLITE_FULL"):
            return UnavailableError(f"{start}the disk is full: free space on it", retry_after=5.0)
        if name.startswith("SQLITE_BUSY"):
            return UnavailableError(f"{start}another program has it open: close that", retry_after=5.0)
        if name.startswith(_DAMAGE):
            return HardwareError(
                f"{start}it is damaged ({error}): stop, and put a copy in its place", path=path
            )
        advice = "look at the disk, its mount options and the kernel log"
        return HardwareError(f"{start}{error} ({name}): {advice}", path=path)


def _inserts(changes: Sequence[Change]) -> Iterator[tuple[str, list[object]]]:
    """Few statements for many rows: after each, this thread has to wait for its turn to run Python."""
    at = 0
    while at < len(changes):
        count = next(size for size in _AT_ONCE if size <= len(changes) - at)
        values = [value for change in changes[at : at + count] for value in _row(change)]
        yield _INSERTS[count], values
        at += count


def _name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", None) or type(error).__name__


def _row(change: Change) -> tuple[object, ...]:
    new = change.new
    kind = str(change.kind)
    checksum = _checksum(change.revision, kind, (*new.key, new.uid), new.raw)
    return (change.revision, kind, *new.key, new.uid, new.raw, checksum)


def _checksum(revision: int, kind: str, texts: tuple[str, ...], raw: bytes) -> int:
    head = "\0".join((str(revision), kind, *texts)).encode(errors="surrogatepass")
    return crc32(raw, crc32(head))
