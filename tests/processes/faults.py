"""What the tests of faults share: a kubelet's memory, an independent look at a tree, a faster clock, the agent as a process."""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import selectors
import signal
import stat
import struct
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dray.errors import Error
from tests.drivers.machine import build
from tests.processes.conftest import Node
from tests.processes.fast_clock import FastClock as FastClock
from tests.small_kubelet import SmallKubelet

_LINKS = 40
_CAPABILITIES_3 = 0x20080522
_OVERRIDE = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
_libc = ctypes.CDLL(None, use_errno=True)

List = list[tuple[str, str]]


class History(dict[str, List]):
    """The lists of a small kubelet, and how many messages made them."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[str, list[List]] = {}

    def __setitem__(self, resource: str, found: List) -> None:
        self.messages.setdefault(resource, []).append(found)
        super().__setitem__(resource, found)


class Tough(SmallKubelet):
    """One that takes it well when there is no directory any more where a plugin was."""

    async def _read(self, resource: str, endpoint: str) -> None:
        try:
            await super()._read(resource, endpoint)
        except Error:
            self.drop(resource)


def make_node(path: Path, kubelet: type[SmallKubelet] = Tough) -> tuple[Node, History]:
    """As the fixture makes it, with a kubelet that remembers."""
    history = History()
    return Node(
        path, build(path / "host"), kubelet(path / "kubelet" / "device-plugins", lists=history)
    ), history


def place_of(root: Path, path: str) -> Path | None:
    """Where `path` of a host below `root` leads, links followed below the root; None where the way ends before.

    Written apart from the product's own: it is what that one is judged by.
    """
    todo = [part for part in path.split("/") if part][::-1]
    done: list[str] = []
    links = 0
    while todo:
        part = todo.pop()
        if part in (".", ".."):
            done = done[:-1] if part == ".." else done
            continue
        place = root.joinpath(*done, part)
        try:
            mode = place.lstat().st_mode
            if not stat.S_ISLNK(mode):
                done.append(part)
                if todo and not stat.S_ISDIR(mode):
                    return None
                continue
            target = os.readlink(place)
        except OSError:
            return None
        links += 1
        if links > _LINKS:
            return None
        done = [] if target.startswith("/") else done
        todo += [name for name in target.split("/") if name][::-1]
    return root.joinpath(*done)


def kind_of(root: Path, path: str) -> str:
    """What is there: file, directory, other or nothing."""
    place = place_of(root, path)
    return "nothing" if place is None else _kind(place)


def _kind(place: Path) -> str:
    try:
        mode = place.lstat().st_mode
    except OSError:
        return "nothing"
    return {stat.S_IFREG: "file", stat.S_IFDIR: "directory"}.get(stat.S_IFMT(mode), "other")


@contextmanager
def suppressed() -> Iterator[None]:
    """For a storm of random changes: one that cannot be made now is none."""
    try:
        yield
    except OSError:
        return


@dataclass
class AgentProcess:
    """`dray agent`, started, looked at and killed as a process."""

    node: Node
    process: asyncio.subprocess.Process | None = None
    said: list[str] = field(default_factory=list)
    arguments: tuple[str, ...] = ()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    async def start(self, **limits: int) -> None:
        """A new one. What it says goes to a file, read by `log`."""
        options = self.node.options
        command = [sys.executable, "-m", "dray", "agent", "--config", str(options.config)]
        for flag, value in (
            ("--kubelet-dir", options.kubelet_dir),
            ("--device-plugin-dir", options.device_plugin_dir),
            ("--state-dir", options.state_dir),
            ("--host-root", options.host_root),
            ("--metrics-address", "none"),
        ):
            command += [flag, str(value)]
        with self.log_path.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *command, *self.arguments, stderr=log, stdout=log
            )

    @property
    def log_path(self) -> Path:
        return self.node.path / "agent.log"

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    async def kill(self, number: signal.Signals = signal.SIGKILL, seconds: float = 60.0) -> int:
        """Its exit code; what has ended already stays so."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(seconds):
            return await self.process.wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[AgentProcess]:
        await self.start()
        try:
            yield self
        finally:
            await self.kill()

    def is_asleep(self) -> bool:
        """Whether it waits for something now, and neither runs nor waits for a turn to."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"

    def wakeups(self) -> int:
        """How often it has waited so far."""
        (found,) = re.findall(
            r"^voluntary_ctxt_switches:\s*(\d+)$", Path(f"/proc/{self.pid}/status").read_text(), re.MULTILINE
        )
        return int(found)

    def descriptors(self) -> list[str]:
        """What it has open, by kind: numbers of sockets and pipes are left out."""
        found = []
        for entry in Path(f"/proc/{self.pid}/fd").iterdir():
            with suppressed():
                found.append(re.sub(r"[0-9]+", "N", os.readlink(entry)))
        return sorted(found)

    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/task").iterdir()))


@contextmanager
def common_rights() -> Iterator[None]:
    """Root too is refused by the mode of a file, in this thread and those that it starts: without two capabilities."""
    header = struct.pack("Ii", _CAPABILITIES_3, 0)
    data = ctypes.create_string_buffer(24)
    if _libc.capget(header, data):
        raise OSError(ctypes.get_errno(), "capget")
    effective, *rest = struct.unpack("6I", data.raw)
    less = struct.pack("6I", effective & ~_OVERRIDE, *rest)
    if _libc.capset(header, less):
        raise OSError(ctypes.get_errno(), "capset")
    try:
        yield
    finally:
        _libc.capset(header, data.raw)


class _Turns(selectors.EpollSelector):
    count = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.count += 1
        return super().select(timeout)


def count_turns(work: Coroutine[Any, Any, None]) -> int:
    """Run it in a loop of its own; how often the loop turned. A task that spins turns it ten thousand times a second."""
    turns = _Turns()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(turns)) as runner:
        runner.run(work)
    return turns.count
