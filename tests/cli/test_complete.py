from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dray.cli import kind_names
from dray.cli.complete import FILES, candidates
from dray.cli.complete_names import KINDS, find_kind
from dray.cli.main import COMMANDS, main
from tests.cli.live_server import fill, live_server

Capsys = pytest.CaptureFixture[str]


def values(*words: str) -> list[str]:
    return [one for one, _ in candidates(words)]


def test_commands_flags_and_choices_come_from_the_parsers() -> None:
    assert values("") == list(COMMANDS)
    assert values("exp") == ["explain"]
    assert dict(candidates(["exp"]))["explain"] == COMMANDS["explain"].partition(";")[0]
    assert values("logs", "--ta") == ["--tail"]
    assert values("events", "--types", "W") == ["Warning"]
    assert values("events", "--types=W") == ["--types=Warning"]
    assert values("get", "pods", "-o", "j") == ["json"]
    assert values("cdi", "") == ["validate", "inject"]
    assert values("completion", "") == ["bash", "fish", "zsh"]
    assert values("--v") == ["--version"]
    assert "plugins" in values("get", "")


def test_files_are_left_to_the_shell() -> None:
    assert values("cdi", "validate", "x") == values("get", "--kubeconfig", "") == [FILES]


def test_what_is_no_command_line_offers_nothing() -> None:
    assert values("nonsense", "") == values("top", "") == values("get", "nonsense", "") == []


def test_the_kinds_are_those_of_the_other_verbs() -> None:
    for name, kind in KINDS.items():
        for word in (name, *kind.words):
            other = kind_names.own_kind(word)
            assert other is not None and other.view == name
            assert other.resource is not None
            space = "x" if kind.namespaced else None
            path = f"{kind.root}/namespaces/x/{kind.plural}" if space else f"{kind.root}/{kind.plural}"
            assert other.resource.path(space) == path
            assert find_kind(word) == name


async def test_names_of_a_live_cluster(tmp_path: Path, capsys: Capsys) -> None:
    async with live_server(tmp_path, capsys) as server:
        await fill(server)

        async def names(*words: str) -> list[str]:
            *before, current = words
            return await asyncio.to_thread(values, *before, "--kubeconfig", str(server.kubeconfig), current)

        assert await names("logs", "") == ["job", "waits"]
        assert await names("logs", "job", "-n", "default", "-c") == []
        assert await names("get", "claim", "t") == ["train"]
        assert await names("get", "pod/") == ["pod/job", "pod/waits"]
        assert await names("describe", "node", "") == ["node-1", "node-2"]
        assert await names("taint", "") == ["node-1/", "node-2/"]
        assert await names("taint", "node-1/") == ["node-1/gpu-0", "node-1/gpu-10", "node-1/gpu-2"]
        assert await names("explain", "p") == ["pod/job", "pod/waits"]
        assert await names("events", "--for=claim/") == ["--for=claim/lonely", "--for=claim/train"]
        found = await asyncio.to_thread(
            values, "logs", "job", "--kubeconfig", str(server.kubeconfig), "--container", ""
        )
        assert found == ["main"]
        found = await asyncio.to_thread(values, "get", "--kubeconfig", str(server.kubeconfig), "-n", "kube-s")
        assert found == ["kube-system"]
        found = await asyncio.to_thread(
            values, "get", "--kubeconfig", str(server.kubeconfig), "--context", ""
        )
        assert found == ["dray"]


async def test_quick_and_silent(tmp_path: Path, capsys: Capsys) -> None:
    assert main(["__complete", "logs", "--kubeconfig", str(tmp_path / "none"), ""]) == 0
    assert capsys.readouterr() == ("", "")
    async with live_server(tmp_path, capsys) as server:
        await fill(server)
        environment = {**os.environ, "KUBECONFIG": str(server.kubeconfig)}
        program = (
            "import sys; from dray.cli.main import main; main(sys.argv[1:]); print('aiohttp' in sys.modules)"
        )
        words = [sys.executable, "-c", program, "__complete", "get", "pods", ""]
        done = await asyncio.to_thread(
            subprocess.run, words, capture_output=True, env=environment, timeout=60
        )
        # Loading it takes longer than a person waits for a completion.
        assert (done.stdout, done.stderr) == (b"job\nwaits\nFalse\n", b"")
