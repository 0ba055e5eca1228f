"""The programs under test: how they are started, and what they cost."""

from __future__ import annotations

import asyncio
import shlex
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from dray.bench.agent_machine import BenchMachine, Sizes, write_agent_config, write_peer_spec
from dray.bench.agent_recorder import Recorder
from dray.errors import UnavailableError
from dray.testing.kubernetes.part import last_lines
from dray.wire.deviceplugin import DIRECTORY

SAMPLE_RESOURCE = "example.com/resource"
_STOP_SECONDS = 20.0
_CPU_CLOCK = 2  # what clock_getcpuclockid(3) puts beside the process id


@dataclass(frozen=True, slots=True)
class Memory:
    """MiB. `rss`: all pages; `pss`: those shared with others in parts; `uss`: those of nobody else."""

    rss: float
    pss: float
    uss: float


@dataclass(frozen=True, slots=True)
class Contender:
    """A plugin process that has registered everything. `machine` has no nodes where it looks at none."""

    name: str
    pid: int
    recorder: Recorder
    machine: BenchMachine


def memory_of(pid: int) -> Memory:
    """What a process uses now."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    kib = {name.rstrip(":"): int(number) for name, number, *_ in (line.split() for line in lines)}
    private = kib["Private_Clean"] + kib["Private_Dirty"]
    return Memory(kib["Rss"] / 1024, kib["Pss"] / 1024, private / 1024)


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads so far, to the nanosecond; /proc/PID/stat counts in hundredths only."""
    return time.clock_gettime((~pid << 3) | _CPU_CLOCK)


async def start_agent(stack: AsyncExitStack, folder: Path, machine: BenchMachine, sizes: Sizes) -> Contender:
    """`dray agent`, as an operator starts it."""
    recorder = await _recorder(stack, folder)
    write_agent_config(folder / "agent.json", sizes)
    flags = {
        "config": folder / "agent.json",
        "device-plugin-dir": recorder.directory,
        "kubelet-dir": folder,
        "state-dir": folder / "state",
        "host-root": machine.root,
        "metrics-address": "127.0.0.1:0",
    }
    words = [f"--{name}={value}" for name, value in flags.items()]
    pid = await stack.enter_async_context(
        _running([sys.executable, "-m", "dray", "agent", *words], folder / "log")
    )
    await _listed(recorder, machine.resources, folder / "log")
    return Contender("dray", pid, recorder, machine)


async def start_peer(stack: AsyncExitStack, folder: Path, machine: BenchMachine, program: Path) -> Contender:
    """The Go plugin with as many devices."""
    recorder = await _recorder(stack, folder)
    nodes = machine.copy_nodes(folder / "tree")
    write_peer_spec(folder / "peer.json", nodes, recorder.directory)
    command = [str(program), "serve", str(folder / "peer.json")]
    pid = await stack.enter_async_context(_running(command, folder / "log"))
    await _listed(recorder, machine.resources, folder / "log")
    return Contender("Go, as many devices", pid, recorder, nodes)


async def start_sample(stack: AsyncExitStack, folder: Path, program: Path) -> Contender:
    """Kubernetes' sample, which always registers in the kubelet's own directory and writes to /tmp: it gets others."""
    recorder = await _recorder(stack, folder)
    lines = [
        "set -e",
        "mount -t tmpfs none /var/lib",
        f"mkdir -p {DIRECTORY}",
        f"mount --bind {shlex.quote(str(recorder.directory))} {DIRECTORY}",
        "mount -t tmpfs none /tmp",
        f"exec {shlex.quote(str(program))}",
    ]
    command = ["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", "\n".join(lines)]
    pid = await stack.enter_async_context(_running(command, folder / "log"))
    await _listed(recorder, [SAMPLE_RESOURCE], folder / "log")
    return Contender("Go sample, 2 devices", pid, recorder, BenchMachine(folder, ()))


async def _recorder(stack: AsyncExitStack, folder: Path) -> Recorder:
    directory = folder / "plugins"
    directory.mkdir(parents=True)
    recorder = Recorder(directory)
    await stack.enter_async_context(recorder.recording())
    return recorder


async def _listed(recorder: Recorder, resources: Sequence[str] | frozenset[str], log: Path) -> None:
    try:
        await recorder.wait_listed(resources)
    except TimeoutError:
        missing = sorted(set(resources) - recorder.lists.keys())
        raise UnavailableError(
            f"{', '.join(missing) or 'some device'} did not become healthy; the log ends: {last_lines(log, 3)}"
        ) from None


@asynccontextmanager
async def _running(command: Sequence[str], log: Path) -> AsyncIterator[int]:
    """The process id; left = it has ended."""
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
    try:
        yield process.pid
    finally:
        if process.returncode is None:
            process.terminate()
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
