"""What every runtime must do alike. A test module subclasses `Conformance` and gives it a `world`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from dray.cdi.edits import Mount
from dray.errors import Error, InvalidError
from dray.kubelet.runtimes.contract import (
    Container,
    ContainerConfig,
    PodIdentity,
    Runtime,
    SandboxConfig,
    State,
)
from tests.campaign import campaign, seeded
from tests.waiting import PATIENCE, wait_until

LINE = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d%sZ (stdout|stderr) ([FP]) (.*)$"
ALL_DIGITS = r"\.\d{9}"
SHORT_DIGITS = r"(?:\.\d{1,9})?"
"""Go's programs leave zeros at the end of a fraction out."""


@dataclass(frozen=True)
class World:
    """`open` gives a new runtime object on the same state each time, as a restarted kubelet would have.

    `maker` is "module:expression" for the same in a program of its own; it may use `directory`. Containers see
    `shared` under its own path, through a mount where they have a root of their own.
    """

    directory: Path
    open: Callable[[], AbstractAsyncContextManager[Runtime]]
    maker: str
    image: str
    shared: Path
    has_mounts: bool = False
    start_seconds: float = 0.08
    """About what one start takes, so that kills hit the middle of it."""
    fraction: str = ALL_DIGITS
    """Of the times in logs."""

    def sandbox(self, uid: str = "u1", attempt: int = 0) -> SandboxConfig:
        return SandboxConfig(
            PodIdentity(uid, "ns", f"pod-{uid}"), f"host-{uid}", self.directory / "logs", attempt
        )

    def container(self, script: str, name: str = "c", uid: str = "u1", attempt: int = 0) -> ContainerConfig:
        return ContainerConfig(
            pod=PodIdentity(uid, "ns", f"pod-{uid}"),
            name=name,
            image=self.image,
            log_path=self.directory / "logs" / f"{uid}-{name}-{attempt}.log",
            attempt=attempt,
            command=("/bin/sh", "-c"),
            args=(script,),
            mounts=(Mount(str(self.shared), str(self.shared)),) if self.has_mounts else (),
        )

    def log(self, config: ContainerConfig) -> list[tuple[str, str, str]]:
        """Stream, tag and text of each line."""
        found = []
        for line in config.log_path.read_text().splitlines():
            match = re.match(LINE % self.fraction, line)
            assert match, line
            found.append((match[1], match[2], match[3]))
        return found


async def told(runtime: Runtime, container: str) -> Container:
    """What it says of this container."""
    return next(one for one in await runtime.containers() if one.id == container)


async def wait_state(runtime: Runtime, container: str, *states: State) -> Container:
    """Woken by `wait_changed` alone: a lost change is a hang."""
    async with asyncio.timeout(PATIENCE):
        while (found := await told(runtime, container)).state not in states:
            await runtime.wait_changed()
    return found


class Conformance:
    """Subclassed once a runtime."""

    async def run(self, world: World, runtime: Runtime, config: ContainerConfig) -> str:
        sandbox = await runtime.run_sandbox(world.sandbox(config.pod.uid))
        container = await runtime.create(sandbox, config)
        await runtime.start(container)
        return container

    async def test_a_container_runs_and_its_output_and_exit_code_are_told(self, world: World) -> None:
        config = replace(
            world.container('echo "$GREETING"; echo problem >&2; printf open; exit 7'),
            env=(("GREETING", "hello"),),
        )
        async with world.open() as runtime:
            await runtime.check_ready()
            await runtime.ensure_image(world.image, "IfNotPresent")
            container = await self.run(world, runtime, config)
            ended = await wait_state(runtime, container, State.EXITED)
            assert (ended.exit_code, ended.reason, ended.pod, ended.name) == (7, "Error", config.pod, "c")
            assert ended.created_at and ended.started_at and ended.finished_at
            assert ended.created_at <= ended.started_at <= ended.finished_at
            assert sorted(world.log(config)) == [
                ("stderr", "F", "problem"),
                ("stdout", "F", "hello"),
                ("stdout", "P", "open"),
            ]

    async def test_long_output_comes_in_parts_and_complete(self, world: World) -> None:
        script = "i=0; while [ $i -lt 3000 ]; do echo line-$i; i=$((i+1)); done; head -c 50000 /dev/zero | tr '\\0' x; echo"
        async with world.open() as runtime:
            container = await self.run(world, runtime, world.container(script))
            assert (await wait_state(runtime, container, State.EXITED)).reason == "Completed"
        lines = world.log(world.container(script))
        assert [text for _, _, text in lines[:3000]] == [f"line-{number}" for number in range(3000)]
        assert "".join(text for _, _, text in lines[3000:]) == "x" * 50000
        assert [tag for _, tag, _ in lines[3000:]][-1] == "F"
        assert max(len(text) for _, _, text in lines) <= 16 * 1024

    async def test_create_and_start_again_change_nothing(self, world: World) -> None:
        marks = world.shared / "marks"
        config = world.container(f"echo x >> {marks}; sleep 60")
        async with world.open() as runtime:
            first = await self.run(world, runtime, config)
            assert await self.run(world, runtime, config) == first
            assert (await told(runtime, first)).state is State.RUNNING
            assert len(await runtime.containers()) == len(await runtime.sandboxes()) == 1
            await wait_text(marks, "x")
            await runtime.stop(first, 0.0)
            await runtime.start(first)
            assert (await told(runtime, first)).state is State.EXITED
            second = await runtime.create(
                await runtime.run_sandbox(world.sandbox()), replace(config, attempt=1)
            )
            assert second != first
            assert (await told(runtime, second)).state is State.CREATED
        assert marks.read_text() == "x\n"

    async def test_stop_asks_first_and_kills_after_the_grace(self, world: World) -> None:
        polite = world.container("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done")
        deaf = world.container("trap '' TERM; echo up; while :; do sleep 0.05; done", name="deaf")
        async with world.open() as runtime:
            asked, forced = await self.run(world, runtime, polite), await self.run(world, runtime, deaf)
            await wait_log(world, polite, "up")
            await wait_log(world, deaf, "up")
            await runtime.stop(asked, 20.0)
            found = await told(runtime, asked)
            assert (found.state, found.exit_code) == (State.EXITED, 3)
            await runtime.stop(forced, 0.3)
            found = await told(runtime, forced)
            assert (found.state, found.exit_code) == (State.EXITED, 137)
            await runtime.stop(forced, 0.3)
        assert world.log(polite)[-1] == ("stdout", "F", "bye")

    async def test_nothing_of_a_container_outlives_it(self, world: World) -> None:
        beat = world.shared / "beat"
        script = f"(trap '' HUP TERM; while :; do echo >> {beat}; sleep 0.02; done) & setsid sleep 100 & until [ -s {beat} ]; do sleep 0.02; done; exit 0"
        async with world.open() as runtime:
            container = await self.run(world, runtime, world.container(script))
            await wait_state(runtime, container, State.EXITED)
            size = beat.stat().st_size
            await wait_gone(beat)
            assert beat.stat().st_size == size > 0

    async def test_a_command_that_is_not_there(self, world: World) -> None:
        config = replace(world.container(""), command=("/no/such/program",), args=())
        async with world.open() as runtime:
            sandbox = await runtime.run_sandbox(world.sandbox())
            container = await runtime.create(sandbox, config)
            with pytest.raises(InvalidError, match="/no/such/program"):
                await runtime.start(container)
            found = await told(runtime, container)
            assert (found.state, found.reason, found.exit_code) == (State.EXITED, "StartError", 128)
            assert "/no/such/program" in found.message

    async def test_remove_forgets_and_keeps_the_log(self, world: World) -> None:
        config = world.container("echo kept; sleep 60")
        async with world.open() as runtime:
            container = await self.run(world, runtime, config)
            await wait_log(world, config, "kept")
            await runtime.remove(container)
            await runtime.remove(container)
            assert await runtime.containers() == ()
            assert world.log(config) == [("stdout", "F", "kept")]
            again = await self.run(world, runtime, config)
            assert (await told(runtime, again)).state is State.RUNNING
            sandbox = (await runtime.sandboxes())[0]
            assert sandbox.is_ready
            await runtime.stop_sandbox(sandbox.id)
            assert (await told(runtime, again)).state is State.EXITED
            assert [one.is_ready for one in await runtime.sandboxes()] == [False]
            with pytest.raises(Error):
                await runtime.create(sandbox.id, world.container("true", name="late"))
            await runtime.remove_sandbox(sandbox.id)
            await runtime.remove_sandbox(sandbox.id)
            assert (await runtime.containers(), await runtime.sandboxes()) == ((), ())

    async def test_a_new_kubelet_knows_all(self, world: World) -> None:
        gate = world.shared / "gate"
        async with world.open() as first:
            ended = await self.run(world, first, world.container("exit 4", name="ended"))
            later = await self.run(
                world,
                first,
                world.container(f"until [ -e {gate} ]; do sleep 0.02; done; exit 5", name="later"),
            )
            kept = await self.run(world, first, world.container("sleep 60", name="kept"))
            await wait_state(first, ended, State.EXITED)
        gate.touch()
        async with world.open() as second:
            assert (await told(second, ended)).exit_code == 4
            assert (await wait_state(second, later, State.EXITED)).exit_code == 5
            assert (await told(second, kept)).state is State.RUNNING
            await second.stop(kept, 0.0)
            assert (await told(second, kept)).exit_code == 137
            assert [one.is_ready for one in await second.sandboxes()] == [True]

    async def test_kills_of_the_kubelet_lose_and_double_nothing(self, world: World) -> None:
        seed = seeded(5)
        for turn in range(campaign(2, 150)):
            uid = f"k{turn}"
            marks = world.shared / uid
            configs = [world.container(marking(name, marks), name=name, uid=uid) for name in "abcd"]
            await self.killed_program(world, uid, marks, seed.uniform(0.0, world.start_seconds * 5))
            async with world.open() as runtime:
                sandbox = await runtime.run_sandbox(world.sandbox(uid))
                ids = [await runtime.create(sandbox, config) for config in configs]
                for container in ids:
                    await runtime.start(container)
                    assert (await told(runtime, container)).state is State.RUNNING
                marks.with_name(f"{uid}.gate").touch()
                for container in ids:
                    await wait_state(runtime, container, State.EXITED)
                await wait_gone(marks)
                assert sorted(marks.read_text().split()) == list("abcd")
                await runtime.remove_sandbox(sandbox)
                assert await runtime.containers() == ()

    async def killed_program(self, world: World, uid: str, marks: Path, seconds: float) -> None:
        program = Path(__file__).parent / "programs" / "four_containers.py"
        facts = json.dumps(
            [str(world.directory), world.maker, world.image, uid, str(marks), world.has_mounts]
        )
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(program),
            facts,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": "."},
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        await asyncio.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        await process.communicate()


class KeptConformance(Conformance):
    """For runtimes whose containers have a keeper of ours."""

    async def test_kills_of_the_keeper_double_nothing_and_lose_no_process(self, world: World) -> None:
        seed = seeded(6)
        for turn in range(campaign(4, 200)):
            marks = world.shared / f"marks-{turn}"
            script = f"echo x >> {marks}; while :; do sleep 0.02; echo y >> {marks}; done"
            config = world.container(script, attempt=turn)
            async with world.open() as runtime:
                container = await runtime.create(await runtime.run_sandbox(world.sandbox()), config)
                async with asyncio.TaskGroup() as group:
                    starting = group.create_task(start_quietly(runtime, container))
                    await self.kill_keeper(world, container, seed.uniform(0.0, world.start_seconds))
                    await starting
                await start_quietly(runtime, container)
                found = await told(runtime, container)
                assert found.state in (State.RUNNING, State.UNKNOWN) or found.reason == "StartError"
                await runtime.stop(container, 0.0)
                said = marks.read_text() if marks.exists() else ""
                assert said.count("x") == (1 if said else 0)
                await wait_gone(marks)
                assert (marks.read_text() if marks.exists() else "") == said
                assert (await told(runtime, container)).state is not State.RUNNING
                await runtime.remove(container)

    async def kill_keeper(self, world: World, container: str, seconds: float) -> None:
        path = world.directory / "state" / "containers" / container / "keeper.json"
        while not path.exists():
            await asyncio.sleep(0.001)
        await asyncio.sleep(seconds)
        os.kill(json.loads(path.read_text())["pid"], signal.SIGKILL)


async def start_quietly(runtime: Runtime, container: str) -> None:
    """Its outcome is seen in the state."""
    with contextlib.suppress(InvalidError):
        await runtime.start(container)


async def wait_log(world: World, config: ContainerConfig, text: str) -> None:
    """Until the container said it."""
    await wait_text(config.log_path, f" {text}\n")


async def wait_text(path: Path, text: str) -> None:
    await wait_until(lambda: path.exists() and text in path.read_text())


async def wait_gone(path: Path) -> None:
    """Until no process is left that was started with this path in its command."""
    await wait_until(lambda: not _processes(path))


def _processes(path: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(path).encode() in (process / "cmdline").read_bytes():
                found.append(process.name)
    return found


def marking(name: str, marks: Path) -> str:
    """A script that leaves a mark and runs until there is a gate beside it."""
    return f"echo {name} >> {marks}; until [ -e {marks}.gate ]; do sleep 0.02; done"
