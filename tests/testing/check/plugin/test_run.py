from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dray.errors import UnavailableError
from dray.testing.check.plugin.run import RULES, check_command, check_socket
from dray.testing.check.rules import Pace, Report, Verdict
from dray.wire.deviceplugin import DevicePluginService
from dray.wire.limits import MIB, Limits
from dray.wire.serve import serve
from tests.campaign import LONG
from tests.testing.check.bad_plugin import FAULTS, Small

QUICK = Pace(within=10, first_list=0.5, stays=0.2, away=0.5, settle=0.2, hanging=2)
"""For those that never answer."""
PACE = QUICK if LONG else replace(QUICK, within=60, first_list=30, hanging=30)
# One of each family, none that has to be waited for; all of them in a campaign.
FEW = (
    "plain-name",
    "registers-first",
    "watched",
    "watched-unanswered",
    "twin-ids",
    "odd-permissions",
    "dies-of-unknown",
    "dies-of-cancel",
    "spins",
    "leaves-socket",
)


def broken(report: Report) -> set[str]:
    return {one.rule for one in report.results if one.outcome.verdict is Verdict.FAIL}


def told(report: Report) -> dict[str, str]:
    return {one.rule: f"{one.outcome.verdict}: {one.outcome.evidence}" for one in report.results}


async def check(fault: str, at_once: asyncio.Semaphore) -> Report:
    command = [sys.executable, "-m", "tests.testing.check.bad_plugin", "{device-plugin-dir}", fault]
    async with at_once:
        return await check_command(command, pace=PACE, say=lambda text: None)


async def test_each_fault_breaks_its_own_rule_and_no_other() -> None:
    faults = ["", *(FAULTS if LONG else FEW)]
    at_once = asyncio.Semaphore(4)
    reports = await asyncio.gather(*(check(fault, at_once) for fault in faults))
    found = {fault: broken(report) for fault, report in zip(faults, reports, strict=True)}
    assert found == {fault: FAULTS.get(fault, set()) for fault in faults}
    good = reports[0]
    assert {one.rule for one in good.results if one.outcome.verdict is not Verdict.PASS} == {"notify"}, told(
        good
    )
    assert len(good.results) == len(RULES)


def test_every_fault_names_rules_and_every_rule_says_why() -> None:
    names = [rule.id for rule in RULES]
    assert len(set(names)) == len(names)
    assert set.union(*FAULTS.values()) == set(names)
    assert all(rule.title and rule.kubelet and rule.why.endswith(".") for rule in RULES)


async def test_the_agent_keeps_all_rules(tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    devices = "[{name: gpu, count: 4, resourceName: example.com/gpu}]"
    config.write_text(f"permittedHostDevices: {{}}\ndray: {{sim: {{devices: {devices}}}}}\n")
    command = [
        sys.executable,
        "-m",
        "dray",
        "agent",
        f"--config={config}",
        "--device-plugin-dir={device-plugin-dir}",
    ]
    command += ["--kubelet-dir={kubelet-dir}", "--state-dir={work-dir}/state", "--metrics-address=none"]
    report = await check_command(command, pace=PACE, say=lambda text: None)
    assert report.is_kept, told(report)
    assert "example.com/gpu" in told(report)["registers"]


async def test_on_a_live_socket_only_what_is_safe(tmp_path: Path) -> None:
    path = tmp_path / "p.sock"
    small = Small("")
    async with serve(path, [DevicePluginService(small)]):
        report = await check_socket(path, pace=PACE, say=lambda text: None)
    assert small.calls == small.starts == 0
    found = {one.rule: one.outcome.verdict for one in report.results}
    assert found == {rule.id: Verdict.PASS if rule.live else Verdict.SKIPPED for rule in RULES}


LIVE = [fault for fault, rules in FAULTS.items() if rules <= {rule.id for rule in RULES if rule.live}]


@pytest.mark.parametrize("fault", sorted(set(LIVE) - {"empty-promise", "two-minds"}))
async def test_faults_that_show_on_a_live_socket(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "p.sock"
    pace = replace(QUICK, first_list=2) if fault in ("one-stream", "slow-list") else PACE
    async with serve(path, [DevicePluginService(Small(fault))], limits=Limits(send=64 * MIB)):
        report = await check_socket(path, pace=pace, say=lambda text: None)
    assert broken(report) == FAULTS[fault], told(report)


async def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError):
        await check_socket(tmp_path / "none.sock", pace=PACE, say=lambda text: None)


async def test_without_a_namespace_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # no `unshare` there
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    report = await check_command(command, pace=Pace(within=0.3), say=lambda text: None)
    assert broken(report) == {"registers"}
    assert "run as root" in told(report)["registers"] and "{device-plugin-dir}" in told(report)["registers"]
