"""`dray top`: once, and live on a real terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dray.apiserver.access.identity import node
from dray.processes.apiserver import issue_kubeconfig
from tests.cli.live_server import fill, live_server
from tests.cli.terminal import Terminal

Capsys = pytest.CaptureFixture[str]


async def test_once(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        lines = await server.out("top")
        assert "devices  4: 1 free, 1 held, 2 unhealthy or tainted" in lines
        assert any(line.split()[:3] == ["gpu.example.com", "A100", "1"] for line in lines)
        code, out, _ = await server.run("top", "-o", "json")
        told = json.loads(out)
        assert (code, told["summary"]["devices"], told["notes"]) == (0, 4, [])


async def test_what_may_not_be_read_is_said(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        server.kubeconfig = tmp_path / "node"
        server.kubeconfig.write_text(issue_kubeconfig(tmp_path / "data", node("node-1")))
        code, out, _ = await server.run("top", "-o", "json")
        told = json.loads(out)
        assert code == 0
        assert told["summary"]["nodes"] == 0
        assert any("may not list pods" in note for note in told["notes"])


async def test_live_on_a_terminal(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        terminal = Terminal("top", "--kubeconfig", str(server.kubeconfig))
        await terminal.wait("\033[?1049h")
        await terminal.wait("4: 1 free, 1 held")
        await terminal.wait("sorted by held")
        terminal.press("u")
        await terminal.wait("sorted by unhealthy")
        await server.add("{apiVersion: v1, kind: Node, metadata: {name: node-3}}")
        await terminal.wait("nodes    3, 1 ready")
        terminal.press("q")
        assert await terminal.end() == 0
        assert terminal.seen.endswith("\033[?25h\033[?1049l")
