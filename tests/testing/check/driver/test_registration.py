from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.runtime.clock import SystemClock
from dray.testing.check.api_server import SmallApiServer, served
from dray.testing.check.driver.run import RULES, check_socket
from dray.testing.check.rules import Pace, Verdict
from dray.wire.dra import DraService
from dray.wire.health import HealthService
from dray.wire.registration import RegistrationService
from dray.wire.serve import serve
from tests.testing.check.bad_driver import Small

PACE = Pace(within=60, first_list=30)


@asynccontextmanager
async def driver(tmp_path: Path) -> AsyncIterator[Small]:
    """In this process, with a kubelet of its own that nobody must disturb."""
    kubeconfig = tmp_path / "kubeconfig"
    async with (
        served(SmallApiServer(SystemClock()), kubeconfig),
        Client(find_access(kubeconfig)) as client,
    ):
        small = Small("", tmp_path / "dra.sock", tmp_path, client)
        async with (
            serve(tmp_path / "dra.sock", [DraService(small), HealthService(small)]),
            serve(tmp_path / "reg.sock", [RegistrationService(small)]),
        ):
            yield small


async def test_a_live_registration_socket(tmp_path: Path) -> None:
    async with driver(tmp_path) as small:
        report = await check_socket(tmp_path / "reg.sock", pace=PACE, say=lambda text: None, cdi_dir=tmp_path)
        assert small.prepared == set()
    found = {one.rule: one.outcome.verdict for one in report.results}
    wanted = {rule.id: Verdict.PASS if rule.live else Verdict.SKIPPED for rule in RULES}
    assert found == wanted | {"slices": Verdict.SKIPPED}


async def test_a_live_socket_of_the_driver_itself(tmp_path: Path) -> None:
    async with driver(tmp_path):
        report = await check_socket(tmp_path / "dra.sock", pace=PACE, say=lambda text: None, cdi_dir=tmp_path)
    found = {one.rule for one in report.results if one.outcome.verdict is Verdict.PASS}
    assert found == {"endpoint", "prepare-unknown", "unprepare-unknown"}
    assert report.is_kept


async def test_with_a_cluster_a_live_drivers_slices_are_read(tmp_path: Path) -> None:
    async with driver(tmp_path):
        report = await check_socket(
            tmp_path / "reg.sock",
            pace=PACE,
            say=lambda text: None,
            cdi_dir=tmp_path,
            kubeconfig=tmp_path / "kubeconfig",
        )
    found = {one.rule: one.outcome for one in report.results}
    assert found["slices"].evidence == "no ResourceSlice of small.example.com for this node"
