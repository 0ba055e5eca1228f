from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dray.cli.main import main
from dray.testing.check.driver.run import RULES as DRIVER_RULES
from dray.testing.check.plugin.run import RULES as PLUGIN_RULES
from dray.testing.check.rules import Rule
from dray.wire.deviceplugin import DevicePluginService
from dray.wire.serve import serve
from tests.testing.check.bad_plugin import Small


@asynccontextmanager
async def plugin(path: Path, fault: str) -> AsyncIterator[None]:
    async with serve(path, [DevicePluginService(Small(fault))]):
        yield


async def dray(*words: str) -> int:
    return await asyncio.to_thread(main, list(words))


async def test_a_good_plugin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with plugin(tmp_path / "p.sock", ""):
        assert await dray("check", "plugin", "--within", "0.2", str(tmp_path / "p.sock")) == 0
    out, err = capsys.readouterr()
    assert "list-ids" in out and "0 failed" in out
    assert "list-ids: Ids are there and unique" in err


async def test_a_bad_one_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with plugin(tmp_path / "p.sock", "twin-ids"):
        assert await dray("check", "plugin", str(tmp_path / "p.sock"), "-o", "json", "--within=0.2") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["kept"] is False
    assert [one["rule"] for one in report["results"] if one["result"] == "fail"] == ["list-ids"]


def test_nobody_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "plugin", str(tmp_path / "none.sock")]) == 3
    assert main(["check", "driver", str(tmp_path / "none.sock")]) == 3
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "words",
    [
        ["plugin"],
        ["plugin", "x.sock", "--", "command"],
        ["plugin", "--"],
        ["driver", "--within", "0", "--", "command"],
        ["plugin", "--", "/no/such/program"],
    ],
)
def test_bad_input(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *words]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("dray: ")


def test_a_command_that_ends_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('-o is mine')", "-o", "--"]
    assert main(["check", "driver", "--within", "5", "-o", "json", "--", *command]) == 1
    report = json.loads(capsys.readouterr().out)
    assert "its last line: -o is mine" in report["results"][0]["evidence"]
    assert {one["result"] for one in report["results"][1:]} == {"skipped"}


def test_the_page_has_every_rule() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/check.md").read_text()
    rules: list[Rule[Any]] = [*PLUGIN_RULES, *DRIVER_RULES]
    for rule in rules:
        live = "yes" if rule.live else ""
        assert f"| `{rule.id}` | {rule.title} | {rule.kubelet} | {rule.why} | {live} |" in page
