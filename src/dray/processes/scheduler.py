"""`dray scheduler`: the scheduler alone, against any API server. Beside it metrics; before it, if asked for, the election."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.client.leader import LeaderConfig, LeaderElection
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.garbage import settle
from dray.runtime.logs import get_log
from dray.runtime.metrics import Metrics, serve_metrics
from dray.runtime.pages import ANYBODY, Readers
from dray.scheduler.scheduler import SchedulerConfig, run

_log = get_log("scheduler")


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """What the command line says. `metrics` None: none are served; `lease` None: it does not ask whether another one runs."""

    kubeconfig: Path | None = None
    context: str | None = None
    config: SchedulerConfig = field(default_factory=SchedulerConfig)
    metrics: tuple[str, int] | None = None
    metrics_readers: Readers = ANYBODY
    lease: LeaderConfig | None = None


async def run_scheduler(options: SchedulerOptions, clock: Clock | None = None) -> None:
    """Until cancelled. One that lost its lead ends with an error, and whoever started it starts it again."""
    clock = clock or SystemClock()
    metrics = Metrics()
    state = _State()
    async with AsyncExitStack() as stack:
        if options.metrics is not None:
            host, port = options.metrics
            checks, readers = {"/readyz": state.why_unready}, options.metrics_readers
            served = serve_metrics(metrics, host=host, port=port, checks=checks, readers=readers)
            _log.info("metrics", host=host, port=await stack.enter_async_context(served))
        client = await stack.enter_async_context(
            Client(find_access(options.kubeconfig, context=options.context), clock=clock)
        )
        if options.lease is not None:
            state.text = "waiting to lead"
            await stack.enter_async_context(LeaderElection(client, options.lease, clock=clock))
        state.text = "reading the cluster"
        await run(client, options.config, metrics=metrics, clock=clock, ready=state.set_ready)


@dataclass
class _State:
    text: str = "starting"

    def why_unready(self) -> str:
        return self.text

    def set_ready(self) -> None:
        self.text = ""
        settle()
