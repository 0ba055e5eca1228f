"""The agent beside a kubelet that is away, slow, broken or restarting, and while its plugin directory comes and goes."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from dray.errors import InvalidError, UnavailableError
from dray.processes.agent import run_agent
from dray.runtime.clock import settle
from dray.runtime.tasks import running
from dray.wire.deviceplugin import KUBELET_SOCKET
from dray.wire.gen.deviceplugin_v1beta1_pb2 import Empty, RegisterRequest
from tests.campaign import campaign, seeded
from tests.processes.conftest import Node
from tests.processes.fast_clock import PausesKept
from tests.processes.faults import Tough, count_turns, make_node, suppressed

BARE = "virtualMachineInstancesPerNode: 2\n"
NAMES = ("kvm", "tun", "vhost-net", "sev")
ALL = {f"devices.kubevirt.io/{name}" for name in NAMES}
TABLE = (2.0, 5.0, 10.0, 10.0)
GARBAGE = (
    b"",
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\xff\xff\xff",
    b"\xff" * 4096,
)


def _has_all(node: Node) -> bool:
    return set(node.kubelet.registered) == ALL and all(
        node.kubelet.healthy.get(name) is not None for name in ALL
    )


async def _wait_all(node: Node, limit: float = 60) -> float:
    began = time.monotonic()
    await node.wait(lambda: _has_all(node), "all to be registered and listed", limit)
    return time.monotonic() - began


def _left_behind(node: Node) -> list[str]:
    """Sockets of ours anywhere near the plugin directory."""
    found = [path for path in node.path.rglob("*") if path.is_socket()]
    return [str(path) for path in found if path.name != KUBELET_SOCKET]


def _ours(directory: Path) -> list[str]:
    return [name for name in os.listdir(directory) if name.startswith("kubev") and name.endswith(".sock")]


# The plugin directory.


def _clear(place: Path) -> None:
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
    else:
        place.unlink(missing_ok=True)


def _disturb(random_: random.Random, node: Node) -> None:
    """One thing that may happen to the directory or to the kubelet's own, which holds it."""
    place = random_.choice((node.kubelet.directory, node.kubelet.directory, node.kubelet.directory.parent))
    away = place.with_name(f"{place.name}.away")
    kind = random_.randrange(8)
    if kind == 0:
        _clear(place)
    elif kind == 1:
        _clear(place)
        place.mkdir(parents=True)
    elif kind == 2:
        _clear(place)
        place.write_text("no directory")
    elif kind == 3:
        _clear(away)
        place.rename(away)
        place.symlink_to(away.name)
    elif kind == 4:
        _clear(place)
        place.symlink_to(random_.choice((place.name, "nowhere", "/dev/null")))
    elif kind == 5 and not away.exists():
        place.rename(away)
    elif kind == 6 and away.exists() and not away.is_symlink():
        _clear(place)
        away.rename(place)
    else:
        (place / "junk").touch()


def _mend(node: Node) -> None:
    """A kubelet that starts makes its directories, where something else is in the way somebody clears it."""
    for place in (node.kubelet.directory.parent, node.kubelet.directory):
        if not place.is_dir():
            _clear(place)
            place.mkdir(parents=True)


async def test_the_plugin_directory_may_go_and_come_in_every_way(tmp_path: Path) -> None:
    node, _ = make_node(tmp_path)
    random_ = seeded(11)
    waits = []
    async with node.agent(BARE):
        for _ in range(campaign(4, 200)):
            node.kubelet.registered.clear()
            async with node.kubelet.running():
                waits.append(await _wait_all(node))
                for _ in range(random_.randrange(1, 6)):
                    with suppressed():
                        _disturb(random_, node)
                    await asyncio.sleep(random_.choice((0, 0.005, 0.05)))
            _mend(node)
        node.kubelet.registered.clear()
        async with node.kubelet.running():
            waits.append(await _wait_all(node))
            assert len(_left_behind(node)) == len(_ours(node.kubelet.directory)) == len(ALL)
    assert _left_behind(node) == []
    print(f"registered again after {max(waits):.3f} s at most")


async def test_a_directory_that_comes_back_under_a_running_kubelet_needs_no_restart(tmp_path: Path) -> None:
    node, _ = make_node(tmp_path)
    directory = node.kubelet.directory
    away = directory.with_name("away")
    async with node.serving(BARE):
        for pause in (0, 0.05, 0.3)[: campaign(2, 3)]:
            await _wait_all(node)
            directory.rename(away)
            await asyncio.sleep(pause)
            away.rename(directory)
            await node.wait(lambda: len(_ours(directory)) == len(ALL) and _has_all(node), "all to be back")
            for name in ("kvm", "tun"):
                await node.kubelet.allocate(f"devices.kubevirt.io/{name}", f"{name}0")


# The kubelet.


@dataclass
class Moody(Tough):
    """Answers the first calls of each resource as its script says."""

    scripts: dict[str, list[str]] = field(default_factory=dict)
    clock: PausesKept = field(default_factory=lambda: PausesKept(campaign(10, 1)))
    calls: dict[str, list[int]] = field(default_factory=dict)
    """How many pauses of the agent were over at each call."""

    async def register(self, request: RegisterRequest) -> Empty:
        name = request.resource_name.rpartition("/")[2]
        self.calls.setdefault(name, []).append(len(self.clock.over))
        script = self.scripts.get(name, [])
        match script.pop(0) if script else "":
            case "away":
                raise UnavailableError("starting")
            case "refuse":
                raise InvalidError("no such version", field="version")
            case "slow":
                await asyncio.sleep(campaign(2, 16) / 4)
            case "hang":
                await asyncio.Event().wait()
        return await super().register(request)


def test_a_kubelet_that_is_slow_refuses_or_hangs_gets_each_plugin_in_the_end(tmp_path: Path) -> None:
    node, _ = make_node(tmp_path, Moody)
    kubelet = node.kubelet
    assert isinstance(kubelet, Moody)
    kubelet.scripts = {"kvm": ["away"], "tun": ["refuse"], "vhost-net": ["slow"], "sev": []}
    if campaign(0, 1):
        kubelet.scripts = {
            "kvm": ["away"] * 4,
            "tun": ["refuse", "hang", "away"],
            "vhost-net": ["slow"],
            "sev": ["hang"] * 2,
        }  # five seconds each
    wanted = {name: len(script) + (script != ["slow"]) for name, script in kubelet.scripts.items()}
    node.configure(BARE)

    async def serve() -> None:
        async with running(run_agent(node.options, kubelet.clock), name="agent"):
            await node.wait(
                lambda: len(_left_behind(node)) == len(ALL), "the sockets"
            )  # it is not there at first
            async with kubelet.running():
                await _wait_all(node, limit=90)
                await kubelet.clock.sleep(TABLE[1])  # who pauses now, pauses less
                await settle()

    turns = count_turns(serve())
    assert {name: len(times) for name, times in kubelet.calls.items()} == wanted
    for times in kubelet.calls.values():
        pauses = [kubelet.clock.over[before:after] for before, after in pairwise(times)]
        assert all(max(pause, default=0) >= least for pause, least in zip(pauses, TABLE, strict=False)), (
            pauses
        )
    assert turns < campaign(10_000, 200_000)  # about 600: nothing spins


@asynccontextmanager
async def _broken(path: Path, answer: bytes, keeps: bool) -> AsyncIterator[list[asyncio.StreamWriter]]:
    """A kubelet that takes connections, says `answer`, and closes or keeps them; all that it had."""
    had: list[asyncio.StreamWriter] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        had.append(writer)
        try:
            with suppressed():
                await reader.read(10)
                writer.write(answer)
                await writer.drain()
                if keeps:
                    await reader.read()
        finally:
            writer.close()

    path.unlink(missing_ok=True)
    server = await asyncio.start_unix_server(take, path)
    async with server:
        yield had
    for writer in had:
        writer.close()
    path.unlink(missing_ok=True)


async def test_a_kubelet_that_breaks_the_protocol_is_tried_as_the_table_says(tmp_path: Path) -> None:
    node, _ = make_node(tmp_path)
    tried = []
    async with node.agent(BARE):
        await node.wait(lambda: len(_left_behind(node)) == len(ALL), "the sockets")
        for answer in GARBAGE:
            for keeps in (False, True):
                async with _broken(node.kubelet.directory / KUBELET_SOCKET, answer, keeps) as had:
                    await node.wait(lambda: len(had) >= len(ALL), "each to try")
                    await asyncio.sleep(campaign(0, 10))
                tried.append(len(had))
        async with node.kubelet.running():
            await _wait_all(node)
    # Each new kubelet is tried once by each plugin at once; in ten seconds, two or three times more.
    assert max(tried) <= len(ALL) * campaign(2, 5), tried


def _leave_dead_socket(path: Path) -> None:
    """As a kubelet does that was killed."""
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(os.fspath(path))
        dead.listen()


def test_many_quick_restarts_of_the_kubelet(tmp_path: Path) -> None:
    node, _ = make_node(tmp_path)
    random_ = seeded(12)
    restarts = campaign(6, 50)

    async def restart() -> None:
        async with node.agent(BARE):
            for _ in range(restarts):
                async with node.kubelet.running():
                    await asyncio.sleep(random_.choice((0, 0.01, 0.05, 0.2)))
                if random_.random() < 0.5:
                    _leave_dead_socket(node.kubelet.directory / KUBELET_SOCKET)
                await asyncio.sleep(random_.choice((0, 0, 0.02)))
            calls = len(node.kubelet.registered)
            node.kubelet.registered.clear()
            async with node.kubelet.running():
                seconds = await _wait_all(node)
                for name in ("kvm", "tun"):
                    await node.kubelet.allocate(f"devices.kubevirt.io/{name}", f"{name}0")
                assert sorted(node.kubelet.registered) == sorted(ALL)
            print(f"{calls} calls in {restarts} restarts; at the end after {seconds:.2f} s")
            assert calls <= (restarts + 1) * len(ALL)

    turns = count_turns(restart())
    assert _left_behind(node) == []
    assert turns < campaign(10_000, 100_000)  # about 800
