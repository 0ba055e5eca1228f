from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from dray.api.core import Pod
from dray.kubelet.pods.contract import Parts, RunOptions
from dray.kubelet.pods.known import KnownPod
from dray.kubelet.pods.plan import plan
from dray.kubelet.pods.running import Running
from dray.kubelet.runtimes.process import ProcessRuntime
from dray.runtime.clock import SystemClock
from tests.kubelet.pods.pods import pod
from tests.waiting import PATIENCE, wait_until


class Slow:
    """The parts of a node that a pod without devices needs; a ConfigMap takes as long as somebody lets it."""

    def __init__(self) -> None:
        self.asked, self.answer = threading.Event(), threading.Event()

    def config_map(self, namespace: str, name: str) -> Mapping[str, str] | None:
        self.asked.set()
        assert self.answer.wait(PATIENCE)
        return {"k": "v"}

    async def fetch(self, pod: Pod) -> None: ...
    async def prepare(self, pod: Pod) -> None: ...
    def record(self, event: object) -> None: ...

    def uids(self, pod: Pod) -> Iterator[str]:
        return iter(())

    async def run_options(self, pod: Pod, container: object) -> RunOptions:
        return RunOptions()

    def cdi_devices(self, pod: Pod, container: object) -> tuple[str, ...]:
        return ()


async def test_a_volume_that_takes_long_holds_up_nobody_else(tmp_path: Path) -> None:
    volume: dict[str, Any] = {"name": "v", "configMap": {"name": "cm"}}
    wanted = pod(volumes=[volume], containers=[{"name": "c", "image": "i", "command": ["true"]}])
    slow = Slow()
    part = cast("Any", slow)
    async with ProcessRuntime(tmp_path / "containers") as runtime:
        parts = Parts(runtime, part, part, part, part, part, part)
        running = Running(parts, tmp_path, tmp_path / "logs", SystemClock(), lambda _: None)
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
            group.create_task(running.start(KnownPod(wanted, "test"), plan(wanted, (), ()).start, ()))
            await wait_until(slow.asked.is_set)
            assert (tmp_path / "containers").exists()  # the loop goes on meanwhile
            slow.answer.set()
        for one in await runtime.sandboxes():
            await runtime.remove_sandbox(one.id)
