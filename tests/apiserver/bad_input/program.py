"""The real command, its log, its memory and everything it has stored."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dray.client.kubeconfig import find_access
from tests.apiserver.bad_input.wire import Connection, Request, Target, connection

_SETTLED = 3
"""So many looks in a row must find the same revision."""


@dataclass(frozen=True)
class Program:
    """A server that runs."""

    process: asyncio.subprocess.Process
    target: Target
    log_file: Path
    directory: Path

    def log(self) -> str:
        """Everything it has said."""
        return self.log_file.read_text(errors="replace")

    def memory(self) -> int:
        """Bytes of memory that it has in use."""
        found = re.search(r"VmRSS:\s+([0-9]+) kB", Path(f"/proc/{self.process.pid}/status").read_text())
        assert found is not None
        return int(found[1]) * 1024


@asynccontextmanager
async def program(directory: Path) -> AsyncIterator[Program]:
    """Entered: it answers. Left: it has ended by itself after a SIGTERM."""
    log_file = directory / "log"
    with log_file.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dray", "apiserver", f"--data-dir={directory}", "--listen=127.0.0.1:0",
            stderr=log, stdout=log,
        )  # fmt: skip
    try:
        async with asyncio.timeout(60):
            while "msg=ready" not in log_file.read_text():
                assert process.returncode is None, log_file.read_text()
                await asyncio.sleep(0.05)
        access = find_access(directory / "admin.kubeconfig")
        trust = ssl.create_default_context(cafile=str(directory / "pki" / "ca.crt"))
        host, _, port = access.server.removeprefix("https://").rpartition(":")
        yield Program(process, Target(host, int(port), access.user.token, trust), log_file, directory)
        assert process.returncode is None, f"the server has ended:\n{log_file.read_text()[-5000:]}"
        os.kill(process.pid, signal.SIGTERM)
        async with asyncio.timeout(30):
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def revision(asking: Connection) -> int:
    """The newest one."""
    told = await asking.ask(Request("GET", "/metrics"))
    found = re.search(rb"^dray_apiserver_revision ([0-9.e+]+)$", told.body, re.MULTILINE)
    assert found is not None, told
    return int(float(found[1]))


async def settled(asking: Connection) -> int:
    """The revision when nothing changes any more by itself: the garbage collector has had its turn."""
    seen, same = -1, 0
    async with asyncio.timeout(60):
        while same < _SETTLED:
            now = await revision(asking)
            same = same + 1 if now == seen else 0
            seen = now
            await asyncio.sleep(0.02)
    return seen


async def collections(asking: Connection) -> list[str]:
    """The paths of all collections, as discovery tells them."""
    paths = []
    roots = ["/api/v1"]
    for group in (await asking.ask(Request("GET", "/apis"))).document["groups"]:
        roots += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    for root in roots:
        told = (await asking.ask(Request("GET", root))).document["resources"]
        paths += [
            f"{root}/{one['name']}" for one in told if "/" not in one["name"] and "list" in one["verbs"]
        ]
    return paths


async def dump(target: Target) -> dict[str, list[Any]]:
    """Every object of every collection."""
    found = {}
    async with connection(target) as asking:
        for path in await collections(asking):
            answer = await asking.ask(Request("GET", path))
            assert answer.code == 200, (path, answer)
            found[path] = answer.document["items"]
    return found
