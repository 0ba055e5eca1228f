"""`dray dashboard` as a process: prints its address once, keeps its token to itself, ends when asked."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import urllib.request
from pathlib import Path

import pytest

from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.processes.apiserver import ApiServerOptions, api_server
from tests.dashboard.fleet_script import add_node
from tests.waiting import PATIENCE


@pytest.mark.parametrize("has_file", [False, True])
async def test_from_start_to_end(tmp_path: Path, has_file: bool) -> None:
    token_file = tmp_path / "token"
    words = [f"--token-file={token_file}"] if has_file else []
    async with (
        api_server(ApiServerOptions(tmp_path / "server", Address(port=0))) as found,
        Client(find_access(found.kubeconfig)) as client,
    ):
        await add_node(client, "n")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dray", "dashboard", f"--kubeconfig={found.kubeconfig}", "--listen=127.0.0.1:0",
            "--log-level=debug", *words,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONWARNINGS": "error"},
        )  # fmt: skip
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode().strip()
        url, _, token = line.partition("/#token=")
        assert has_file == (not token)
        token = token_file.read_text().strip() if has_file else token
        fleet = await asyncio.to_thread(_get, f"{url}/api/fleet", token)
        assert [one["name"] for one in fleet["nodes"]] == ["n"]
        assert token not in Path(f"/proc/{process.pid}/cmdline").read_text()
        process.send_signal(signal.SIGTERM)
        out, log = await asyncio.wait_for(process.communicate(), 60)
        assert (process.returncode, out) == (0, b"")
        assert b"msg=ready" in log
        assert token.encode() not in log
        assert b"Traceback" not in log


async def test_an_address_that_is_taken(tmp_path: Path) -> None:
    async with api_server(ApiServerOptions(tmp_path / "server", Address(port=0))) as found:
        port = found.url.rpartition(":")[2]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "dray", "dashboard", f"--kubeconfig={found.kubeconfig}", f"--listen=127.0.0.1:{port}",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, log = await asyncio.wait_for(process.communicate(), PATIENCE)
        assert (process.returncode, out) == (3, b"")
        assert f"cannot listen on 127.0.0.1:{port}".encode() in log
        assert b"--listen" in log


def _get(url: str, token: str) -> dict[str, list[dict[str, str]]]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        found: dict[str, list[dict[str, str]]] = json.load(answer)
        return found
