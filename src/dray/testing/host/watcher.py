"""The thread that stands in for the kernel: it sees each write to a file that acts, and acts on it.

Plain files would lose writes: two quick ones to `create`, and the first text is gone before anyone has read it. So each
file that acts is leased (`leases.py`). When a writer opens it, the thread first puts a fresh file in its place and then
lets the writer on: each open writes to a file of its own, and no write is lost, however fast they come. Writes act in the
order of their close(), over all files, and each has acted before the next one begins. Only writers that open one file
at the very same moment share it, and one of their texts is lost: let them take turns. Where leases are not to be had, a
file is watched without one, and then the last of several quick writes counts.

One open is one write, as with sysfs. Where the file has a text (`driver_override`), a writer ends its own with a newline
or opens with O_TRUNC, as shells, Python and Go do; sysfs does not mind either.
"""

from __future__ import annotations

import os
import select
import struct
import threading
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from dray.errors import InvariantError, UnavailableError
from dray.runtime.files import syscalls
from dray.testing.host import leases
from dray.testing.host.actions import Actions
from dray.testing.host.tree import Tree

_IN_CLOSE_WRITE = 0x8
_IN_Q_OVERFLOW = 0x4000
_EVENT = struct.Struct("iIII")
# Each lease holds a descriptor; the usual limit of a process is 1024. The files beyond are watched without one.
LEASES = 400
_RETIRED = 256


@dataclass(slots=True)
class _Armed:
    """One inode that is watched. `descriptor` is -1 where it has no lease; `seen` is what was acted upon last."""

    path: str
    descriptor: int
    seen: bytes = b""


class Watcher:
    """Enter it to make the files of the tree act, leave it to make them plain again."""

    def __init__(self, tree: Tree, actions: Actions, *, leases: int = LEASES) -> None:
        self._tree = tree
        self._actions = actions
        self._leases = leases
        self._armed: dict[int, _Armed] = {}
        self._by_path: dict[str, int] = {}
        self._outgoing: dict[str, int] = {}
        self._retired: deque[int] = deque()
        self._asked = self._answered = 0
        self._answer = threading.Condition()
        self._stop = False

    def __enter__(self) -> Watcher:
        self._inotify = syscalls.inotify_init()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), name="host-kernel", daemon=True)
        self._thread.start()
        if not ready.wait(10):
            raise InvariantError("the thread that makes the host's files act did not start")
        with self._tree.lock:
            self._tree.watching = self
            for path in self._actions.paths():
                if self._tree.exists(path):
                    self._tree.rewrite(path)
        return self

    def __exit__(self, *_: object) -> None:
        with self._tree.lock:
            self._tree.watching = None
        self._stop = True
        os.write(self._wake_write, b"x")
        self._thread.join(10)
        for descriptor in (self._inotify, self._wake_read, self._wake_write):
            os.close(descriptor)

    def wants(self, path: str) -> bool:
        """Whether writes to this file act."""
        return path in self._actions

    def arm(self, place: Path, path: str) -> None:
        """Watch a new file that is about to get its name."""
        watch = syscalls.inotify_add_watch(self._inotify, str(place), _IN_CLOSE_WRITE)
        descriptor = self._lease(place) if len(self._by_path) < self._leases else -1
        if path in self._by_path:
            self._outgoing[path] = self._by_path[path]
        self._armed[watch] = _Armed(path, descriptor)
        self._by_path[path] = watch

    def _lease(self, place: Path) -> int:
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        if leases.take(descriptor, self._native_thread):
            return descriptor
        os.close(descriptor)
        return -1

    def replaced(self, path: str) -> None:
        """Let writers have the old file only now, when no other can open it any more."""
        if path in self._outgoing:
            self._retire(self._outgoing.pop(path))

    def vanished(self, path: str) -> None:
        """Let go of the files of a directory that was removed."""
        gone = [name for name in self._by_path if name == path or name.startswith(f"{path}/")]
        for name in gone:
            self._retire(self._by_path[name])

    def settle(self, timeout: float) -> None:
        """Return when every write whose file was closed before this call has been acted upon (held ones aside)."""
        with self._answer:
            self._asked += 1
            asked = self._asked
            os.write(self._wake_write, b"x")
            done = self._answer.wait_for(
                lambda: self._answered >= asked or not self._thread.is_alive(), timeout
            )
        if not self._thread.is_alive():
            raise InvariantError(
                "the thread that makes the host's files act has died; its traceback is above"
            )
        if not done:
            raise UnavailableError(f"writes to the host's files did not settle in {timeout} s")

    def _run(self, ready: threading.Event) -> None:
        self._native_thread = leases.current_thread()
        signals = leases.open_signals()
        poll = select.poll()
        for descriptor in (signals, self._inotify, self._wake_read):
            poll.register(descriptor, select.POLLIN)
        ready.set()
        try:
            while not self._stop:
                _drain(
                    self._wake_read
                )  # before the question is read: a later one leaves its byte in the pipe
                with self._answer:
                    asked = self._asked
                opened = _drain(signals)
                while self._read_events():
                    pass
                if opened:  # after the events: a write has acted before the next one may begin
                    self._renew()
                wait = self._actions.run_due()
                if wait is None:
                    self._answer_up_to(asked)
                poll.poll(None if wait is None else wait * 1000 + 1)
        finally:
            self._disarm()
            os.close(signals)

    def _answer_up_to(self, asked: int) -> None:
        with self._answer:
            self._answered = asked
            self._answer.notify_all()

    def _renew(self) -> None:
        """Someone opens a file for writing: give the name a fresh file, then let the writer have the old one."""
        with self._tree.lock:
            for path, watch in list(self._by_path.items()):
                armed = self._armed[watch]
                if armed.descriptor < 0 or not leases.is_breaking(armed.descriptor):
                    continue
                if self._tree.watching is self and self._tree.exists(path):
                    self._tree.rewrite(path)
                else:
                    self._retire(watch)

    def _retire(self, watch: int) -> None:
        """The file has lost its name, to a fresh one or for good: let writers that wait for it go on, and watch them."""
        armed = self._armed[watch]
        if self._by_path.get(armed.path) == watch:
            del self._by_path[armed.path]
        if armed.descriptor < 0:
            self._drop(watch)
            return
        leases.release(armed.descriptor)
        self._retired.append(watch)
        if len(self._retired) > _RETIRED:
            self._drop(self._retired.popleft())

    def _drop(self, watch: int) -> None:
        armed = self._armed.pop(watch, None)
        if armed is None:
            return
        if armed.descriptor >= 0:
            os.close(armed.descriptor)
        try:
            syscalls.inotify_rm_watch(self._inotify, watch)
        except OSError:  # the inode went first and took the watch along
            return

    def _read_events(self) -> bool:
        try:
            data = os.read(self._inotify, 1 << 16)
        except BlockingIOError:
            return False
        offset = 0
        while offset < len(data):
            watch, mask, _, size = _EVENT.unpack_from(data, offset)
            offset += _EVENT.size + size
            if mask & _IN_Q_OVERFLOW:
                raise InvariantError("too many writes at once: the kernel dropped inotify events")
            self._on_event(watch, mask)
        return True

    def _on_event(self, watch: int, mask: int) -> None:
        with self._tree.lock:
            armed = self._armed.get(watch)
            if armed is None or not mask & _IN_CLOSE_WRITE:
                return
            data = self._take_text(armed)
            if data and data != armed.seen:
                armed.seen = data if armed.descriptor >= 0 else b""
                self._actions.accept(armed.path, data.decode(errors="replace"))

    def _take_text(self, armed: _Armed) -> bytes:
        if armed.descriptor >= 0:
            return os.pread(armed.descriptor, 1 << 16, 0)
        place = self._tree.path(armed.path)
        try:
            mode = place.stat().st_mode & 0o7777
            place.chmod(mode | 0o400)
            data = place.read_bytes()
            place.chmod(mode)
            if not mode & 0o400:
                os.truncate(place, 0)
        except FileNotFoundError:
            return b""
        return data

    def _disarm(self) -> None:
        with self._tree.lock:
            for watch in list(self._armed):
                self._drop(watch)


def _drain(descriptor: int) -> bool:
    """Empty a non-blocking descriptor; whether there was anything."""
    found = False
    try:
        while os.read(descriptor, 4096):
            found = True
    except BlockingIOError:
        return found
    return found
