from __future__ import annotations

import asyncio
import fcntl
import gc
import json
import logging
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from dray.cdi.edits import DeviceNode, Mount
from dray.errors import InvalidError
from dray.kubelet.runtimes.contract import ContainerConfig, Security, State
from dray.kubelet.runtimes.liveness import Identity, wait_ended
from dray.kubelet.runtimes.process import ProcessRuntime, not_applied
from dray.kubelet.runtimes.records import Running
from dray.kubelet.runtimes.shim import start_time
from tests.kubelet.runtimes.conformance import (
    KeptConformance,
    World,
    marking,
    told,
    wait_gone,
    wait_log,
    wait_state,
)
from tests.waiting import wait_until


def keepers(directory: Path) -> list[int]:
    """The processes that keep a container of this directory."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                line = (path / "cmdline").read_bytes()
            except OSError:
                continue
            if b"shim.main" in line and str(directory).encode() in line:
                found.append(int(path.name))
    return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    state = tmp_path / "state"
    maker = "dray.kubelet.runtimes.process:ProcessRuntime(directory / 'state')"
    yield World(tmp_path, lambda: ProcessRuntime(state), maker, "busybox", tmp_path)
    asyncio.run(_remove_all(state))
    assert keepers(tmp_path) == []


async def _remove_all(state: Path) -> None:
    async with ProcessRuntime(state) as runtime:
        for sandbox in await runtime.sandboxes():
            await runtime.remove_sandbox(sandbox.id)
        assert await runtime.containers() == ()
        assert list((state / "trash").iterdir()) == []


async def started(world: World, runtime: ProcessRuntime, config: ContainerConfig) -> str:
    container = await runtime.create(await runtime.run_sandbox(world.sandbox()), config)
    await runtime.start(container)
    return container


def records(world: World, container: str) -> tuple[Path, Identity, Running]:
    directory = world.directory / "state" / "containers" / container
    keeper = msgspec.json.decode((directory / "keeper.json").read_bytes(), type=Identity)
    return directory, keeper, msgspec.json.decode((directory / "running.json").read_bytes(), type=Running)


class TestProcess(KeptConformance):
    """All that holds for every runtime."""


async def test_its_name_and_its_warning_say_that_nothing_is_isolated(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    config = world.container("true")
    async with ProcessRuntime(world.directory / "state") as runtime:
        assert runtime.name == "process-without-isolation"
        with caplog.at_level(logging.WARNING):
            await started(world, runtime, config)
    assert "without isolation" in caplog.text


def test_what_is_not_applied_is_named(world: World) -> None:
    config = ContainerConfig(
        pod=world.sandbox().pod,
        name="c",
        image="img",
        log_path=Path("/l"),
        mounts=(Mount("/a", "/data"),),
        device_nodes=(DeviceNode("/dev/a", "/dev/b"),),
        cdi_devices=("v/c=d",),
        security=Security(privileged=True),
        memory_limit=1,
    )
    assert not_applied(config) == [
        "image img",
        "mounts (/data)",
        "devices (/dev/b)",
        "CDI devices but for their environment (v/c=d)",
        "securityContext",
        "resource limits",
    ]


async def test_the_environment_of_cdi_devices_is_set(world: World, caplog: pytest.LogCaptureFixture) -> None:
    cdi = world.directory / "cdi"
    cdi.mkdir()
    edits = {"env": ["CARD=3", "HOME=/cards"], "deviceNodes": [{"path": "/dev/null"}]}
    device = {"name": "three", "containerEdits": edits}
    (cdi / "cards.json").write_text(
        json.dumps({"cdiVersion": "0.6.0", "kind": "example.com/card", "devices": [device]})
    )
    wanted = replace(
        world.container('echo "$CARD $HOME $MINE"'),
        cdi_devices=("example.com/card=three",),
        env=(("MINE", "m"), ("HOME", "/mine")),
    )
    async with ProcessRuntime(world.directory / "state", cdi_directories=(cdi,)) as runtime:
        await started(world, runtime, wanted)
        await wait_log(world, wanted, "3 /cards m")
        other = world.sandbox("u2")
        unknown = replace(wanted, pod=other.pod, cdi_devices=("example.com/card=four",))
        sandbox = await runtime.run_sandbox(other)
        with caplog.at_level(logging.WARNING):
            await runtime.create(sandbox, unknown)
        assert "CDI devices are not applied" in caplog.text


async def test_without_a_command_it_cannot_run(world: World) -> None:
    config = ContainerConfig(world.sandbox().pod, "c", "img", world.directory / "l")
    async with ProcessRuntime(world.directory / "state") as runtime:
        sandbox = await runtime.run_sandbox(world.sandbox())
        with pytest.raises(InvalidError, match="needs a command"):
            await runtime.create(sandbox, config)
        assert await runtime.containers() == ()


async def test_a_killed_keeper_leaves_a_running_container_and_then_an_unknown_end(world: World) -> None:
    script = "setsid sleep 61 & echo up; sleep 60"
    async with ProcessRuntime(world.directory / "state") as runtime:
        container = await started(world, runtime, world.container(script))
        await wait_log(world, world.container(script), "up")
        _, keeper, running = records(world, container)
        os.kill(keeper.pid, signal.SIGKILL)
        await runtime.wait_changed()
        assert (await told(runtime, container)).state is State.RUNNING
        await runtime.start(container)
        assert records(world, container)[1:] == (keeper, running)
        os.kill(running.pid, signal.SIGKILL)
        await wait_state(runtime, container, State.UNKNOWN)
        await runtime.start(container)
        assert (await told(runtime, container)).state is State.UNKNOWN


async def test_stop_without_a_keeper_ends_every_process_of_the_container(world: World) -> None:
    beat = world.directory / "beat"
    script = f"trap '' TERM; (setsid sh -c 'while :; do echo >> {beat}; sleep 0.02; done' &) ; sleep 60"
    async with ProcessRuntime(world.directory / "state") as runtime:
        container = await started(world, runtime, world.container(script))
        await wait_until(beat.exists)
        os.kill(records(world, container)[1].pid, signal.SIGKILL)
        await runtime.stop(container, 0.1)
        size = beat.stat().st_size
        await wait_gone(beat)
        assert beat.stat().st_size == size
        assert (await told(runtime, container)).state is State.UNKNOWN


async def test_a_keeper_killed_before_the_start_means_that_nothing_ran(world: World) -> None:
    """Its claim is on disk, no start is: so it cannot have run, and a second keeper does not run it either."""
    async with ProcessRuntime(world.directory / "state") as runtime:
        container = await started(world, runtime, world.container("true"))
        await wait_state(runtime, container, State.EXITED)
        directory, keeper, _ = records(world, container)
        assert await wait_ended(keeper, 10.0)
    for name in ("running.json", "exit.json"):
        (directory / name).unlink()
    async with ProcessRuntime(world.directory / "state") as runtime:
        found = await told(runtime, container)
        assert (found.state, found.reason, found.exit_code) == (State.EXITED, "StartError", 128)
        with pytest.raises(InvalidError, match="keeper was killed"):
            await runtime.start(container)
        assert not (directory / "running.json").exists()


@pytest.mark.parametrize("change", ["boot", "start"])
async def test_another_boot_or_a_reused_number_never_counts(world: World, change: str) -> None:
    async with ProcessRuntime(world.directory / "state") as runtime:
        container = await started(world, runtime, world.container("sleep 60"))
        directory, keeper, running = records(world, container)
        os.kill(keeper.pid, signal.SIGKILL)
        for name, record in (("keeper.json", keeper), ("running.json", running)):
            other = {"boot": "x"} if change == "boot" else {"start": record.start + 1}
            (directory / name).write_bytes(msgspec.json.encode(msgspec.structs.replace(record, **other)))
    async with ProcessRuntime(world.directory / "state") as runtime:
        assert (await told(runtime, container)).state is State.UNKNOWN
        await runtime.stop(container, 0.0)
        assert start_time(running.pid) is None


async def test_a_sandbox_of_another_boot_is_not_ready(world: World) -> None:
    async with ProcessRuntime(world.directory / "state") as runtime:
        sandbox = await runtime.run_sandbox(world.sandbox())
        path = world.directory / "state" / "sandboxes" / sandbox / "sandbox.json"
        record = msgspec.json.decode(path.read_bytes())
        path.write_bytes(msgspec.json.encode({**record, "boot": "x"}))
        assert [one.is_ready for one in await runtime.sandboxes()] == [False]
        again = await runtime.run_sandbox(world.sandbox(attempt=1))
        assert again != sandbox


async def test_a_container_that_never_ran_moves_to_the_next_sandbox(world: World) -> None:
    async with ProcessRuntime(world.directory / "state") as runtime:
        first = await runtime.run_sandbox(world.sandbox())
        container = await runtime.create(first, world.container("sleep 60"))
        ran = await runtime.create(first, world.container("exit 2", name="ran"))
        await runtime.start(ran)
        await wait_state(runtime, ran, State.EXITED)
        await runtime.stop_sandbox(first)
        second = await runtime.run_sandbox(world.sandbox(attempt=1))
        assert await runtime.create(second, world.container("sleep 60")) == container
        assert await runtime.create(second, world.container("exit 2", name="ran")) == ran
        await runtime.start(container)
        await runtime.remove_sandbox(first)
        assert [(one.id, one.state) for one in await runtime.containers()] == [(container, State.RUNNING)]
        await runtime.stop_sandbox(second)
        assert (await told(runtime, container)).state is State.EXITED


async def test_many_starts_at_once_run_it_once(world: World) -> None:
    marks = world.directory / "marks"
    config = world.container(marking("x", marks))
    async with ProcessRuntime(world.directory / "state") as runtime:
        container = await runtime.create(await runtime.run_sandbox(world.sandbox()), config)
        async with asyncio.TaskGroup() as group:
            for _ in range(6):
                group.create_task(runtime.start(container))
        assert (await told(runtime, container)).state is State.RUNNING
        marks.with_name("marks.gate").touch()
        await wait_state(runtime, container, State.EXITED)
        await wait_gone(marks)
        assert marks.read_text() == "x\n"


def test_a_start_that_nobody_waits_for_leaves_nothing_open(world: World) -> None:
    """A kubelet that is stopped meanwhile: what is open when its loop ends would be told of as a warning."""

    async def cancelled() -> str:
        async with ProcessRuntime(world.directory / "state") as runtime:
            sandbox = await runtime.run_sandbox(world.sandbox())
            container = await runtime.create(sandbox, world.container("sleep 60"))
            log = world.directory / "state/containers" / container / "keeper.log"
            lock = os.open(log.with_name("starting"), os.O_RDWR | os.O_CREAT)
            fcntl.flock(lock, fcntl.LOCK_EX)  # its keeper waits for this before it decides
            threading.Timer(0.5, os.close, (lock,)).start()
            async with asyncio.TaskGroup() as group:
                start = group.create_task(runtime.start(container))
                while not (log.exists() and len(keepers(world.directory)) == 1):
                    await asyncio.sleep(0.01)
                start.cancel()
            return container

    async def taken_over(container: str) -> State:
        async with ProcessRuntime(world.directory / "state") as runtime:
            await runtime.start(container)
            return (await told(runtime, container)).state

    container = asyncio.run(cancelled())
    gc.collect()
    assert asyncio.run(taken_over(container)) is State.RUNNING


async def test_a_working_directory_that_is_not_there(world: World) -> None:
    async with ProcessRuntime(world.directory / "state") as runtime:
        with pytest.raises(InvalidError, match="working directory /no/such: No such file"):
            await started(world, runtime, replace(world.container("true"), working_dir="/no/such"))


async def test_a_keeper_killed_during_the_grace_does_not_save_the_container(world: World) -> None:
    config = world.container("trap 'echo asked' TERM; echo up; while :; do sleep 0.02; done")
    async with ProcessRuntime(world.directory / "state") as runtime:
        container = await started(world, runtime, config)
        await wait_log(world, config, "up")
        _, keeper, running = records(world, container)
        async with asyncio.TaskGroup() as group:
            stopping = group.create_task(runtime.stop(container, 0.5))
            await wait_log(world, config, "asked")
            os.kill(keeper.pid, signal.SIGKILL)
        assert stopping.done()
        assert not running.is_alive


async def test_a_log_that_takes_no_more_does_not_stop_the_container(world: World) -> None:
    """As on a full disk: a pipe that nobody reads is full soon."""
    config = world.container("i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done; exit 6")
    config.log_path.parent.mkdir(parents=True)
    os.mkfifo(config.log_path)
    reader = os.open(config.log_path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        async with ProcessRuntime(world.directory / "state") as runtime:
            container = await started(world, runtime, config)
            assert (await wait_state(runtime, container, State.EXITED)).exit_code == 6
        # More than it holds was written, and not all of it arrived.
        assert 32_000 < len(os.read(reader, 1 << 20)) <= 1 << 16
    finally:
        os.close(reader)


async def test_a_keeper_stays_small(world: World) -> None:
    async with ProcessRuntime(world.directory / "state") as runtime:
        config = world.container("yes | head -c 400000; echo done; sleep 60")
        container = await started(world, runtime, config)
        await wait_log(world, config, "done")
        status = Path(f"/proc/{records(world, container)[1].pid}/status").read_text()
    own = int(status.split("RssAnon:")[1].split()[0])
    assert own < 8_000, "kB of its own memory"
