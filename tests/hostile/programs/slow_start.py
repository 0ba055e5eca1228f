"""A start that takes long: a runc of ours that waits before it looks at what it shall mount, and a kubelet that is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any, Protocol, cast

from dray.api.core import Pod
from dray.kubelet.pods.contract import Parts, RunOptions
from dray.kubelet.pods.known import KnownPod
from dray.kubelet.pods.plan import plan
from dray.kubelet.pods.running import Running
from dray.kubelet.runtimes.contract import ContainerConfig, LogLimits
from dray.kubelet.runtimes.kept import KeptRuntime
from dray.kubelet.runtimes.liveness import Identity
from dray.kubelet.runtimes.records import SandboxRecord
from dray.runtime.clock import SystemClock
from tests.kubelet.pods.test_environment import Objects
from tests.waiting import PATIENCE

# Called as runc is: --root R --log L --log-format json create --bundle B --pid-file P ID
_RUNC = """#!/bin/sh
case "$7" in
create)
  echo begun > {top}/begun
  until [ -e {top}/gate ]; do sleep 0.02; done
  while read -r source; do ls "$source"; done < "$9/sources" > {top}/seen
  sleep 1000 > /dev/null 2>&1 &
  echo $! | tee {top}/pid > "${{11}}" ;;
delete)
  kill -9 "$(cat {top}/pid)" ;;
esac
"""


class _World(Protocol):
    pods: Path
    host: Path

    def volume(self, number: int = 0) -> Path: ...


class Starting:
    """One pod with one container, by two kubelets, one after the other."""

    def __init__(self, world: _World, pod: Pod) -> None:
        self._top = world.pods.parent / "slow"
        self._top.mkdir()
        self._program = self._top / "runc"
        self._program.write_text(_RUNC.format(top=self._top))
        self._program.chmod(0o755)
        self._world, self._pod = world, pod

    def begin_and_kill(self) -> None:
        """Until runc is at work, in a process that is killed then."""
        child = os.fork()
        if child == 0:
            asyncio.run(self._start([]))
            os._exit(0)
        _wait_for(self._top / "begun")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    def go_on(self) -> None:
        """The next kubelet: runc goes on once it is done with all that comes before the start."""
        asyncio.run(self._start(["created"]))

    def seen(self) -> list[str]:
        """What runc found in the places that it shall mount."""
        return (self._top / "seen").read_text().split()

    async def _start(self, gate_at: list[str]) -> None:
        def reached(place: str) -> None:
            if place in gate_at:
                (self._top / "gate").touch()

        engine = _Engine(self._top, self._program)
        runtime = KeptRuntime(self._top / "containers", engine, SystemClock(), LogLimits())
        async with runtime:
            nothing = cast("Any", _Nothing())
            parts = Parts(runtime, nothing, nothing, nothing, nothing, nothing, nothing)
            running = Running(parts, self._world.pods.parent, self._top / "logs", SystemClock(), reached)
            known = KnownPod(self._pod, "test")
            containers, sandboxes = await runtime.containers(), await runtime.sandboxes()
            due = plan(self._pod, containers, sandboxes).start
            if gate_at:
                assert [start.is_made for start in due] == [True]
                (self._world.volume() / "x" / "later").touch()
            elif not self._world.volume().exists():
                (self._world.volume() / "x").mkdir(parents=True)
                (self._world.volume() / "x" / "own").touch()
            await running.start(known, due, sandboxes)
            for one in await runtime.sandboxes():
                await runtime.remove_sandbox(one.id)


class _Engine:
    """Implements `engine.Engine`: writes down what is to be mounted, and leaves the rest to our runc."""

    name, has_mounts = "slow", True

    def __init__(self, top: Path, program: Path) -> None:
        self._top, self._program = top, program

    async def describe(
        self, item: str, config: ContainerConfig, sandbox: SandboxRecord, staged: Path, final: Path
    ) -> dict[str, object]:
        (staged / "bundle").mkdir()
        sources = "".join(f"{mount.host_path}\n" for mount in config.mounts)
        (staged / "bundle" / "sources").write_text(sources)
        root = str(self._top)
        return {
            "kind": "runc",
            "runc": str(self._program),
            "runc_root": root,
            "bundle": str(final / "bundle"),
        }

    def is_sandbox_up(self, record: SandboxRecord, directory: Path) -> bool:
        return True

    async def kill(self, item: str, process: Identity | None) -> None: ...
    async def check_ready(self) -> None: ...
    async def ensure_image(self, image: str) -> None: ...
    async def raise_sandbox(self, record: SandboxRecord, directory: Path) -> None: ...
    async def drop_sandbox(self, directory: Path) -> None: ...
    async def make_ready(self, item: str, directory: Path) -> None: ...
    async def drop_unstarted(self, item: str) -> None: ...
    async def clean(self, item: str, directory: Path) -> None: ...
    async def sweep(self, root: Path, items: Set[str]) -> None: ...


class _Nothing(Objects):
    """The parts of a node that this pod needs nothing of."""

    async def fetch(self, pod: Pod) -> None: ...
    async def prepare(self, pod: Pod) -> None: ...
    def record(self, event: object) -> None: ...

    def uids(self, pod: Pod) -> Iterator[str]:
        return iter(())

    async def run_options(self, pod: Pod, container: object) -> RunOptions:
        return RunOptions()

    def cdi_devices(self, pod: Pod, container: object) -> tuple[str, ...]:
        return ()


def _wait_for(path: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.02)
