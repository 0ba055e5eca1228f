"""Containers of a real containerd over its CRI socket: all that every runtime does, and what is containerd's own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from dray.cdi.edits import DeviceNode
from dray.errors import HardwareError, InvalidError, NotFoundError, UnavailableError
from dray.kubelet.runtimes.contract import ContainerConfig, Runtime, Security, State
from dray.kubelet.runtimes.cri import CriRuntime, CriSettings
from dray.testing.kubernetes.tools import Tools
from tests.campaign import campaign, seeded
from tests.e2e.containerd_part import IMAGE, Containerd, containerd
from tests.kubelet.runtimes.conformance import SHORT_DIGITS, Conformance, World, told, wait_state, wait_text
from tests.waiting import PATIENCE


@pytest.fixture(scope="module")
def daemon(tools: Tools) -> Iterator[Containerd]:
    with containerd(tools) as running:
        yield running


@pytest.fixture
def settings(daemon: Containerd, tmp_path: Path) -> CriSettings:
    return CriSettings(tmp_path.name, daemon.socket, daemon.cgroup)


@pytest.fixture
def world(settings: CriSettings, tmp_path: Path) -> Iterator[World]:
    shared = tmp_path / "shared"
    shared.mkdir()
    given = f"{settings.owner!r}, Path({str(settings.socket)!r}), {settings.cgroup!r}"
    maker = f"dray.kubelet.runtimes.cri:CriRuntime(CriSettings({given}))"
    yield World(
        tmp_path,
        lambda: CriRuntime(settings),
        maker,
        IMAGE,
        shared,
        has_mounts=True,
        start_seconds=0.3,
        fraction=SHORT_DIGITS,
    )
    asyncio.run(_remove_all(settings))


async def _remove_all(settings: CriSettings) -> None:
    async with CriRuntime(settings) as runtime:
        for sandbox in await runtime.sandboxes():
            await runtime.remove_sandbox(sandbox.id)
        assert await runtime.containers() == ()


class TestCri(Conformance):
    """All that holds for every runtime."""

    async def test_kills_of_the_kubelet_lose_and_double_nothing(self, world: World) -> None:
        """A runtime ends the work of a call with the call, so what was being started is started again, as pods are."""
        seed = seeded(5)
        for turn in range(campaign(3, 60)):
            uid = f"k{turn}"
            marks = world.shared / uid
            await self.killed_program(world, uid, marks, seed.uniform(0.0, world.start_seconds * 5))
            async with world.open() as runtime:
                sandbox = await runtime.run_sandbox(world.sandbox(uid))
                runs = {}
                for name in "abcd":
                    script = f"echo {name} >> {marks}; sleep 60"
                    runs[name] = await brought_up(
                        runtime, sandbox, world.container(script, name=name, uid=uid)
                    )
                    await wait_text(marks, f"{name}\n")
                found = await runtime.containers()
                assert sorted(one.name for one in found if one.state is State.RUNNING) == list("abcd")
                assert len(await runtime.sandboxes()) == 1
                said = marks.read_text().split()
                assert all(said.count(name) in (1, runs[name] + 1) for name in "abcd"), (said, runs)
                await runtime.remove_sandbox(sandbox)
                assert await runtime.containers() == ()


async def brought_up(runtime: Runtime, sandbox: str, config: ContainerConfig) -> int:
    """As the pod manager does it: tried again where the runtime was not to be had, or the start had failed."""
    for _ in range(10):
        container = await runtime.create(sandbox, config)
        try:
            await runtime.start(container)
        except UnavailableError:
            continue
        except InvalidError as error:
            assert "context canceled" in str(error), error
            config = replace(config, attempt=config.attempt + 1)
            continue
        assert (await told(runtime, container)).state is State.RUNNING
        return config.attempt
    pytest.fail(f"{config.name} does not start")


async def wait_ready(runtime: Runtime) -> None:
    """It listens for a moment before it answers."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return await runtime.check_ready()
            except UnavailableError:
                await asyncio.sleep(0.05)


async def ran(
    world: World, runtime: CriRuntime, config: ContainerConfig, network: bool = False, pid: bool = False
) -> list[str]:
    """What the container printed, to its end; with the host's network or processes if wanted."""
    sandbox = await runtime.run_sandbox(replace(world.sandbox(), host_network=network, host_pid=pid))
    container = await runtime.create(sandbox, config)
    await runtime.start(container)
    await wait_state(runtime, container, State.EXITED)
    return [text for _, _, text in world.log(config)]


async def test_its_own_processes_name_and_network(world: World, settings: CriSettings) -> None:
    async with CriRuntime(settings) as runtime:
        assert runtime.name == "containerd"
        lines = await ran(world, runtime, world.container("echo $$; hostname; ls /sys/class/net; id -u"))
        assert lines == ["1", "host-u1", "eth0", "lo", "0"]
        (sandbox,) = await runtime.sandboxes()
        assert sandbox.address.startswith("10.244.0.")


async def test_host_network_and_host_processes(world: World, settings: CriSettings) -> None:
    script = "ls /sys/class/net; hostname; [ $$ -gt 1 ] && echo seen"
    async with CriRuntime(settings) as runtime:
        lines = await ran(world, runtime, world.container(script), network=True, pid=True)
    assert lines == [*sorted(os.listdir("/sys/class/net")), os.uname().nodename, "seen"]


async def test_devices_and_cdi_devices(world: World, settings: CriSettings, daemon: Containerd) -> None:
    """By the field of CRI, and by an annotation as an older device plugin gives it."""
    write_cdi(daemon)
    config = replace(
        world.container(
            "echo x > /dev/mine && echo written; head -c 3 /dev/cdi0 | wc -c; echo $COLOUR $SHAPE"
        ),
        device_nodes=(DeviceNode("/dev/null", "/dev/mine", "rw"),),
        cdi_devices=("example.com/thing=one",),
        annotations=(("cdi.k8s.io/example", "example.com/thing=two"),),
    )
    async with CriRuntime(settings) as runtime:
        assert await ran(world, runtime, config) == ["written", "3", "blue round"]
        sandbox = await runtime.run_sandbox(world.sandbox())
        unknown = replace(world.container("true", name="b"), cdi_devices=("example.com/thing=three",))
        with pytest.raises(InvalidError, match="thing=three"):
            await runtime.create(sandbox, unknown)
        absent = replace(world.container("true", name="b"), device_nodes=(DeviceNode("/dev/no", "/dev/no"),))
        with pytest.raises(HardwareError, match="/dev/no"):
            await runtime.create(sandbox, absent)
        assert len(await runtime.containers()) == 1


def write_cdi(daemon: Containerd) -> None:
    def device(name: str, **edits: object) -> dict[str, object]:
        return {"name": name, "containerEdits": edits}

    node = {"path": "/dev/cdi0", "hostPath": "/dev/zero"}
    devices = [device("one", env=["COLOUR=blue"], deviceNodes=[node]), device("two", env=["SHAPE=round"])]
    spec = {"cdiVersion": "0.6.0", "kind": "example.com/thing", "devices": devices}
    (daemon.cdi / "example.json").write_bytes(msgspec.json.encode(spec))


async def test_user_groups_capabilities_and_read_only_root(world: World, settings: CriSettings) -> None:
    script = "id -u; id -g; id -G; grep CapBnd /proc/self/status; touch /x 2>&1"
    security = Security(
        user=1234, group=5, supplemental_groups=(7,), read_only_root=True, drop_capabilities=("ALL",)
    )
    async with CriRuntime(settings) as runtime:
        lines = await ran(world, runtime, replace(world.container(script), security=security))
        assert lines[:2] == ["1234", "5"]
        assert set(lines[2].split()) == {"5", "7"}
        assert int(lines[3].split()[1], 16) == 0
        assert lines[4:] == ["touch: /x: Read-only file system"]
        free = replace(
            world.container("mount -t tmpfs t /tmp && echo mounted", name="free"),
            security=Security(privileged=True),
        )
        assert await ran(world, runtime, free) == ["mounted"]


async def test_out_of_memory_is_told(world: World, settings: CriSettings) -> None:
    config = replace(
        world.container("head -c 200000000 /dev/zero | tail; echo survived; exit 9"), memory_limit=20 << 20
    )
    async with CriRuntime(settings) as runtime:
        container = await runtime.create(await runtime.run_sandbox(world.sandbox()), config)
        await runtime.start(container)
        await wait_state(runtime, container, State.EXITED)
        async with asyncio.timeout(PATIENCE):
            while (await told(runtime, container)).reason != "OOMKilled":
                await asyncio.sleep(0.05)


async def test_images(settings: CriSettings) -> None:
    async with CriRuntime(settings) as runtime:
        for policy in ("Never", "IfNotPresent", ""):
            await runtime.ensure_image(IMAGE, policy)
        with pytest.raises(NotFoundError, match=r"not present with pull policy of Never: .* images import"):
            await runtime.ensure_image("docker.io/local/other:1", "Never")
        with pytest.raises(NotFoundError, match=r"cannot pull image 'localhost:1/other:1'.* images import"):
            await runtime.ensure_image("localhost:1/other:1", "IfNotPresent")
        for image in ("dir:/", "oci:/tmp", "host", "/etc/passwd", ""):
            with pytest.raises(InvalidError, match="--runtime runc can"):
                await runtime.ensure_image(image, "Never")


async def test_two_kubelets_do_not_see_each_others_pods(world: World, settings: CriSettings) -> None:
    async with (
        CriRuntime(settings) as runtime,
        CriRuntime(msgspec.structs.replace(settings, owner="o")) as other,
    ):
        await runtime.run_sandbox(world.sandbox())
        assert len(await runtime.sandboxes()) == 1
        assert await other.sandboxes() == ()


async def test_containerd_restarts_and_nothing_is_lost_or_doubled(
    world: World, settings: CriSettings, daemon: Containerd
) -> None:
    def waiting(gate: str) -> ContainerConfig:
        script = f"until [ -e {world.shared / gate} ]; do sleep 0.02; done; exit 5"
        return world.container(script, name=gate)

    async with CriRuntime(settings) as runtime:
        sandbox = await runtime.run_sandbox(world.sandbox())
        kept = await runtime.create(sandbox, world.container("sleep 60", name="kept"))
        ends = await runtime.create(sandbox, waiting("ends"))
        later = await runtime.create(sandbox, waiting("later"))
        made = await runtime.create(sandbox, world.container("sleep 60", name="made"))
        for one in (kept, ends, later):
            await runtime.start(one)
        daemon.part.kill()
        with pytest.raises(UnavailableError):
            await runtime.containers()
        with pytest.raises(UnavailableError):
            await runtime.stop(kept, 1.0)
        (world.shared / "ends").touch()
        daemon.start()
        await wait_ready(runtime)
        # containerd itself may not know how one ended while it was away.
        assert (await wait_state(runtime, ends, State.EXITED)).exit_code in (5, 255)
        (world.shared / "later").touch()
        assert (await wait_state(runtime, later, State.EXITED)).exit_code == 5
        assert (await told(runtime, kept)).state is State.RUNNING
        assert [one.is_ready for one in await runtime.sandboxes()] == [True]
        assert await runtime.create(sandbox, world.container("sleep 60", name="made")) == made
        await runtime.start(made)
        assert (await told(runtime, made)).state is State.RUNNING
        await runtime.stop(kept, 0.0)
        assert (await wait_state(runtime, kept, State.EXITED)).exit_code == 137


async def test_a_sandbox_that_dies_is_not_ready_and_what_never_ran_moves_to_the_next(
    world: World, settings: CriSettings, daemon: Containerd
) -> None:
    async with CriRuntime(settings) as runtime:
        first = await runtime.run_sandbox(world.sandbox())
        waiting = await runtime.create(first, world.container("sleep 60"))
        running = await runtime.create(first, world.container("sleep 60", name="running"))
        await runtime.start(running)
        daemon.ctr("task", "kill", "-s", "SIGKILL", first)
        async with asyncio.timeout(PATIENCE):
            while (await runtime.sandboxes())[0].is_ready:
                await runtime.wait_changed()
        assert await runtime.run_sandbox(world.sandbox()) == first
        second = await runtime.run_sandbox(world.sandbox(attempt=1))
        assert (await told(runtime, running)).state is State.RUNNING
        moved = await runtime.create(second, world.container("sleep 60"))
        assert (moved != waiting, (await told(runtime, moved)).sandbox) == (True, second)
        assert await runtime.create(second, world.container("sleep 60", name="running")) == running
        assert (await told(runtime, running)).sandbox == first
