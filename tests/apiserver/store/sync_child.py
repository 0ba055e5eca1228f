"""A process that writes, and says in which order the log was written and synced and the writers were answered.

It stands between SQLite and the kernel: a VFS of its own, which passes everything on. Started by test_sync.py.
"""

from __future__ import annotations

import asyncio
import ctypes
import ctypes.util
import json
import re
import sys
from pathlib import Path
from typing import Any

from dray.apiserver.store.sqlite import open_store
from tests.apiserver.store.stores import key, put

WRITERS, EACH = 6, 8
_NAME = re.compile(rb'"name":"([0-9-]+)"')

Pointer = ctypes.c_void_p
Open = ctypes.CFUNCTYPE(ctypes.c_int, Pointer, ctypes.c_char_p, Pointer, ctypes.c_int, Pointer)
Write = ctypes.CFUNCTYPE(ctypes.c_int, Pointer, Pointer, ctypes.c_int, ctypes.c_int64)
Sync = ctypes.CFUNCTYPE(ctypes.c_int, Pointer, ctypes.c_int)


class Vfs(ctypes.Structure):
    """sqlite3_vfs up to what is replaced, and the rest of version 3 as it is."""

    _fields_ = [
        ("version", ctypes.c_int),
        ("file_size", ctypes.c_int),
        ("longest_path", ctypes.c_int),
        ("next", Pointer),
        ("name", ctypes.c_char_p),
        ("data", Pointer),
        ("open", Open),
        ("rest", Pointer * 15),
    ]


class Methods(ctypes.Structure):
    """sqlite3_io_methods."""

    _fields_ = [
        ("version", ctypes.c_int),
        ("close", Pointer),
        ("read", Pointer),
        ("write", Write),
        ("truncate", Pointer),
        ("sync", Sync),
        ("rest", Pointer * 13),
    ]


class File(ctypes.Structure):
    """sqlite3_file."""

    _fields_ = [("methods", ctypes.POINTER(Methods))]


class Recorder:
    """The order of what happened: `write` of some objects to the log, `sync` of it (0: done), `answer` about an object."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self._library = ctypes.CDLL(ctypes.util.find_library("sqlite3"))
        self._library.sqlite3_vfs_find.restype = ctypes.POINTER(Vfs)
        self._base = self._library.sqlite3_vfs_find(None).contents
        self._own = Vfs.from_buffer_copy(self._base)
        self._own.name, self._own.next = b"recorder", None
        self._own.open = Open(self._open)
        self._kept: list[Any] = []  # SQLite has pointers to these
        assert self._library.sqlite3_vfs_register(ctypes.byref(self._own), 1) == 0

    def _open(self, vfs: Any, name: bytes | None, file: Any, flags: int, told: Any) -> int:
        code: int = self._base.open(vfs, name, file, flags, told)
        if code == 0 and (name or b"").endswith(b"-wal"):
            opened = ctypes.cast(file, ctypes.POINTER(File)).contents
            passed_on = opened.methods.contents
            own = Methods.from_buffer_copy(passed_on)

            def write(file: Any, data: Any, size: int, offset: int) -> int:
                found = _NAME.findall(ctypes.string_at(data, size))
                self.events.append(("write", [name.decode() for name in found]))
                return int(passed_on.write(file, data, size, offset))

            def sync(*words: Any) -> int:
                code = int(passed_on.sync(*words))
                self.events.append(("sync", code))
                return code

            own.write, own.sync = Write(write), Sync(sync)
            self._kept += [own, passed_on]
            opened.methods = ctypes.pointer(own)
        return code


async def main(path: str) -> None:
    recorder = Recorder()
    async with open_store(Path(path)) as store:

        async def write(writer: int) -> None:
            for number in range(EACH):
                name = f"{writer}-{number}"
                await store.write(put(key(name)))
                recorder.events.append(("answer", name))

        async with asyncio.TaskGroup() as group:
            for writer in range(WRITERS):
                group.create_task(write(writer))
        last = len(recorder.events)
    sys.stdout.write(json.dumps(recorder.events[:last]))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
