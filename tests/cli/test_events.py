from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dray.api.kinds import EVENTS
from tests.cli.live_server import LiveServer, live_server

Capsys = pytest.CaptureFixture[str]


async def happen(server: LiveServer, name: str, minute: int, **more: Any) -> None:
    document = {
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"},
        "type": "Normal",
        "reason": name.capitalize(),
        "message": f"it {name}",
        "lastTimestamp": f"2020-01-01T00:{minute:02}:00Z",
        **more,
    }
    await server.client.create(EVENTS, document, namespace="default")


def squeezed(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines]


async def test_newest_last_with_counts(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await happen(server, "ended", 9, type="Warning", count=4)
        await happen(server, "began", 1)
        claim = {"kind": "ResourceClaim", "name": "gpu", "namespace": "default"}
        await happen(server, "prepared", 5, involvedObject=claim)
        head, *lines = squeezed(await server.out("events"))
        assert head == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
        assert [line[2] for line in lines] == ["Began", "Prepared", "Ended"]
        assert lines[2][3:] == ["pod/web", "it", "ended", "(x4)"]

        assert [line[2] for line in squeezed(await server.out("events", "--for", "po/web"))[1:]] == [
            "Began",
            "Ended",
        ]
        assert [line[2] for line in squeezed(await server.out("events", "--for", "claim/gpu"))[1:]] == [
            "Prepared"
        ]
        assert [line[2] for line in squeezed(await server.out("events", "--types", "warning"))[1:]] == [
            "Ended"
        ]
        assert squeezed(await server.out("events", "-A"))[1][0] == "default"
        code, out, _ = await server.run("events", "-o", "json")
        assert code == 0
        assert [one["reason"] for one in json.loads(out)["items"]] == ["Began", "Prepared", "Ended"]


async def test_none_and_nonsense(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        assert await server.run("events") == (0, "", "no events in namespace default\n")
        for words, text in (
            (("--for", "web"), "must be KIND/NAME"),
            (("--for", "pods/"), "must be KIND/NAME"),
            (("--for", "pid/web"), "did you mean"),
            (("--for", "device/gpu-0"), "events are about objects"),
            (("--watch", "-o", "json"), "--watch shows tables only"),
        ):
            code, out, err = await server.run("events", *words)
            assert (code, out) == (2, "")
            assert text in err


async def test_watching_adds_what_happens_and_what_happens_again(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await happen(server, "began", 1)
        words = [sys.executable, "-m", "dray", "events", "--watch", "--kubeconfig", str(server.kubeconfig)]
        process = await asyncio.create_subprocess_exec(
            *words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert process.stdout is not None and process.stderr is not None
        try:
            async with asyncio.timeout(60):
                assert (await process.stdout.readline()).startswith(b"LAST SEEN")
                assert b"it began" in await process.stdout.readline()
                await happen(server, "ended", 2)
                assert b"it ended" in await process.stdout.readline()
                await server.client.patch(EVENTS, "began", {"count": 2}, namespace="default")
                assert b"it began (x2)" in await process.stdout.readline()
                await server.client.delete(EVENTS, "ended", namespace="default")
                await happen(server, "restarted", 3)
                assert b"it restarted" in await process.stdout.readline()
        finally:
            process.terminate()
            await asyncio.wait_for(process.wait(), 60)
        assert await process.stderr.read() == b""
