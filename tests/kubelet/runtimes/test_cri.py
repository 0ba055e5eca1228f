"""Against a runtime that can be made to fail at will. A real containerd: tests/e2e/test_cri.py."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from dray.cdi.edits import DeviceNode
from dray.errors import (
    ConflictError,
    HardwareError,
    InvalidError,
    NotFoundError,
    ProtocolError,
    UnavailableError,
)
from dray.kubelet.runtimes.contract import ContainerConfig, PodIdentity, SandboxConfig, Security, State
from dray.kubelet.runtimes.cri import CriRuntime, CriSettings
from dray.wire.gen import cri_v1_pb2 as pb
from dray.wire.status import Code, StatusError
from tests.kubelet.runtimes.small_cri import SmallCri
from tests.waiting import PATIENCE

POD = PodIdentity("u1", "ns", "p")
BUSY = StatusError(Code.FAILED_PRECONDITION, 'name "x" is reserved for "y"')


@asynccontextmanager
async def world(tmp_path: Path, small: SmallCri | None = None) -> AsyncIterator[tuple[SmallCri, CriRuntime]]:
    socket = tmp_path / "cri.sock"
    async with (
        (small or SmallCri()).serving(socket) as served,
        CriRuntime(CriSettings("me", socket)) as runtime,
    ):
        yield served, runtime


def sandbox(tmp_path: Path, attempt: int = 0) -> SandboxConfig:
    return SandboxConfig(POD, "host", tmp_path / "logs", attempt)


def container(tmp_path: Path, attempt: int = 0) -> ContainerConfig:
    return ContainerConfig(POD, "c", "here", tmp_path / "logs/c.log", attempt)


async def test_without_a_runtime_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"start containerd, or give its socket with --cri-socket"):
        async with CriRuntime(CriSettings("me", tmp_path / "none.sock")):
            pass


async def test_a_runtime_that_is_not_ready(tmp_path: Path) -> None:
    async with world(tmp_path) as (small, runtime):
        await runtime.check_ready()
        small.conditions["NetworkReady"] = False
        await runtime.check_ready()
        small.conditions["RuntimeReady"] = False
        with pytest.raises(UnavailableError, match="small is not ready"):
            await runtime.check_ready()


async def test_what_another_call_is_making_is_waited_for(tmp_path: Path) -> None:
    async with world(tmp_path) as (small, runtime):
        small.faults["run_pod_sandbox"] = [BUSY, BUSY]
        small.faults["create_container"] = [BUSY]
        small.faults["start_container"] = [ProtocolError("container is already in starting state")]
        made = await runtime.run_sandbox(sandbox(tmp_path))
        item = await runtime.create(made, container(tmp_path))
        await runtime.start(item)
        assert [one.state for one in await runtime.containers()] == [State.RUNNING]
        small.faults["remove_container"] = [ProtocolError("container is already in removing state")]
        await runtime.remove(item)
        assert await runtime.containers() == ()


async def test_a_sandbox_that_was_cut_off_is_made_again_and_one_with_containers_is_kept(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as (small, runtime):
        first = await runtime.run_sandbox(sandbox(tmp_path))
        small.sandboxes[first].state = pb.SANDBOX_NOTREADY
        second = await runtime.run_sandbox(sandbox(tmp_path))
        assert (second != first, list(small.sandboxes)) == (True, [second])
        await runtime.create(second, container(tmp_path))
        await runtime.stop_sandbox(second)
        assert await runtime.run_sandbox(sandbox(tmp_path)) == second
        with pytest.raises(ConflictError, match="does not run any more"):
            await runtime.create(second, replace(container(tmp_path), name="late"))


async def test_a_dead_sandbox_gives_up_its_address_unless_something_runs_in_it(tmp_path: Path) -> None:
    async with world(tmp_path) as (small, runtime):
        dead = await runtime.run_sandbox(sandbox(tmp_path))
        item = await runtime.create(dead, container(tmp_path))
        await runtime.start(item)
        small.sandboxes[dead].state = pb.SANDBOX_NOTREADY
        await runtime.run_sandbox(sandbox(tmp_path, attempt=1))
        assert "stop_pod_sandbox" not in small.calls
        await runtime.stop(item, 0.0)
        third = await runtime.run_sandbox(sandbox(tmp_path, attempt=2))
        assert small.requests["stop_pod_sandbox"].pod_sandbox_id == dead
        assert small.sandboxes[third].metadata.attempt == 2
        assert dead in small.sandboxes


async def test_a_start_that_was_cut_off_is_made_again(tmp_path: Path) -> None:
    async with world(tmp_path) as (small, runtime):
        made = await runtime.run_sandbox(sandbox(tmp_path))
        first = await runtime.create(made, container(tmp_path))
        cut = small.containers[first]
        cut.state, cut.reason, cut.finished_at = pb.CONTAINER_EXITED, "StartError", time.time_ns()
        cut.message = "failed to create containerd task: context canceled"
        assert [one.state for one in await runtime.containers()] == [State.CREATED]
        with pytest.raises(UnavailableError, match="cut off"):
            await runtime.start(first)
        second = await runtime.create(made, container(tmp_path))
        assert list(small.containers) == [second]
        await runtime.start(second)
        cut = small.containers[second]
        cut.state, cut.reason, cut.finished_at = pb.CONTAINER_EXITED, "StartError", time.time_ns()
        cut.message, cut.started_at = 'failed to start containerd task "x": context canceled', 0
        assert await runtime.create(made, container(tmp_path)) == second
        with pytest.raises(InvalidError, match="cannot start container c: failed to start"):
            await runtime.start(second)


async def test_nothing_is_started_beside_one_that_may_still_run(tmp_path: Path) -> None:
    async with world(tmp_path) as (small, runtime):
        made = await runtime.run_sandbox(sandbox(tmp_path))
        first = await runtime.create(made, container(tmp_path))
        await runtime.start(first)
        small.containers[first].state = pb.CONTAINER_UNKNOWN
        assert [one.state for one in await runtime.containers()] == [State.UNKNOWN]
        await runtime.create(made, container(tmp_path, attempt=1))
        assert small.calls.index("stop_container") < len(small.calls) - 1
        assert small.containers[first].state == pb.CONTAINER_EXITED


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("CDI device injection failed: unresolvable CDI devices a/b=c", InvalidError),
        ("failed to generate spec: lstat /dev/x: no such file or directory", HardwareError),
        ("failed to generate spec: lstat /dev/y: no such file or directory", ProtocolError),
        ("anything else", ProtocolError),
    ],
)
async def test_why_a_container_cannot_be_made(tmp_path: Path, text: str, kind: type[Exception]) -> None:
    async with world(tmp_path) as (small, runtime):
        made = await runtime.run_sandbox(sandbox(tmp_path))
        small.faults["create_container"] = [ProtocolError(text)]
        config = replace(container(tmp_path), device_nodes=(DeviceNode("/dev/x", "/dev/z"),))
        with pytest.raises(kind, match=text.split(":")[0]):
            await runtime.create(made, config)


async def test_what_ended_long_ago_is_asked_for_once(tmp_path: Path) -> None:
    async with world(tmp_path) as (small, runtime):
        made = await runtime.run_sandbox(sandbox(tmp_path))
        item = await runtime.create(made, container(tmp_path))
        ended = small.containers[item]
        ended.state, ended.exit_code = pb.CONTAINER_EXITED, 4
        ended.started_at = ended.finished_at = time.time_ns() - 60 * 10**9
        assert [one.exit_code for one in await runtime.containers()] == [4]
        asked = small.calls.count("container_status")
        assert [one.exit_code for one in await runtime.containers()] == [4]
        assert small.calls.count("container_status") == asked


async def test_what_ended_just_now_may_still_get_another_reason(tmp_path: Path) -> None:
    async with world(tmp_path) as (small, runtime):
        made = await runtime.run_sandbox(sandbox(tmp_path))
        item = await runtime.create(made, container(tmp_path))
        ended = small.containers[item]
        ended.state, ended.finished_at, ended.reason = pb.CONTAINER_EXITED, time.time_ns(), "Error"
        assert [one.reason for one in await runtime.containers()] == ["Error"]
        ended.reason = "OOMKilled"
        assert [one.reason for one in await runtime.containers()] == ["OOMKilled"]


async def test_containers_that_vanish_while_they_are_listed(tmp_path: Path) -> None:
    async with world(tmp_path) as (small, runtime):
        made = await runtime.run_sandbox(sandbox(tmp_path))
        await runtime.create(made, container(tmp_path))
        small.faults["container_status"] = [NotFoundError("gone")]
        assert await runtime.containers() == ()
        assert [one.address for one in await runtime.sandboxes()] == ["10.0.0.1"]


@pytest.mark.parametrize("has_events", [True, False])
async def test_changes_are_told_by_events_or_by_looking(tmp_path: Path, has_events: bool) -> None:
    async with world(tmp_path, SmallCri(has_events=has_events)) as (small, runtime):
        made = await runtime.run_sandbox(sandbox(tmp_path))
        item = await runtime.create(made, container(tmp_path))
        await runtime.start(item)
        await runtime.wait_changed()
        small.containers[item].state = pb.CONTAINER_EXITED
        await small.events.put(pb.ContainerEventResponse())
        async with asyncio.timeout(PATIENCE):
            while (await runtime.containers())[0].state is not State.EXITED:
                await runtime.wait_changed()


async def test_it_goes_on_when_the_runtime_was_away(tmp_path: Path) -> None:
    small, socket = SmallCri(), tmp_path / "cri.sock"
    async with AsyncExitStack() as life, AsyncExitStack() as server:
        await server.enter_async_context(small.serving(socket))
        runtime = await life.enter_async_context(CriRuntime(CriSettings("me", socket)))
        made = await runtime.run_sandbox(sandbox(tmp_path))
        await server.aclose()
        for call in (runtime.sandboxes, runtime.containers, runtime.check_ready):
            with pytest.raises(UnavailableError):
                await call()
        await server.enter_async_context(small.serving(socket))
        assert [one.id for one in await runtime.sandboxes()] == [made]
        assert await runtime.run_sandbox(sandbox(tmp_path)) == made


async def test_images_by_their_policy(tmp_path: Path) -> None:
    async with world(tmp_path) as (small, runtime):
        await runtime.ensure_image("here", "Never")
        await runtime.ensure_image("here", "IfNotPresent")
        assert "pull_image" not in small.calls
        await runtime.ensure_image("here", "Always")
        await runtime.ensure_image("there", "IfNotPresent")
        assert small.calls.count("pull_image") == 2
        small.faults["pull_image"] = [UnavailableError("no route to host")]
        with pytest.raises(NotFoundError, match=r"no route to host.*images import") as pull:
            await runtime.ensure_image("far", "Always")
        with pytest.raises(NotFoundError, match=r"not present with pull policy of Never") as never:
            await runtime.ensure_image("far", "Never")
        assert (pull.value.kind, never.value.kind) == ("pull", "image")


@pytest.mark.parametrize(
    ("user", "username", "text"),
    [
        (None, "", "image will run as root"),
        (0, "", "image will run as root"),
        (None, "web", r"image has non-numeric user \(web\), cannot verify user is non-root"),
    ],
)
async def test_run_as_non_root_goes_by_what_the_image_says(
    tmp_path: Path, user: int | None, username: str, text: str
) -> None:
    async with world(tmp_path, SmallCri(user=user, username=username)) as (small, runtime):
        made = await runtime.run_sandbox(sandbox(tmp_path))
        wanted = replace(container(tmp_path), security=Security(non_root=True))
        with pytest.raises(InvalidError, match=f"container has runAsNonRoot and {text}"):
            await runtime.create(made, wanted)
        assert "create_container" not in small.calls
        await runtime.create(made, replace(wanted, security=Security(non_root=True, user=7)))


async def test_run_as_non_root_with_an_image_that_is_not_root(tmp_path: Path) -> None:
    async with world(tmp_path, SmallCri(user=1000)) as (_, runtime):
        made = await runtime.run_sandbox(sandbox(tmp_path))
        await runtime.create(made, replace(container(tmp_path), security=Security(non_root=True)))


async def test_run_as_non_root_holds_for_the_image_that_was_looked_at(tmp_path: Path) -> None:
    """Whoever moves the tag right after the check gets nothing by it: the container is made of the image's id."""
    async with world(tmp_path, SmallCri(user=1000, next_user=[0])) as (small, runtime):
        made = await runtime.run_sandbox(sandbox(tmp_path))
        await runtime.create(made, replace(container(tmp_path), security=Security(non_root=True)))
        image = small.requests["create_container"].config.image
        assert (image.image, image.user_specified_image) == ("sha256:here-1000", "here")


async def test_an_image_that_was_removed_meanwhile(tmp_path: Path) -> None:
    async with world(tmp_path) as (small, runtime):
        made = await runtime.run_sandbox(sandbox(tmp_path))
        small.images.clear()
        with pytest.raises(NotFoundError, match="image 'here' is no longer present"):
            await runtime.create(made, container(tmp_path))
