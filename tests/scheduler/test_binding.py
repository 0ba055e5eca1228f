"""Decisions that meet trouble on their way to the server: each ends with the pod bound, and no device twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from dray.api.kinds import NODES, PODS, RESOURCE_CLAIMS
from dray.client.requests import DeleteOptions
from dray.runtime.clock import SystemClock
from dray.scheduler.binding import Binder, Bindings
from dray.scheduler.claims.tracking import Tracker
from dray.scheduler.cycle import Cycle
from dray.scheduler.decision import Placed
from dray.scheduler.nodes import Nodes
from dray.scheduler.writing import Writer
from tests.campaign import campaign
from tests.scheduler.live import CONFIG, NS, Live, behind, live
from tests.scheduler.unreliable import Fault, Line, once
from tests.waiting import until


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Live]:
    async with live(tmp_path) as found:
        yield found


class Held:
    """A judge that sends the first request of a kind away, so that the test can do something before it comes again."""

    def __init__(self, line: Line, method: str, ending: str) -> None:
        self.reached = asyncio.Event()
        self._seen = False
        self._kind = method, ending
        line.judge = self._judge

    def _judge(self, method: str, path: str) -> Fault | None:
        if not self._seen and method == self._kind[0] and path.endswith(self._kind[1]):
            self._seen = True
            self.reached.set()
            return Fault.OVERLOADED
        return None


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize(
    ("method", "ending"),
    [("PATCH", "resourceclaims/p"), ("PUT", "resourceclaims/p/status"), ("POST", "pods/p/binding")],
)
async def test_each_write_may_fail(server: Live, method: str, ending: str, fault: Fault) -> None:
    await server.node("n", 1)
    async with behind(server) as line:
        line.judge = once(method, ending, fault)
        pod = await server.both("p")
        await server.wait_bound("p")
    claim = await server.get_claim("p")
    assert [one.uid for one in claim.status.reserved_for] == [pod.metadata.uid]
    assert await server.held() == {"p": ["n/g0"]}


async def test_a_server_that_is_away_for_long(server: Live) -> None:
    """Longer than one try lasts: the pod is tried again, and its claim keeps the device it may have got."""
    await server.node("n", 2)
    async with behind(server) as line:
        line.judge = lambda method, path: (
            Fault.UNAUTHORIZED if method != "GET" and "events" not in path else None
        )
        await server.both("p")

        async def is_tried_again() -> bool:
            return line.count("PATCH", "resourceclaims/p") > 1

        await until(is_tried_again)
        assert (await server.where())["p"] == ""
        line.judge = lambda method, path: None
        await server.wait_bound("p")
    assert len(await server.held()) == 1


async def test_an_allocation_that_got_lost_for_good(server: Live) -> None:
    """No write gets through for longer than one try lasts. Then the claim is looked at, and its device is free again."""
    await server.node("n", 1)
    async with behind(server, clock=Hurried()) as line:
        line.judge = lambda method, path: Fault.LOST if path.endswith("resourceclaims/p/status") else None
        await server.both("p")

        async def is_given_up() -> bool:
            return "add allocation and reservation" in await server.message("p")

        await until(is_given_up)
        line.judge = lambda method, path: None
        await server.wait_bound("p")
    assert await server.held() == {"p": ["n/g0"]}


class Hurried(SystemClock):
    """Sleeps for a hundredth of the time."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0.0) / 100)


async def test_a_reservation_that_is_no_more(server: Live) -> None:
    """What is known of the claim is old: it had the pod as a user then. It is looked at before the pod is bound."""
    await server.node("n", 1)
    pod = await server.both("p")
    user = {"resource": "pods", "name": "p", "uid": pod.metadata.uid}
    result = {"request": "r", "driver": "d.example.com", "pool": "n", "device": "g0"}
    held = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
    cycle = Cycle(Nodes(), Tracker(CONFIG.settings), CONFIG.settings)
    cycle.nodes.put_node(await server.client.get(NODES, "n"))
    cycle.tracker.set_claim(
        await server.client.patch(RESOURCE_CLAIMS, "p", {"status": held}, namespace=NS, subresource="status")
    )
    placed = cycle.decide(pod, SystemClock().now())
    assert isinstance(placed, Placed)
    await server.client.patch(
        RESOURCE_CLAIMS, "p", {"status": {"reservedFor": None}}, namespace=NS, subresource="status"
    )
    writer = Writer(server.client, SystemClock())
    binder = Binder(writer, cycle.tracker, CONFIG.settings, Bindings(1), lambda placed: "")
    assert await binder.bind(placed) == ""
    users = (await server.get_claim("p")).status.reserved_for
    assert [one.uid for one in users] == [pod.metadata.uid]
    await server.end("p")
    assert "got other devices in the meantime" in await binder.bind(placed)


async def test_the_pod_is_deleted_meanwhile(server: Live) -> None:
    """Its reservation stays: that is how a claim controller sees that nobody needs the claim."""
    await server.node("n", 1)
    async with behind(server) as line:
        held = Held(line, "PUT", "resourceclaims/p/status")
        pod = await server.both("p")
        await held.reached.wait()
        await server.client.delete(PODS, "p", namespace=NS, options=DeleteOptions(grace_period=0))
        await until(lambda: is_reserved(server, "p", pod.metadata.uid))
        await server.pod("r")
        await server.wait_bound("r")
        assert await is_reserved(server, "p", pod.metadata.uid)
        await server.end("p")
        await server.both("q")
        await server.wait_bound("q")
    assert line.count("POST", "pods/p/binding") == 0


async def is_reserved(server: Live, name: str, *uids: str) -> bool:
    claim = await server.get_claim(name)
    users = sorted(one.uid for one in claim.status.reserved_for)
    return claim.status.allocation is not None and users == sorted(uids)


async def test_the_pod_is_bound_by_somebody_else_meanwhile(server: Live) -> None:
    """Who bound it may rely on the claim as it is by then, so it keeps its user."""
    await server.node("n", 1, has={"cpu": "1"})
    await server.node("m", 0, has={"cpu": "1"})
    async with behind(server) as line:
        held = Held(line, "PUT", "resourceclaims/p/status")
        pod = await server.both("p", cpu="1")
        await held.reached.wait()
        await server.bind("p", "m")
        await until(lambda: is_reserved(server, "p", pod.metadata.uid))
        await server.pod("q", cpu="1")  # m is taken, and n is not
        assert (await server.wait_bound("q")) == {"p": "m", "q": "n"}
        assert await is_reserved(server, "p", pod.metadata.uid)


async def test_the_node_is_gone_meanwhile(server: Live) -> None:
    await server.node("n", 1)
    async with behind(server) as line:
        held = Held(line, "PUT", "resourceclaims/p/status")
        await server.both("p")
        await held.reached.wait()
        await server.client.delete(NODES, "n")
        await server.node("m", 1)
        assert (await server.wait_bound("p"))["p"] == "m"
    assert await server.held() == {"p": ["m/g0"]}


async def test_the_claim_is_deleted_meanwhile(server: Live) -> None:
    await server.node("n", 1)
    async with behind(server) as line:
        held = Held(line, "PATCH", "resourceclaims/p")
        await server.both("p")
        await held.reached.wait()
        await server.client.delete(RESOURCE_CLAIMS, "p", namespace=NS)
        await server.pod("r")
        await server.wait_bound("r")
        assert (await server.where())["p"] == ""
        await server.claim("p")
        await server.wait_bound("p")


async def test_somebody_writes_to_the_claim_meanwhile(server: Live) -> None:
    """A conflict: the claim is read again, and what was decided still holds."""
    await server.node("n", 1)
    async with behind(server) as line:
        held = Held(line, "PUT", "resourceclaims/p/status")
        await server.both("p")
        await held.reached.wait()
        await server.client.patch(RESOURCE_CLAIMS, "p", {"metadata": {"labels": {"a": "b"}}}, namespace=NS)
        await server.wait_bound("p")


async def test_another_claim_takes_the_device_meanwhile(server: Live) -> None:
    await server.node("n", 2)
    await server.claim("other")
    async with behind(server) as line:
        held = Held(line, "PUT", "resourceclaims/p/status")
        await server.both("p")
        await held.reached.wait()
        result = {"request": "r", "driver": "d.example.com", "pool": "n", "device": "g0"}
        change = {"status": {"allocation": {"devices": {"results": [result]}}}}
        await server.client.patch(RESOURCE_CLAIMS, "other", change, namespace=NS, subresource="status")
        await server.wait_bound("p")
    assert await server.held() == {"other": ["n/g0"], "p": ["n/g1"]}


async def test_devices_of_no_use_are_given_back(server: Live) -> None:
    """The pod lacks a device for its second claim on all nodes; what the first one got in an earlier try is for others."""
    await server.node("n", 1)
    await server.claim("one")
    await server.claim("two")
    result = {"request": "r", "driver": "d.example.com", "pool": "n", "device": "g0"}
    change = {"status": {"allocation": {"devices": {"results": [result]}}}}
    await server.client.patch(RESOURCE_CLAIMS, "one", change, namespace=NS, subresource="status")
    async with behind(server):
        await server.pod("p", "one", "two")
        await server.wait_message("p", "cannot allocate all claims")
        await server.both("q")
        await server.wait_bound("q")
    assert await server.held() == {"q": ["n/g0"]}


async def test_another_claim_takes_the_share_meanwhile(server: Live) -> None:
    """The server refuses more than a device has, as it refuses a device that is taken: other devices are tried."""
    await server.node("n", 0)
    await server.slice("n", 2, allowMultipleAllocations=True, capacity={"memory": {"value": "10"}})
    for name in ("p", "other"):
        exactly = {"deviceClassName": "c", "capacity": {"requests": {"memory": "6"}}}
        spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        await server.client.create(
            RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": NS}, "spec": spec}
        )
    async with behind(server) as line:
        held = line.hold("PUT", "resourceclaims/p/status")
        await server.pod("p", "p")
        await held.reached.wait()
        share = {"shareID": "d9340f07-355c-4ef6-970f-c828d1ec1a34", "consumedCapacity": {"memory": "6"}}
        result = {"request": "r", "driver": "d.example.com", "pool": "n", "device": "g0", **share}
        change = {"status": {"allocation": {"devices": {"results": [result]}}}}
        await server.client.patch(RESOURCE_CLAIMS, "other", change, namespace=NS, subresource="status")
        held.go.set()
        await server.wait_bound("p")
    assert await server.held() == {"other": ["n/g0"], "p": ["n/g1"]}


async def test_watches_are_cut(server: Live) -> None:
    await server.node("n", 4)
    async with behind(server) as line:
        for number in range(4):
            line.cut_watches()
            await server.both(f"p{number}")
        await server.wait_bound(*(f"p{number}" for number in range(4)))
    assert await server.devices() == ["n/g0", "n/g1", "n/g2", "n/g3"]


async def test_a_special_claim_without_an_answer(server: Live) -> None:
    """It was stored, though nobody was told: the next try finds it, removes it and makes its own."""
    await server.device_class("gpus", extendedResourceName="example.com/gpu")
    await server.node("n", 1)
    resources = {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}
    async with behind(server) as line:
        line.judge = once("POST", "resourceclaims", Fault.UNANSWERED)
        await server.pod("p", containers=[{"name": "c", "image": "i", "resources": resources}])
        await server.wait_bound("p")
    assert len(await server.held()) == len((await server.client.list(RESOURCE_CLAIMS)).items) == 1


async def test_many_pods_through_a_bad_line(server: Live) -> None:
    """Each write fails now and then, in each of the ways; watches break. In the end all is as if nothing had been."""
    count = campaign(12, 200)
    for number in range(4):
        await server.node(f"n{number}", count // 4)
    faults = list(Fault)
    asked = 0

    def judge(method: str, path: str) -> Fault | None:
        nonlocal asked
        if method == "GET":
            return None
        asked += 1
        return faults[asked // 5 % len(faults)] if asked % 5 == 0 else None

    names = [f"p{number}" for number in range(count)]
    async with behind(server, replace(CONFIG, in_flight=8)) as line:
        line.judge = judge
        for name in names:
            await server.both(name)
        line.cut_watches()
        async with asyncio.timeout(campaign(60, 300)):
            await server.wait_bound(*names)
    held, where = await server.held(), await server.where()
    devices = await server.devices()
    assert len(devices) == len(set(devices)) == count
    for name in names:
        assert held[name][0].startswith(f"{where[name]}/")
        users = (await server.get_claim(name)).status.reserved_for
        assert [one.name for one in users] == [name]
