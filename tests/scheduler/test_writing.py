"""Patience with a server, and writes that undo something."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dray.api.core.pod import ContainerExtendedResourceRequest, Pod
from dray.api.kinds import PODS, RESOURCE_CLAIMS
from dray.api.limits import CLAIM_FINALIZER
from dray.api.resource import ResourceClaim
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.client.requests import DeleteOptions
from dray.errors import ConflictError, UnavailableError
from dray.runtime.clock import FakeClock, SystemClock, settle
from dray.scheduler.claims import writes
from dray.scheduler.claims.writes import Verb, Write
from dray.scheduler.writing import ATTEMPTS, Patience, Writer
from tests.scheduler.live import NS, Live, live
from tests.scheduler.unreliable import Fault, Line, once, unreliable


@asynccontextmanager
async def behind(server: Live) -> AsyncIterator[tuple[Line, Writer]]:
    kubeconfig = server.directory / "line.kubeconfig"
    async with (
        unreliable(server.client.access, kubeconfig) as line,
        Client(find_access(kubeconfig, environ={})) as client,
    ):
        yield line, Writer(client, SystemClock())


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Live]:
    async with live(tmp_path) as found:
        yield found


def ending(name: str, uid: str = "") -> Write:
    return Write(Verb.DELETE, PODS, NS, name, f"end {name}", uid=uid)


async def test_patience_ends() -> None:
    clock = FakeClock()
    patience, waits = Patience(clock), 0

    async def wait_for_ever() -> None:
        nonlocal waits
        while True:
            await patience.wait(UnavailableError("away"))
            waits += 1

    async with asyncio.timeout(60):
        waiting = asyncio.ensure_future(wait_for_ever())
        while not waiting.done():
            await clock.advance(5)
    with pytest.raises(UnavailableError):
        waiting.result()
    assert waits == ATTEMPTS - 1


async def test_a_server_that_asks_for_time_gets_it() -> None:
    clock = FakeClock()
    waiting = asyncio.ensure_future(Patience(clock).wait(UnavailableError("busy", retry_after=30.0)))
    await clock.advance(29)
    assert not waiting.done()
    await clock.advance(2)
    await settle()
    assert waiting.done()


async def test_what_is_gone_need_not_be_undone(server: Live) -> None:
    await server.claim("c")
    claim = await server.get_claim("c")
    async with behind(server) as (line, writer):
        line.judge = once("DELETE", "pods/none", Fault.LOST)
        assert await writer.settle((ending("none"), writes.add_finalizer(claim))) == ""
    assert (await server.get_claim("c")).metadata.finalizers


async def test_a_refusal_ends_it(server: Live) -> None:
    await server.pod("p")
    async with behind(server) as (line, writer):
        found = await writer.settle((ending("p", uid="another"), ending("q")))
        assert found.startswith("end p: ")
        assert line.count("DELETE", "pods/q") == 0
    assert (await server.get_pod("p")).metadata.deletion_timestamp is None


async def test_a_deletion_is_meant_for_the_claim_as_it_was_left(server: Live) -> None:
    """Somebody else writes to it before it goes: then it stays."""
    await server.claim("c")
    claim = await server.client.patch(
        RESOURCE_CLAIMS, "c", {"metadata": {"finalizers": [CLAIM_FINALIZER]}}, namespace=NS
    )
    async with behind(server) as (line, writer):
        held = line.hold("DELETE", "resourceclaims/c")
        work = asyncio.ensure_future(writer.settle(writes.delete(claim)))
        await held.reached.wait()
        await server.client.patch(RESOURCE_CLAIMS, "c", {"metadata": {"labels": {"a": "b"}}}, namespace=NS)
        held.go.set()
        assert (await work).startswith("delete claim default/c: ")
        assert await writer.settle(writes.delete(await server.get_claim("c"))) == ""
    assert not (await server.client.list(RESOURCE_CLAIMS)).items


async def test_a_binding_may_be_for_this_very_version(server: Live) -> None:
    await server.node("n", 0)
    old = await server.pod("p")
    new = await server.client.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}}, namespace=NS)
    writer = Writer(server.client, SystemClock())
    with pytest.raises(ConflictError):
        await writer.bind(old, "n", is_exact=True)
    await writer.bind(new, "n", is_exact=True)


async def test_a_binding_whose_answer_was_lost_is_found(server: Live) -> None:
    await server.node("n", 0)
    await server.node("m", 0)
    pod = await server.pod("p")
    async with behind(server) as (line, writer):
        line.judge = once("POST", "pods/p/binding", Fault.UNANSWERED)
        await writer.bind(pod, "n")
        assert line.count("POST", "pods/p/binding") == 2
        with pytest.raises(ConflictError, match="already assigned"):
            await writer.bind(pod, "m")
    assert (await server.get_pod("p")).spec.node_name == "n"


async def test_a_refusal_after_a_lost_answer_is_not_believed(server: Live) -> None:
    """The first binding was stored, and the second is refused for another reason: the pod has its node all the same."""
    await server.node("n", 0)
    pod = await server.pod("p")
    faults = iter((Fault.UNANSWERED, Fault.UNAUTHORIZED))
    async with behind(server) as (line, writer):
        line.judge = lambda method, path: next(faults, None) if path.endswith("binding") else None
        await writer.bind(pod, "n")
        other = await server.pod("q")
        line.judge = lambda method, path: {"POST": Fault.LOST, "GET": Fault.UNAUTHORIZED}[method]
        writer = Writer(writer.client, FastClock())
        with pytest.raises(UnavailableError):
            await writer.bind(other, "n")


class FastClock(SystemClock):
    """Does not wait."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


async def test_a_claim_is_created_and_read(server: Live) -> None:
    made = await server.claim("c")
    writer = Writer(server.client, SystemClock())
    assert (await writer.read_claim(made)) == made
    changed = await writer.send_claim(writes.add_finalizer(made))
    assert changed.metadata.resource_version != made.metadata.resource_version
    with pytest.raises(ConflictError):
        await writer.send_claim(writes.add_finalizer(made))
    body = {"metadata": {"generateName": "g-", "namespace": NS}, "spec": {"devices": {}}}
    other = await writer.send_claim(Write(Verb.CREATE, RESOURCE_CLAIMS, NS, "", "create", body))
    assert other.metadata.name.startswith("g-")


EXTENDED = "example.com/r"
MAPPINGS = (ContainerExtendedResourceRequest(container_name="c", resource_name=EXTENDED, request_name="r"),)


async def extended_pod(server: Live, name: str) -> Pod:
    wanted = {"requests": {EXTENDED: "1"}, "limits": {EXTENDED: "1"}}
    return await server.pod(name, containers=[{"name": "c", "image": "i", "resources": wanted}])


async def test_the_special_claim_that_was_named_first_stays(server: Live) -> None:
    """Two schedulers at one pod: who comes second must not lead the pod to a claim that it takes back."""
    pod = await extended_pod(server, "p")
    first, second = await server.claim("first"), await server.claim("second")
    writer = Writer(server.client, SystemClock())

    async def tell(claim: ResourceClaim) -> str:
        return (await writer.tell(writes.tell_pod(pod, claim, MAPPINGS), pod, claim))[1]

    async def named() -> str | None:
        told = (await server.get_pod("p")).status.extended_resource_claim_status
        return told.resource_claim_name if told is not None else None

    assert await tell(first) == "" == await tell(first)  # the second time of an old version of the pod
    assert "claim first serves the pod already" in await tell(second)
    assert await named() == "first"
    await server.client.delete(RESOURCE_CLAIMS, "first", namespace=NS)
    assert await tell(second) == ""
    assert await named() == "second"
    await server.client.delete(PODS, "p", namespace=NS, options=DeleteOptions(grace_period=0))
    await extended_pod(server, "p")
    assert "deleted in the meantime" in await tell(second)


async def test_the_name_of_the_special_claim_gets_through(server: Live) -> None:
    for number, fault in enumerate(Fault):
        pod, claim = await extended_pod(server, f"p{number}"), await server.claim(f"c{number}")
        write = writes.tell_pod(pod, claim, MAPPINGS)
        async with behind(server) as (line, writer):
            line.judge = once("PATCH", f"pods/p{number}/status", fault)
            _, reason = await writer.tell(write, pod, claim)
        assert (reason == "") == (fault is not Fault.UNAUTHORIZED), reason
