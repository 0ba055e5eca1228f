from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from dray.errors import UnavailableError
from dray.testing.check.driver.run import RULES, check_command, check_socket
from dray.testing.check.rules import Pace, Report, Verdict
from tests.campaign import LONG
from tests.testing.check.bad_driver import FAULTS, ODD

PACE = Pace(within=5, first_list=1, settle=0.2) if LONG else Pace(within=60, first_list=30, settle=0.2)
# None that has to be waited for; all of them in a campaign.
FEW = ("old-first", "fails-call", "plain-cdi", "leaves-socket")


def broken(report: Report) -> set[str]:
    return {one.rule for one in report.results if one.outcome.verdict is Verdict.FAIL}


async def check(fault: str, at_once: asyncio.Semaphore) -> Report:
    command = [sys.executable, "-m", "tests.testing.check.bad_driver", "{kubelet-dir}", "{cdi-dir}", fault]
    async with at_once:
        return await check_command(command, pace=PACE, say=lambda text: None)


def warned(report: Report) -> set[str]:
    return {one.rule for one in report.results if one.outcome.verdict is Verdict.WARN}


async def test_each_fault_breaks_its_own_rule_and_no_other() -> None:
    faults = ["", *ODD, *(FAULTS if LONG else FEW)]
    at_once = asyncio.Semaphore(4)
    reports = await asyncio.gather(*(check(fault, at_once) for fault in faults))
    found = {fault: broken(report) for fault, report in zip(faults, reports, strict=True)}
    assert found == {fault: FAULTS.get(fault, set()) for fault in faults}
    odd = {fault: warned(report) for fault, report in zip(faults, reports, strict=True)}
    assert odd == {fault: ODD.get(fault, set()) for fault in faults}
    good = {one.rule: f"{one.outcome.verdict}: {one.outcome.evidence}" for one in reports[0].results}
    assert {one.outcome.verdict for one in reports[0].results} == {Verdict.PASS}, good


def test_every_rule_says_why() -> None:
    names = [rule.id for rule in RULES]
    assert len(set(names)) == len(names)
    assert set.union(*FAULTS.values()) <= set(names)
    assert all(rule.title and rule.kubelet and rule.why.endswith(".") for rule in RULES)


async def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError):
        await check_socket(tmp_path / "none.sock", pace=PACE, say=lambda text: None, cdi_dir=tmp_path)
