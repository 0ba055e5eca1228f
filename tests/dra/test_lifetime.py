"""A driver's life with our kubelet on the other side of its sockets."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from dray.dra.lifetime import DraDriver, Timing
from dray.dra.register import DriverSockets
from dray.dra.serve import ClaimCalls
from dray.errors import ConflictError, Error, InvalidError, InvariantError, UnavailableError
from dray.kubelet.claims.manager import ClaimManager
from dray.kubelet.plugins.watcher import PluginWatcher
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import FakeClock, SystemClock, settle
from dray.testing.check.driver.run import check_command
from dray.testing.check.rules import Pace, Verdict
from dray.wire.registration import DRA_PLUGIN
from dray.wire.registration_state import RegistrationPhase
from tests.campaign import campaign
from tests.dra.tiny import DRIVER, QUICK, Claims, Tape, failing
from tests.kubelet.claims.world import World, claim_of, direct, pod_of
from tests.waiting import until, wait_until

TIMING = Timing(work=60, lost=0.1, patience=0.05, refused=0.1, backoff=BackoffPolicy(first=0.01, limit=0.05))


def driver_of(
    kubelet: Path,
    tape: Tape,
    instance: str = "",
    timing: Timing = TIMING,
    on_registered: Callable[[], None] = lambda: None,
) -> DraDriver:
    calls = ClaimCalls(DRIVER, tape, Claims(), SystemClock(), retries=QUICK)
    sockets = DriverSockets(DRIVER, kubelet, instance)
    return DraDriver(sockets, calls, SystemClock(), timing=timing, on_registered=on_registered)


class CallsNoted(ClaimCalls):
    """`waits`: for how many seconds it was asked to wait until no call runs."""

    def __init__(self, tape: Tape) -> None:
        super().__init__(DRIVER, tape, Claims(), SystemClock(), retries=QUICK)
        self.waits: list[float] = []

    async def wait_idle(self, timeout: float) -> bool:
        self.waits.append(timeout)
        return await super().wait_idle(timeout)


class Node:
    """Our kubelet's claims and its plugin watcher over one directory."""

    def __init__(self, manager: ClaimManager, world: World) -> None:
        self.manager = manager
        self._world = world

    def is_usable(self) -> bool:
        return self.manager.drivers.is_usable(DRIVER)

    def called(self) -> str:
        """The endpoint that the next call goes to."""
        return self.manager.drivers.pick(DRIVER).path

    async def prepare(self, name: str) -> tuple[str, ...]:
        """A pod with one claim starts; its CDI devices."""
        self._world.api.add(claim_of(name, [DRIVER], [f"pod-{name}"]))
        self._world.active.add(f"pod-{name}-uid")
        pod = pod_of(f"pod-{name}", direct(name), uses=[(name, "")])
        await self.manager.prepare(pod)
        return self.manager.cdi_devices(pod, pod.spec.containers[0])

    async def prepare_unless_gone(self, name: str) -> tuple[str, ...]:
        """The same; nothing while the driver is not registered. A socket that comes in place of another is registered anew."""
        try:
            return await self.prepare(name)
        except UnavailableError:
            return ()

    async def unprepare(self, name: str) -> None:
        """It ends."""
        await self.manager.unprepare(pod_of(f"pod-{name}", direct(name), uses=[(name, "")]))
        self._world.active.discard(f"pod-{name}-uid")


@asynccontextmanager
async def node(kubelet: Path) -> AsyncIterator[Node]:
    world = World(kubelet)
    async with world.running() as manager:
        handlers = {DRA_PLUGIN: manager.drivers}
        async with PluginWatcher(kubelet / "plugins_registry", handlers, SystemClock()).running():
            yield Node(manager, world)


def sockets_below(kubelet: Path) -> list[str]:
    return sorted(path.name for path in kubelet.rglob("*") if path.is_socket())


async def test_from_start_to_end(tmp_path: Path) -> None:
    tape, registered = Tape(), []
    async with node(tmp_path) as kubelet:
        driver = driver_of(tmp_path, tape, on_registered=lambda: registered.append(1))
        async with driver:
            assert sockets_below(tmp_path) == ["dra.sock", f"{DRIVER}-reg.sock"]
            await wait_until(lambda: kubelet.is_usable() and driver.is_registered)
            assert await kubelet.prepare("a") == (f"{DRIVER}/dev=a",)
            await kubelet.unprepare("a")
            assert registered == [1]
        assert sockets_below(tmp_path) == []
        await wait_until(lambda: not kubelet.is_usable())
    assert tape.calls == [("prepare", "a"), ("unprepare", "a")]


async def test_a_kubelet_that_comes_later_and_comes_again(tmp_path: Path) -> None:
    tape, registered = Tape(), []
    driver = driver_of(tmp_path, tape, on_registered=lambda: registered.append(1))
    async with driver:
        assert driver.state.phase is RegistrationPhase.WAITING
        for turn in (1, 2):
            async with node(tmp_path) as kubelet:
                await wait_until(lambda: kubelet.is_usable() and len(registered) == turn)  # noqa: B023
                await kubelet.prepare("a")
    assert tape.calls == [("prepare", "a"), ("prepare", "a")]


@pytest.mark.parametrize("which", ["registration", "endpoint"])
@pytest.mark.parametrize("how", ["deleted", "directory recreated", "moved away", "replaced by a dead one"])
async def test_a_socket_that_is_lost_is_made_anew(tmp_path: Path, which: str, how: str) -> None:
    tape, registered = Tape(), []
    driver = driver_of(tmp_path, tape, on_registered=lambda: registered.append(1))
    async with node(tmp_path) as kubelet, driver:
        await wait_until(kubelet.is_usable)
        path: Path = getattr(driver.sockets, which)
        if how == "deleted":
            path.unlink()
        elif how == "directory recreated":
            shutil.rmtree(path.parent)
            path.parent.mkdir()
        elif how == "moved away":
            path.parent.rename(tmp_path / "away")
        else:
            path.unlink()
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(path))
        await wait_until(lambda: path.is_socket() and len(registered) > 1)
        await until(lambda: kubelet.prepare_unless_gone("a"))
    assert sockets_below(tmp_path) == []


async def test_a_socket_that_is_deleted_again_and_again(tmp_path: Path) -> None:
    driver = driver_of(tmp_path, Tape())
    async with driver:
        for _ in range(campaign(8, 200)):
            await wait_until(driver.sockets.registration.exists)
            driver.sockets.registration.unlink()
        await wait_until(driver.sockets.registration.exists)
    assert sockets_below(tmp_path) == []


async def test_what_a_kill_left_is_replaced(tmp_path: Path) -> None:
    for path in (tmp_path / "plugins" / DRIVER, tmp_path / "plugins_registry"):
        path.mkdir(parents=True)
    driver = driver_of(tmp_path, Tape())
    for path in (driver.sockets.registration, driver.sockets.endpoint):
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
    async with node(tmp_path) as kubelet, driver:
        await until(lambda: kubelet.prepare_unless_gone("a"))


async def test_running_calls_end_before_it_leaves(tmp_path: Path) -> None:
    tape = Tape(gate=asyncio.Event())
    assert tape.gate is not None
    calls = CallsNoted(tape)
    async with node(tmp_path) as kubelet, AsyncExitStack() as stack:
        sockets = DriverSockets(DRIVER, tmp_path)
        await stack.enter_async_context(DraDriver(sockets, calls, SystemClock(), timing=TIMING))
        await wait_until(kubelet.is_usable)
        async with asyncio.TaskGroup() as group:
            call = group.create_task(kubelet.prepare("a"))
            await wait_until(lambda: tape.at_once == 1)
            leaving = group.create_task(stack.aclose())
            await wait_until(lambda: calls.waits == [TIMING.work] or leaving.done())
            await settle()
            # The kubelet would cut the call off if the registration socket went.
            assert len(sockets_below(tmp_path)) == 2
            assert not leaving.done()
            tape.gate.set()
        assert call.result() == (f"{DRIVER}/dev=a",)
        assert sockets_below(tmp_path) == []


async def test_a_call_that_never_ends_is_left(tmp_path: Path) -> None:
    tape = Tape(gate=asyncio.Event())
    calls = CallsNoted(tape)
    async with node(tmp_path) as kubelet, AsyncExitStack() as stack:
        timing = Timing(work=0.1, backoff=TIMING.backoff)
        sockets = DriverSockets(DRIVER, tmp_path)
        await stack.enter_async_context(DraDriver(sockets, calls, SystemClock(), timing=timing))
        await wait_until(kubelet.is_usable)
        async with asyncio.TaskGroup() as group:
            call = group.create_task(outcome(kubelet.prepare("a")))
            await wait_until(lambda: tape.at_once == 1)
            await stack.aclose()
            assert calls.waits == [0.1]
        assert call.result() != ""
    assert tape.cancelled == 1
    assert sockets_below(tmp_path) == []


async def outcome(call: Awaitable[object]) -> str:
    """The error of a call, or nothing."""
    try:
        await call
    except Error as error:
        return str(error)
    return ""


async def churn(kubelet: Node, name: str, stop: asyncio.Event, done: list[str]) -> None:
    """One pod after the other with a claim; `done` are those that have ended."""
    for number in count():
        if stop.is_set():
            return
        claim = f"{name}-{number}"
        assert await kubelet.prepare(claim)
        await asyncio.sleep(0)
        await kubelet.unprepare(claim)
        done.append(claim)


async def wait_more(done: list[str], more: int) -> None:
    """Until so many more have ended."""
    wanted = len(done) + more
    await wait_until(lambda: len(done) >= wanted)


async def test_a_rolling_update_fails_no_call(tmp_path: Path) -> None:
    tape, stop, instances = Tape(), asyncio.Event(), campaign(3, 50)
    done: list[str] = []
    async with node(tmp_path) as kubelet, AsyncExitStack() as first, AsyncExitStack() as last:
        old, old_stack = await first.enter_async_context(driver_of(tmp_path, tape, "i0")), first.pop_all()
        await wait_until(kubelet.is_usable)
        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(churn(kubelet, f"p{number}", stop, done))
            for number in range(1, instances):
                stack = AsyncExitStack()
                new = await stack.enter_async_context(driver_of(tmp_path, tape, f"i{number}"))
                await wait_until(lambda: kubelet.called() == str(new.sockets.endpoint))  # noqa: B023
                assert old.sockets.endpoint.exists()
                await old_stack.aclose()
                assert sockets_below(tmp_path) == [f"dra-i{number}.sock", f"{DRIVER}-i{number}-reg.sock"]
                old, old_stack = new, stack
                await wait_more(done, 8)
            stop.set()
        last.push_async_exit(old_stack.__aexit__)
    assert tape.prepared == {}
    assert tape.cancelled == 0


async def start(kubelet: Path, cdi: Path, instance: str = "", **settings: str) -> asyncio.subprocess.Process:
    """The small driver in a process of its own, ready. Its work on a claim takes a while."""
    environment = {**os.environ, "TAPE_SECONDS": "0.03", **settings}
    environment.pop("KUBECONFIG", None)
    command = [sys.executable, "-m", "tests.dra.tiny_driver", str(kubelet), str(cdi), instance]
    child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, env=environment)
    assert child.stdout is not None
    assert await child.stdout.readline() == b"ready\n"
    return child


async def test_a_rolling_update_of_processes(tmp_path: Path) -> None:
    """The old one is told to end while its calls run."""
    cdi, stop, done = tmp_path / "cdi", asyncio.Event(), list[str]()
    cdi.mkdir()
    async with node(tmp_path) as kubelet:
        old = await start(tmp_path, cdi, "old")
        await wait_until(kubelet.is_usable)
        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(churn(kubelet, f"p{number}", stop, done))
            await wait_more(done, 4)
            new = await start(tmp_path, cdi, "new")
            await wait_until(lambda: kubelet.called().endswith("dra-new.sock"))
            old.send_signal(signal.SIGTERM)
            assert await old.wait() == 0
            await wait_more(done, 4)
            stop.set()
        assert sockets_below(tmp_path) == ["dra-new.sock", f"{DRIVER}-new-reg.sock"]
        new.send_signal(signal.SIGTERM)
        assert await new.wait() == 0
    assert list(cdi.iterdir()) == []


async def test_a_process_that_is_killed_leaves_nothing_in_the_way(tmp_path: Path) -> None:
    cdi = tmp_path / "cdi"
    cdi.mkdir()
    for turn in range(campaign(1, 30)):
        async with node(tmp_path) as kubelet:
            begun = tmp_path / f"begun{turn}"
            child = await start(tmp_path, cdi, TAPE_STUCK=f"d{turn}", TAPE_BEGUN=str(begun))
            await wait_until(kubelet.is_usable)
            assert await kubelet.prepare(f"c{turn}")
            call = asyncio.gather(outcome(kubelet.prepare(f"d{turn}")))
            await wait_until(begun.exists)
            child.kill()
            await child.wait()
            assert (await call)[0] != ""
            assert sockets_below(tmp_path) == ["dra.sock", f"{DRIVER}-reg.sock"]
            driver = driver_of(tmp_path, Tape())
            async with driver:
                await wait_until(lambda: driver.is_registered and kubelet.is_usable())  # noqa: B023
                await until(lambda: kubelet.prepare_unless_gone(f"d{turn}"))  # noqa: B023


async def test_our_own_bug_ends_the_process(tmp_path: Path) -> None:
    tape = Tape(fails=failing(["a"], lambda: InvariantError("two owners of one device")))
    async with node(tmp_path) as kubelet:
        with pytest.raises(InvariantError, match="two owners"):
            async with driver_of(tmp_path, tape):
                await wait_until(kubelet.is_usable)
                assert await outcome(kubelet.prepare("a")) != ""
                await asyncio.sleep(60)
    assert sockets_below(tmp_path) == []


async def test_a_second_owner_does_not_start(tmp_path: Path) -> None:
    async with driver_of(tmp_path, Tape()) as first:
        for instance in ("", "other"):
            with pytest.raises(ConflictError, match=rf"(?s)driver {DRIVER} is served .*pid {os.getpid()}"):
                async with driver_of(tmp_path, Tape(), instance):
                    pytest.fail("two owners")
        assert first.sockets.registration.exists()
    async with driver_of(tmp_path, Tape(), "other"):
        pass


async def test_a_socket_that_somebody_took(tmp_path: Path) -> None:
    path = DriverSockets(DRIVER, tmp_path).endpoint
    path.parent.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(ConflictError, match=rf"in use by .*\(pid {os.getpid()}\): stop that process"):
            async with driver_of(tmp_path, Tape()):
                pytest.fail("two owners")
    assert sockets_below(tmp_path) == ["dra.sock"]


async def test_it_says_at_once_why_it_cannot_start(tmp_path: Path) -> None:
    path = DriverSockets(DRIVER, tmp_path).registration
    path.parent.mkdir(parents=True)
    path.write_text("no socket")
    with pytest.raises(InvalidError, match="exists and is no socket"):
        async with driver_of(tmp_path, Tape()):
            pytest.fail("started")
    assert sockets_below(tmp_path) == []


async def test_a_later_fault_is_told_and_tried_again(tmp_path: Path) -> None:
    driver = driver_of(tmp_path, Tape())
    path = driver.sockets.registration
    async with node(tmp_path) as kubelet, driver:
        await wait_until(kubelet.is_usable)
        path.unlink()
        path.write_text("no socket")
        await wait_until(lambda: driver.state.phase is RegistrationPhase.FAILED)
        assert "exists and is no socket" in str(driver.state)
        path.unlink()
        await wait_until(lambda: driver.is_registered and kubelet.is_usable())


async def test_a_refusal_is_told_and_the_kubelet_is_asked_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock, calls = FakeClock(), ClaimCalls(DRIVER, Tape(), Claims(), SystemClock(), retries=QUICK)
    driver = DraDriver(DriverSockets(DRIVER, tmp_path), calls, clock, timing=TIMING)
    path = driver.sockets.registration

    def reasons() -> list[str]:
        return [vars(one)["fields"]["why"] for one in caplog.records if one.message == "will serve again"]

    async with driver:
        async with PluginWatcher(path.parent, {}, SystemClock()).running():
            await wait_until(lambda: driver.state.phase is RegistrationPhase.REFUSED and bool(clock.sleepers))
            assert "no handler registered for plugin type: DRAPlugin" in driver.state.reason
            before = path.lstat().st_ctime_ns
            await clock.advance(TIMING.refused)
            await wait_until(lambda: reasons() == ["the kubelet refused us"] and bool(clock.sleepers))
            await clock.advance(TIMING.backoff.limit * 2)
            await wait_until(lambda: path.exists() and path.lstat().st_ctime_ns != before)
            await wait_until(lambda: bool(clock.sleepers))  # it was refused again
        async with node(tmp_path) as kubelet:
            await wait_until(lambda: driver.is_registered and kubelet.is_usable())
            before = path.lstat().st_ctime_ns
            await clock.advance(TIMING.refused * 2)
            assert await kubelet.prepare("a")
            assert path.lstat().st_ctime_ns == before
            path.unlink()
            await wait_until(lambda: len(reasons()) > 1 and bool(clock.sleepers))
            assert reasons()[1:] == [f"{path} is gone"]
            await clock.advance(TIMING.backoff.limit * 2)
            await wait_until(lambda: driver.is_registered and path.exists())


async def test_strangers_at_the_sockets_do_no_harm(tmp_path: Path) -> None:
    tape = Tape()
    driver = driver_of(tmp_path, tape)
    async with node(tmp_path) as kubelet, driver:
        await wait_until(kubelet.is_usable)
        kept = []
        for number in range(40):
            path = (driver.sockets.registration, driver.sockets.endpoint)[number % 2]
            peer = socket.socket(socket.AF_UNIX)
            peer.connect(str(path))
            peer.sendall(
                (b"", b"\0" * 5000, b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")[
                    number // 2 % 4
                ]
            )
            kept.append(peer)
            await asyncio.sleep(0)
        assert await kubelet.prepare("a")
        for peer in kept:
            peer.close()
        await kubelet.unprepare("a")
        assert driver.is_registered


async def test_the_kubelets_contract_is_kept() -> None:
    """`dray check driver`, every rule."""
    command = [sys.executable, "-m", "tests.dra.tiny_driver", "{kubelet-dir}", "{cdi-dir}"]
    pace = Pace(within=60, first_list=30, settle=0.1, away=0.3)
    report = await check_command(command, pace=pace, say=lambda text: None)
    found = {one.rule: f"{one.outcome.verdict}: {one.outcome.evidence}" for one in report.results}
    assert {one.outcome.verdict for one in report.results} == {Verdict.PASS}, found
