from __future__ import annotations

from pathlib import Path

from dray.api.core import Node
from dray.api.kinds import DEVICE_TAINT_RULES, Resource
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.runtime.clock import SystemClock
from dray.scheduler.sources import Sources
from tests.scheduler.live import CONFIG, live
from tests.scheduler.unreliable import Fault, once, unreliable


async def test_kinds_that_need_not_be_served(tmp_path: Path) -> None:
    """One that is not there does not count; a server that is away is asked again."""
    nothing = Resource("no.example.com", "v1", "things", "Thing", False, Node)
    async with (
        live(tmp_path) as server,
        unreliable(server.client.access, tmp_path / "k") as line,
        Client(find_access(tmp_path / "k", environ={})) as client,
    ):
        line.judge = once("GET", "devicetaintrules", Fault.LOST)
        sources = Sources(client, CONFIG.settings, SystemClock(), preempt=False)
        assert await sources._is_served(DEVICE_TAINT_RULES)
        assert not await sources._is_served(nothing)
        await sources.look()
        async with sources:
            assert sources.counts == {"pods": 0, "claims": 0, "slices": 0}
            assert list(sources.budgets()) == []
