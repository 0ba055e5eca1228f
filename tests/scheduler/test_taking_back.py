"""One scheduler binds a pod while another takes back its claim, in every order in which their writes may mix."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from dray.api.core import Pod
from dray.api.kinds import NODES, PODS, RESOURCE_CLAIMS
from dray.api.resource import ResourceClaim
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.client.requests import DeleteOptions
from dray.runtime.clock import SystemClock
from dray.scheduler.binding import Binder, Bindings
from dray.scheduler.claims import writes
from dray.scheduler.claims.tracking import Tracker
from dray.scheduler.cycle import Cycle
from dray.scheduler.decision import Placed
from dray.scheduler.nodes import Nodes
from dray.scheduler.taking_back import Taker
from dray.scheduler.writing import Writer
from tests.scheduler.live import CONFIG, NS, Live, live
from tests.scheduler.unreliable import Hold, Line, unreliable

ORDERS = sorted({"".join(one) for one in permutations("AABB")})
Take = Callable[[ResourceClaim, Pod], writes.Write]


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Live]:
    async with live(tmp_path) as found:
        await found.node("n", len(ORDERS))
        yield found


@asynccontextmanager
async def scheduler(server: Live, name: str) -> AsyncIterator[tuple[Line, Writer]]:
    kubeconfig = server.directory / f"{name}.kubeconfig"
    async with (
        unreliable(server.client.access, kubeconfig) as line,
        Client(find_access(kubeconfig, environ={})) as client,
    ):
        yield line, Writer(client, Quick())


class Quick(SystemClock):
    """Its pauses are short."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 20)


async def allocated(server: Live, name: str, device: str, *, is_reserved: bool) -> tuple[Pod, ResourceClaim]:
    """A pod without a node, whose claim has a device there from an earlier try."""
    pod = await server.both(name)
    user = {"resource": "pods", "name": name, "uid": pod.metadata.uid}
    result = {"request": "r", "driver": "d.example.com", "pool": "n", "device": device}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user] if is_reserved else []}
    claim = await server.client.patch(
        RESOURCE_CLAIMS, name, {"status": status}, namespace=NS, subresource="status"
    )
    return pod, claim


async def decided(server: Live, pod: Pod, claim: ResourceClaim) -> tuple[Placed, Cycle]:
    cycle = Cycle(Nodes(), Tracker(CONFIG.settings), CONFIG.settings)
    cycle.nodes.put_node(await server.client.get(NODES, "n"))
    cycle.tracker.set_claim(claim)
    placed = cycle.decide(pod, SystemClock().now())
    assert isinstance(placed, Placed)
    return placed, cycle


class Side:
    """One of the two, and where it is held up."""

    def __init__(self, work: Coroutine[Any, Any, str], holds: tuple[Hold, Hold]) -> None:
        self._work = work
        self._task: asyncio.Task[str] | None = None
        self._holds = list(holds)

    @property
    def task(self) -> asyncio.Task[str]:
        """It begins when it is asked for its first step."""
        if self._task is None:
            self._task = asyncio.ensure_future(self._work)
        return self._task

    async def step(self) -> None:
        """Its next write, if there is one, and all it does until the one after that."""
        await self._arrive()
        if self._holds:
            self._holds.pop(0).go.set()
            await self._arrive()

    async def _arrive(self) -> None:
        """At the next write or the end; a write that is not needed is passed over."""
        reached = [asyncio.ensure_future(one.reached.wait()) for one in self._holds]
        async with asyncio.timeout(60):
            await asyncio.wait([self.task, *reached], return_when=asyncio.FIRST_COMPLETED)
        for one in reached:
            one.cancel()
        while self._holds and not self._holds[0].reached.is_set():
            self._holds.pop(0).go.set()


@pytest.mark.parametrize("is_late", [True, False])
@pytest.mark.parametrize("is_reserved", [True, False])
@pytest.mark.parametrize(
    "take",
    [
        pytest.param(lambda claim, pod: writes.deallocate(claim), id="deallocate"),
        pytest.param(lambda claim, pod: writes.unreserve(claim, pod.metadata.uid), id="unreserve"),
    ],
)
async def test_no_order_leaves_a_bound_pod_without_its_devices(
    server: Live, take: Take, is_reserved: bool, is_late: bool
) -> None:
    """`is_late`: who takes back looks at the claim when its turn comes, else before all else."""
    bound: dict[str, bool] = {}
    async with scheduler(server, "a") as (line_a, a), scheduler(server, "b") as (line_b, b):
        for number, order in enumerate(ORDERS):
            name = f"p{number}"
            pod, claim = await allocated(server, name, f"g{number}", is_reserved=is_reserved)
            placed, cycle = await decided(server, pod, claim)
            binder = Binder(a, cycle.tracker, CONFIG.settings, Bindings(1), lambda placed: "")

            async def take_back(pod: Pod = pod, claim: ResourceClaim = claim) -> str:
                seen = await server.get_claim(pod.metadata.name) if is_late else claim
                return await Taker(b).take(pod, (take(seen, pod),))

            reserve = f"resourceclaims/{name}" if is_reserved else f"resourceclaims/{name}/status"
            sides = {
                "A": Side(
                    binder.bind(placed),
                    (line_a.hold("PATCH", reserve), line_a.hold("POST", f"pods/{name}/binding")),
                ),
                "B": Side(
                    take_back(),
                    (
                        line_b.hold("PATCH", f"pods/{name}/status"),
                        line_b.hold("PATCH", f"resourceclaims/{name}/status"),
                    ),
                ),
            }
            for side in order:
                await sides[side].step()
            reason, _ = await sides["A"].task, await sides["B"].task
            found, node = (await server.get_claim(name)).status, (await server.get_pod(name)).spec.node_name
            assert (node == "n") == (reason == "")
            bound[order] = bool(node)
            if node:
                assert found.allocation is not None, order
                assert [one.uid for one in found.reserved_for] == [pod.metadata.uid], order
    assert bound["AABB"]


async def test_what_was_taken_back_first_is_not_bound(server: Live) -> None:
    pod, claim = await allocated(server, "p", "g0", is_reserved=True)
    placed, cycle = await decided(server, pod, claim)
    writer = Writer(server.client, Quick())
    assert await Taker(writer).take(pod, (writes.deallocate(claim),)) == ""
    binder = Binder(writer, cycle.tracker, CONFIG.settings, Bindings(1), lambda placed: "")
    assert "got other devices in the meantime" in await binder.bind(placed)
    assert (await server.where())["p"] == ""


async def test_others_come_and_go_meanwhile(server: Live) -> None:
    """The claim is another one by now, but still has this user."""
    pod, claim = await allocated(server, "p", "g0", is_reserved=True)
    other = {"resource": "pods", "name": "q", "uid": "q"}
    users = {"status": {"reservedFor": [other, {"resource": "pods", "name": "p", "uid": pod.metadata.uid}]}}
    await server.client.patch(RESOURCE_CLAIMS, "p", users, namespace=NS, subresource="status")
    taker = Taker(Writer(server.client, Quick()))
    write = writes.unreserve(claim, pod.metadata.uid)
    assert await taker.take(pod, (write,)) == "" == await taker.take(pod, (write,))
    assert [one.uid for one in (await server.get_claim("p")).status.reserved_for] == ["q"]


async def test_a_pod_that_is_bound_or_gone_keeps_its_claim(server: Live) -> None:
    pod, claim = await allocated(server, "p", "g0", is_reserved=True)
    special = await server.claim("special")
    taker = Taker(Writer(server.client, Quick()))
    await server.bind("p", "n")
    all_writes = (writes.unreserve(claim, pod.metadata.uid), *writes.delete(special))
    assert await taker.take(pod, all_writes) == ""
    assert [one.metadata.name for one in (await server.client.list(RESOURCE_CLAIMS)).items] == ["p"]
    await server.client.delete(PODS, "p", namespace=NS, options=DeleteOptions(grace_period=0))
    assert await taker.take(pod, all_writes) == ""
    await server.pod("p")
    assert await taker.take(pod, all_writes) == ""
    assert await server.get_claim("p") == claim


async def test_nothing_is_taken_that_is_not_wanted_any_more(server: Live) -> None:
    pod, claim = await allocated(server, "p", "g0", is_reserved=True)
    taker = Taker(Writer(server.client, Quick()))
    assert "anew" in await taker.take(pod, (writes.deallocate(claim),), is_wanted=lambda: False)
    assert await server.get_claim("p") == claim
