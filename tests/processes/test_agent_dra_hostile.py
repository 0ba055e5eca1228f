"""Hostile input to the running driver: refused per claim, nothing is written elsewhere, and the agent goes on."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from dray.api.kinds import NODES, RESOURCE_CLAIMS
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.dra.parcels import ClaimRef
from dray.dra.serve import MOST_CLAIMS
from dray.errors import Error
from dray.runtime.clock import SystemClock
from dray.testing.check.api_server import served
from dray.wire.connect import connect
from dray.wire.gen.dra_health_v1_pb2 import NodeWatchResourcesRequest
from dray.wire.health import HealthClient
from dray.wire.sockets import dial
from tests.campaign import campaign, seeded
from tests.processes.agent_server import AgentServer
from tests.processes.dra_machine import FAST, REQUEST, SIM, Answer, DraMachine, agents_in
from tests.processes.dra_program import LOG, NODE
from tests.processes.kubelet_server import Server
from tests.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
Json = dict[str, Any]


class Hostile:
    """A node whose API server takes anything."""

    def __init__(self, machine: DraMachine, server: Server) -> None:
        self.machine, self.server = machine, server
        self.outside = machine.root / "outside"
        (self.outside / "directory").mkdir(parents=True)
        (self.outside / "file").write_text("not ours\n")

    async def claim(
        self, name: str, device: str = "gpu-0", config: Any = (), *, uid: str = "", **more: Any
    ) -> ClaimRef:
        """Allocated as it says, whatever it says."""
        result = {"request": REQUEST, "driver": SIM, "pool": NODE, "device": device, **more}
        meta = {"name": name, "namespace": "default", "uid": uid or str(uuid.uuid4())}
        allocation = {"devices": {"results": [result], "config": list(config)}}
        await self.server.put(RESOURCE_CLAIMS, {"metadata": meta, "status": {"allocation": allocation}})
        return ClaimRef("default", name, meta["uid"])

    async def refused(self, ref: ClaimRef, because: str) -> None:
        """Beside a good claim, which is prepared."""
        good = await self.claim("good", "gpu-3", uid="good")
        answers = await self.machine.prepare(ref, good)
        assert because in answers[ref.uid].error, (ref, answers[ref.uid])
        assert "\n" not in answers[ref.uid].error and len(answers[ref.uid].error) <= 2000
        assert not answers[good.uid].error, answers[good.uid]
        assert await self.machine.unprepare(good) == {good.uid: ""}

    async def works(self) -> None:
        """The agent is the same one, and serves."""
        assert self.machine.pid and Path(f"/proc/{self.machine.pid}").exists()
        ref = await self.claim("works", "gpu-2")
        answer = (await self.machine.prepare(ref))[ref.uid]
        assert not answer.error and set(answer.cdi_ids) <= self.machine.cdi_names()
        assert await self.machine.unprepare(ref) == {ref.uid: ""}
        await self.server.delete(RESOURCE_CLAIMS, ref.name)

    async def delete_claims(self) -> None:
        for kind, _, name in list(self.server.objects):
            if kind == RESOURCE_CLAIMS.plural:
                await self.server.delete(RESOURCE_CLAIMS, name)

    def tree(self) -> dict[str, tuple[int, bytes]]:
        """What is outside our directories."""
        return tree(self.outside)


def tree(root: Path) -> dict[str, tuple[int, bytes]]:
    found = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        found[str(path)] = mode, path.read_bytes() if stat.S_ISREG(mode) else b""
    return found


@asynccontextmanager
async def hostile_node(root: Path) -> AsyncIterator[Hostile]:
    """No agent runs yet."""
    server = Server(SystemClock())
    root.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(served(server, root / "kubeconfig"))
        client = await stack.enter_async_context(Client(find_access(root / "kubeconfig")))
        await server.add(NODES, {"metadata": {"name": NODE}})
        machine = await stack.enter_async_context(agents_in(root, AgentServer(client)))
        await stack.enter_async_context(machine.kubelet.running())
        yield Hostile(machine, server)
        if machine.pid:
            await machine.kill()  # who still watches notices that nobody listens
        await server.add(NODES, {"metadata": {"name": "last"}})


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def one_agent(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hostile]:
    async with hostile_node(tmp_path_factory.mktemp("hostile")) as found:
        await found.machine.start(FAST)
        await found.machine.wait_served()
        yield found
        assert "Traceback" not in found.machine.log()


@pytest_asyncio.fixture(loop_scope="module")
async def node(one_agent: Hostile) -> AsyncIterator[Hostile]:
    """The same agent for all tests: each leaves it at work, and nothing behind."""
    before, pid = one_agent.tree(), one_agent.machine.pid
    yield one_agent
    await one_agent.works()
    await one_agent.delete_claims()
    await one_agent.machine.wait_clean()
    assert one_agent.tree() == before and one_agent.machine.pid == pid


def opaque(parameters: Any, **more: Any) -> list[Json]:
    return [{"source": "FromClaim", "opaque": {"driver": SIM, "parameters": parameters}, **more}]


def known(**fields: Any) -> Json:
    return {"apiVersion": f"{SIM}/v1", "kind": "SimConfig", **fields}


def deep(levels: int) -> Any:
    found: Any = {}
    for _ in range(levels):
        found = {"a": found}
    return found


TRICKS = (
    "../../../outside/x",
    "/outside",
    "..",
    ".",
    "gpu-0/../gpu-1",
    "gpu-0\n",
    "gpu\0",
    "",
    "x" * 5000,
    "gpü",
)


async def test_claims_that_are_not_what_they_should_be(node: Hostile) -> None:
    parameters: list[tuple[Any, str]] = [
        ("x" * 100_000, "must be a JSON object"),
        (known(env={"A": "x" * 20_000}), "more than the limit"),
        ([1, 2], "must be a JSON object"),
        (None, "must be a JSON object"),
        (deep(400), ""),
        ({"kind": "SimConfig"}, "apiVersion"),
        (known(nothing=1), "nothing"),
        (known(env={"../A": "1"}), "env"),
        (known(env={"PATH\0": "1"}), "env"),
        (known(env={"DRA_X": "1"}), "env"),
        (known(env={"A": "1\nB=2"}), "env"),
        (known(prepareSeconds=1e308), "prepareSeconds"),
        (known(prepareSeconds="soon"), "prepareSeconds"),
        (known(mode=["a"]), "mode"),
    ]
    for number, (values, because) in enumerate(parameters):
        ref = await node.claim(f"bad-{number}", config=opaque(values))
        await node.refused(ref, because or "claim default/bad")
    many = await node.claim("many", config=opaque(known()) * 1000)
    await node.refused(many, "configurations")
    for number, device in enumerate(TRICKS):
        await node.refused(await node.claim(f"device-{number}", device), "device")
    for number, name in enumerate(("../r", "a/b/c", "", "r" * 500)):
        await node.refused(await node.claim(f"request-{number}", request=name), "request")
    await node.refused(await node.claim("pool", pool="node-2"), "pool 'node-2' is not ours")
    await node.refused(await node.claim("driver", driver="gpu.other.io"), f"no device of {SIM}")
    await node.refused(await node.claim("share", shareID="../x"), "share")
    await node.refused(await node.claim("gone", "gpu-99"), "is not on this node")
    await node.refused(ClaimRef("default", "never", str(uuid.uuid4())), "does not exist")


async def test_names_with_path_tricks(node: Hostile) -> None:
    for trick in TRICKS:
        if "\0" not in trick:
            await node.refused(ClaimRef("default", "a", trick), "UID")
        await node.refused(ClaimRef(trick, "a", "uid-1"), "namespace")
        await node.refused(ClaimRef("default", trick, "uid-2"), "name")
        answers = await node.machine.unprepare(
            ClaimRef(trick, trick, "uid-3"), ClaimRef("default", "a", trick)
        )
        assert all(answers.values()), answers
    one = await node.claim("one", "gpu-0", uid="same")
    both = await node.machine.prepare(one, ClaimRef("default", "two", "same"))
    assert "two claims" in both["same"].error


async def test_another_allocation_under_the_same_uid(node: Hostile) -> None:
    ref = await node.claim("moved", "gpu-0", uid="moved")
    first = await node.machine.prepare(ref)
    await node.claim("moved", "gpu-1", uid="moved")
    await node.refused(ref, "is prepared with other devices")
    other = await node.claim("other", "gpu-0")
    await node.refused(other, "is prepared for claim default/moved")
    assert await node.machine.unprepare(ref) == {ref.uid: ""}
    again = await node.machine.prepare(ref)
    assert [one[0] for one in again[ref.uid].devices] == ["gpu-1"] and first != again
    replaced = await node.claim("moved", "gpu-1", uid="successor")
    await node.refused(ref, "was replaced")
    assert await node.machine.unprepare(ref, replaced) == {ref.uid: "", replaced.uid: ""}


async def test_thousands_of_claims_at_once(node: Hostile) -> None:
    good = await node.claim("good", "gpu-3")
    strangers = [
        ClaimRef("default", f"never-{number}", f"uid-{number}") for number in range(campaign(800, 5000))
    ]
    answers = await node.machine.prepare(*strangers, good)
    assert len(answers) == len(strangers) + 1 and not answers[good.uid].error
    assert all("does not exist" in answers[ref.uid].error for ref in strangers)
    pending = {ref.uid: ref for ref in (*strangers, good)}
    while (
        pending
    ):  # as a kubelet does: on a busy machine they may not all be done in the time that a call has
        told = await node.machine.unprepare(*pending.values())
        assert told.keys() == pending.keys()
        pending = {uid: ref for uid, ref in pending.items() if told[uid]}
        assert all("the kubelet asks again" in told[uid] for uid in pending)
    with pytest.raises(Error, match="claims in one call"):
        await node.machine.prepare(
            *(ClaimRef("default", "a", f"uid-{number}") for number in range(MOST_CLAIMS + 1))
        )


async def test_garbage_on_the_sockets(node: Hostile) -> None:
    dice = seeded(6003)
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    registration = node.machine.root / f"kubelet/plugins_registry/{SIM}-reg.sock"
    async with AsyncExitStack() as stack:
        for path in (node.machine.data_dir / "dra.sock", registration):
            for number in range(60):
                connection = stack.enter_context(await dial(path))
                head = preface if number % 2 else b""
                with contextlib.suppress(OSError):
                    connection.send(head + dice.randbytes(dice.choice((0, 1, 9, 500, 60_000))))
        await node.works()
    assert await node.machine.register()


async def test_slow_readers_of_health(node: Hostile) -> None:
    """Nobody waits for those who do not read: not others who watch, and no claim."""
    path = node.machine.data_dir / "dra.sock"
    async with AsyncExitStack() as stack:
        for _ in range(30):
            channel = await stack.enter_async_context(connect(path))
            stream = HealthClient(channel).node_watch_resources(NodeWatchResourcesRequest())
            await stack.enter_async_context(stream)
        channel = await stack.enter_async_context(connect(path))
        answers = await stack.enter_async_context(
            HealthClient(channel).node_watch_resources(NodeWatchResourcesRequest())
        )

        async def is_told(devices: int) -> bool:
            answer = await anext(answers)
            assert {one.device.pool_name for one in answer.devices} == {NODE}
            return sum(one.device.device_name.startswith("extra-") for one in answer.devices) == devices

        for extra in (260, 1, 130, 1):
            node.machine.configure(extra=extra)
            await until(partial(is_told, extra))
        await node.works()


METADATA = f"{SIM}_metadata"
"""In the CDI directory; the others are in the data directory."""
PLANTED: dict[str, Callable[[Hostile, Path], None]] = {
    "link to a file": lambda node, path: path.symlink_to(node.outside / "file"),
    "link to a directory": lambda node, path: path.symlink_to(node.outside / "directory"),
    "link to nothing": lambda node, path: path.symlink_to(node.outside / "new"),
    "pipe": lambda _, path: os.mkfifo(path),
    "directory": lambda _, path: path.mkdir(),
    "full directory": lambda _, path: (path / "below").mkdir(parents=True),
}


async def test_what_is_planted_in_the_way_of_a_claims_files(node: Hostile) -> None:
    cdi = node.machine.root / "cdi"
    await node.works()  # the directories are there
    for number, (what, plant) in enumerate(PLANTED.items()):
        uid = f"planted-{number}"
        main = f"k8s.{SIM}-claim_{uid}.yaml"
        other = f"{SIM}_metadata_{uid}_{REQUEST}.json"
        below = f"{uid}_{REQUEST}.json"
        ways = [(cdi, main), (cdi, other), (cdi / METADATA, below)]
        for place in (
            path / f"{dot}{name}{end}" for path, name in ways for dot, end in (("", ""), (".", ".tmp"))
        ):
            plant(node, place)
            ref = await node.claim(uid, "gpu-0", uid=uid)
            answer = (await node.machine.prepare(ref))[uid]
            if not answer.error:
                assert set(answer.cdi_ids) <= node.machine.cdi_names(), (what, place.name)
            assert set(await node.machine.unprepare(ref)) == {uid}
            await node.server.delete(RESOURCE_CLAIMS, uid)
            remove(place)
            assert (await node.machine.unprepare(ref)) == {uid: ""}, (what, place.name)


async def test_a_cdi_directory_that_is_a_link(node: Hostile) -> None:
    await node.works()
    cdi = node.machine.root / "cdi"
    cdi.rename(node.machine.root / "moved")
    cdi.symlink_to(node.outside / "directory")
    ref = await node.claim("a", "gpu-0")
    answer = (await node.machine.prepare(ref))[ref.uid]
    assert "link" in answer.error and str(cdi) in answer.error, answer
    cdi.unlink()
    assert not (await node.machine.prepare(ref))[ref.uid].error
    assert await node.machine.unprepare(ref) == {ref.uid: ""}


async def test_what_is_planted_in_our_directories(tmp_path: Path) -> None:
    """Nothing is written through a link. Claims are refused, or served all the same; once it is removed they are served."""
    ours = ("prepared-claims", "prepared-claims.turn", "prepared-claims.recent", "locks", METADATA)
    names = ("", *ours, ".prepared-claims.tmp", ".prepared-claims.recent.tmp", "dra.sock")
    cases = [(name, what) for name in names for what in PLANTED]
    async with hostile_node(tmp_path) as node:
        before = node.tree()
        for name, what in seeded(6004).sample(cases, campaign(5, len(cases))):
            await _planted(node, name, what)
            assert node.tree() == before, (name, what)
        assert "Traceback" not in node.machine.log()


async def _planted(node: Hostile, name: str, what: str) -> None:
    machine = node.machine
    remove(machine.data_dir)
    (machine.data_dir if name else machine.data_dir.parent).mkdir(parents=True, exist_ok=True)
    place = machine.root / "cdi" / name if name == METADATA else machine.data_dir / name
    place.parent.mkdir(exist_ok=True)
    remove(place)
    PLANTED[what](node, place)
    (machine.root / LOG).unlink(missing_ok=True)
    await machine.start(FAST)
    ref = await node.claim("a", "gpu-0")
    answers: list[Answer] = []

    async def is_answered() -> bool:
        """By the driver, or by the log that says why there is none."""
        with contextlib.suppress(Error):
            answers.append((await machine.prepare(ref))[ref.uid])
        return bool(answers) or "does not serve" in machine.log() or "cannot serve" in machine.log()

    async def is_prepared() -> bool:
        await is_answered()
        return bool(answers) and not answers[-1].error

    await machine.wait(is_answered, f"an answer or a reason, where {name or 'the directory'} is a {what}")
    if not await is_prepared():
        remove(place)
        await machine.wait(is_prepared, f"the claim to be prepared after {name} was a {what}")
    assert await machine.unprepare(ref) == {ref.uid: ""}
    await machine.kill()


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
