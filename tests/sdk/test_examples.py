"""Every example under examples/ runs here."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dray.api.codec import load_documents
from dray.errors import InvalidError
from dray.sdk import Host, Request
from dray.sdk.driver import check_driver
from dray.testing.check.driver import run as driver_check
from dray.testing.check.plugin import run as plugin_check
from dray.testing.check.rules import Pace, Report, Verdict
from tests.sdk.example_lamps import build_lamps

EXAMPLES = sorted(path.parent.name for path in Path("examples").glob("*/lamp.py"))
PACE = Pace(within=60, first_list=30, hanging=30, stays=0.3, settle=0.1, away=1.0)


def program(example: str) -> Path:
    return Path("examples", example, "lamp.py").absolute()


def load(example: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("lamp_example", program(example))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def broken(report: Report) -> dict[str, str]:
    """The rules that are not kept, with what was seen."""
    return {
        one.rule: one.outcome.evidence
        for one in report.results
        if one.outcome.verdict in (Verdict.FAIL, Verdict.WARN)
    }


def test_all_are_here() -> None:
    assert EXAMPLES == ["01-lamp", "02-lamp-with-config"]


def test_a_driver_is_about_twenty_lines() -> None:
    lines = [line for line in program("01-lamp").read_text().splitlines() if line.strip()]
    assert len(lines) <= 20


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_list(example: str, tmp_path: Path) -> None:
    root = build_lamps(tmp_path)[example]
    done = subprocess.run(
        [sys.executable, str(program(example)), "--list", "--host-root", str(root)],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split()[:2] for line in done.stdout.splitlines()]
    assert rows == [["DEVICE", "HEALTH"], ["desk", "healthy"], ["floor", "healthy"]]


async def test_the_kubelets_contract_is_kept(tmp_path: Path) -> None:
    """`dray check plugin` and `dray check driver` on each, every rule."""
    roots = build_lamps(tmp_path)
    reports = [  # one by one: a rule looks at how busy the program is
        await check([sys.executable, str(program(example)), "--host-root", str(roots[example])])
        for example in EXAMPLES
        for check in (_check_plugin, _check_driver)
    ]
    assert [broken(report) for report in reports] == [{}] * 4


async def _check_plugin(command: list[str]) -> Report:
    return await plugin_check.check_command(command, pace=PACE, say=lambda text: None)


async def _check_driver(command: list[str]) -> Report:
    return await driver_check.check_command(command, pace=PACE, say=lambda text: None)


def lamps(tmp_path: Path) -> tuple[Any, Host]:
    driver = load("02-lamp-with-config").Lamps()
    check_driver(driver)
    return driver, Host(build_lamps(tmp_path)["02-lamp-with-config"])


def test_health(tmp_path: Path) -> None:
    driver, host = lamps(tmp_path)
    desk, floor = driver.discover(host)
    host.path("/var/lib/lamps/floor/state").write_text("hot\n")
    assert driver.health(host, desk) == ""
    assert driver.health(host, floor) == "the lamp says: hot"


def test_prepare_and_release(tmp_path: Path) -> None:
    driver, host = lamps(tmp_path)
    level = host.path("/var/lib/lamps/desk/level")
    request = Request(
        devices=list(driver.discover(host))[:1],
        config=driver.config(brightness=70),
        label="light/lamp",
        host=host,
    )
    edits = driver.prepare(request)
    assert edits.env == {"DEVICES_LIGHT_LAMP": "desk", "LAMP_LEVEL_LIGHT_LAMP": "70"}
    assert level.read_text() == "70\n"
    driver.release(request)
    driver.release(request)
    assert level.read_text() == "0\n"


def test_the_claim_says_what_may_be_said(tmp_path: Path) -> None:
    driver, _ = lamps(tmp_path)
    path = program("02-lamp-with-config").parent / "claim.yaml"
    raw = [one.raw for one in load_documents(path.read_bytes(), str(path))]
    (template,) = (one for one in raw if one["kind"] == "ResourceClaimTemplate")
    parameters = template["spec"]["spec"]["devices"]["config"][0]["opaque"]["parameters"]
    assert driver.config.read(parameters, api_version="lamp.example.com/v1").brightness == 90
    with pytest.raises(InvalidError, match="maxWatts of 100"):
        driver.config.read({"brightness": 90})
