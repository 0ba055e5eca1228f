"""A control plane of real processes on one data directory: started, killed, held still, and judged in the end."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dray.apiserver.check import check_store
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from tests.waiting import until

_ALARM = re.compile(r"level=error|[Tt]raceback|never retrieved|left behind")
PATIENCE = 60.0


class Program:
    """A command that may be started again. Its log goes on over all its lives."""

    def __init__(self, log: Path, *words: str) -> None:
        self._log = log
        self._words = words
        self._process: asyncio.subprocess.Process | None = None
        self._begin = 0
        self.codes: list[int] = []
        """How each life ended that nobody here ended."""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def text(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    async def start(self, until: str = "msg=ready") -> None:
        """Return when it says so; "" does not wait."""
        self._begin = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(*self._words, stdout=log, stderr=log)
        if until:
            await self.wait_line(until)

    async def wait_line(self, text: str) -> None:
        """In the log of this life."""

        async def is_there() -> bool:
            assert self._process is not None
            said = self._log.read_bytes()[self._begin :].decode()
            assert self._process.returncode is None or text in said, said
            return text in said

        await until(is_there)

    async def kill(self) -> None:
        await self.end(signal.SIGKILL)

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit status; one that ended before is noted."""
        process = self._process
        assert process is not None
        if process.returncode is not None:
            self.codes.append(process.returncode)
        else:
            process.send_signal(signal.SIGCONT)
            process.send_signal(number)
        return await asyncio.wait_for(process.wait(), PATIENCE)

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    async def wait_end(self, seconds: float = PATIENCE) -> int:
        """Of itself, and expected."""
        assert self._process is not None
        return await asyncio.wait_for(self._process.wait(), seconds)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    def alarms(self) -> list[str]:
        """Lines of the log that no fault excuses."""
        return [line[:2000] for line in self.text.splitlines() if _ALARM.search(line)]


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@dataclass
class ControlPlane:
    """The API server and whatever else runs against it. `before` are words in front of the server's command."""

    directory: Path
    before: Sequence[str] = ()
    root: str = ""
    port: int = field(default_factory=_free_port)
    programs: list[Program] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.data = self.directory / "data"
        self.server = self._add("apiserver", *self.before, *_dray(
            "apiserver", f"--data-dir={self.data}", f"--listen=127.0.0.1:{self.port}"
        ))  # fmt: skip

    @property
    def seen_data(self) -> Path:
        """The data directory as it is seen from here."""
        return Path(f"{self.root}{self.data}")

    def kubeconfig(self, port: int = 0) -> Path:
        """Through another port, where a proxy listens."""
        own = self.seen_data / "admin.kubeconfig"
        if not port:
            return own
        other = self.directory / f"through-{port}.kubeconfig"
        other.write_text(own.read_text().replace(f"127.0.0.1:{self.port}", f"127.0.0.1:{port}"))
        other.chmod(0o600)
        return other

    def scheduler(self, *flags: str, through: int = 0) -> Program:
        return self._client("scheduler", "--in-flight=16", *flags, through=through)

    def controllers(self, *flags: str, through: int = 0) -> Program:
        return self._client("controllers", *flags, through=through)

    async def restart_server(self) -> None:
        await self.server.kill()
        await self.server.start()

    async def end(self) -> None:
        """Everyone ends in order, nobody ended before or has anything bad to tell, and the store is in order."""
        codes = [await one.end() for one in reversed(self.programs)]
        assert [one.alarms() for one in self.programs if one.alarms()] == []
        assert [one.codes for one in self.programs if one.codes] == []
        assert codes == [0] * len(codes)
        assert check_store(self.seen_data / "store.db").faults == ()

    async def kill_all(self) -> None:
        for one in self.programs:
            if one.is_running:
                await one.kill()

    def _client(self, part: str, *flags: str, through: int) -> Program:
        kubeconfig = f"--kubeconfig={self.kubeconfig(through)}"
        return self._add(part, *_dray(part, kubeconfig, "--metrics-address=none", *flags))

    def _add(self, name: str, *words: str) -> Program:
        made = Program(self.directory / f"{name}-{len(self.programs)}.log", *words)
        self.programs.append(made)
        return made


def _dray(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "dray", *words)


@asynccontextmanager
async def control_plane(
    directory: Path, before: Sequence[str] = (), root: str = ""
) -> AsyncIterator[tuple[ControlPlane, Client]]:
    """Entered: the server answers. Left: it was judged, unless something failed before."""
    plane = ControlPlane(directory, before, root)
    try:
        await plane.server.start()
        async with Client(find_access(plane.kubeconfig())) as client:
            yield plane, client
        await plane.end()
    finally:
        await plane.kill_all()
