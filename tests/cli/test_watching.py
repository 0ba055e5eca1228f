"""`--watch`: a real process that follows a real server, and what is drawn on a terminal."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dray.api.kinds import PODS
from dray.cli.tables import Column, Row, Table
from dray.cli.watching import Shown
from tests.cli.live_server import LiveServer, fill, live_server
from tests.interrupts import interruptible

Capsys = pytest.CaptureFixture[str]
_SECONDS = 30.0


@asynccontextmanager
async def watching(
    server: LiveServer, *words: str, terminal: bool = False
) -> AsyncIterator[Callable[[str], Awaitable[str]]]:
    """Gives a function that waits until the output has a text, and returns what came since the last call."""
    reader, writer = pty.openpty() if terminal else os.pipe()
    with interruptible():
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dray", *words, "--watch", "--kubeconfig", str(server.kubeconfig)),
            stdout=writer,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "COLUMNS": "200", "LINES": "20", "TERM": "xterm", "NO_COLOR": ""},
        )
    os.close(writer)
    os.set_blocking(reader, False)
    seen = bytearray()

    async def until(text: str) -> str:
        async with asyncio.timeout(_SECONDS):
            while text.encode() not in seen:
                try:
                    seen.extend(os.read(reader, 65536))
                except BlockingIOError:
                    await asyncio.sleep(0.02)
        found = seen.decode()
        seen.clear()
        return found

    try:
        yield until
    finally:
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(_SECONDS):
            _, said = await process.communicate()
        os.close(reader)
    assert (process.returncode, said) == (130, b"")


async def test_rows_that_change_are_added(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        async with watching(server, "get", "pods") as until:
            first = await until("waits")
            assert first.startswith("NAME ") and "job" in first
            await server.set_status(PODS, "job", {"phase": "Running"})
            (row,) = (await until("Running")).splitlines()
            assert row.split()[0] == "job"
            await server.out("delete", "pod", "waits", "--force")
            assert await until("gone") == "default/waits is gone\n"


async def test_documents_come_as_they_change(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        async with watching(server, "get", "pod", "job", "-o", "yaml") as until:
            assert "name: waits" not in await until("name: job")
            await server.set_status(PODS, "job", {"phase": "Running"})
            await until("phase: Running")


async def test_a_terminal_is_drawn_anew(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        async with watching(server, "get", "devices", terminal=True) as until:
            first = await until("tainted")
            assert first.startswith("\033[H\033[J") and "\033[31munhealthy" in first
            await server.out("delete", "slices", "node-1-gpus")
            second = await until("tainted")
            assert "gpu-10" not in second and "\033[H\033[J" in second


def table(*rows: tuple[str, str, str]) -> Table:
    columns = (Column("NAME"), Column("STATE"), Column("AGE", moves=True))
    return Table(columns, tuple(Row((row[0],), row) for row in rows))


def test_age_alone_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    shown = Shown(wide=False, write=written.append)
    shown.show(table(("a", "new", "1s"), ("b", "new", "1s")))
    shown.show(table(("a", "new", "2s"), ("b", "old", "2s")))
    shown.show(table(("a", "new", "3s")))
    first, second, third = written
    assert first.splitlines() == ["NAME   STATE   AGE", "a      new     1s", "b      new     1s"]
    assert second.split() == ["b", "old", "2s"]
    assert third == "b is gone\n"
