"""Informers, apply patches, preconditions, credential plugins and leader election against the real API server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dray.api.core import ConfigMap
from dray.api.kinds import CONFIG_MAPS, LEASES, NAMESPACES, RESOURCE_CLAIMS, Resource
from dray.api.meta import ObjectMeta
from dray.client.access import ExecPlugin, User
from dray.client.assume import AssumeCache
from dray.client.client import Client
from dray.client.informers import Informers
from dray.client.kubeconfig import find_access
from dray.client.leader import LeaderConfig, LeaderElection
from dray.client.lease import LeaseTimes
from dray.client.requests import PatchType, Preconditions, Selection
from dray.client.retry import ConflictPolicy, retry_on_conflict
from dray.errors import ConflictError, DeniedError, NotFoundError
from dray.runtime.clock import FakeClock
from dray.testing.kubernetes.control_plane import ControlPlane
from tests.waiting import PATIENCE, wait_until

NS = "dray-client-more"
V1 = "client.authentication.k8s.io/v1"
TIMES = LeaseTimes(lease=3, renew=2, retry=0.3)
STEP = 0.1
"""Seconds, by a clock that is turned."""


@pytest.fixture
async def client(apiserver: ControlPlane) -> AsyncIterator[Client]:
    async with Client(find_access(apiserver.kubeconfig, environ={})) as entered:
        with contextlib.suppress(ConflictError):
            await entered.create(NAMESPACES, {"metadata": {"name": NS}})
        yield entered
        kinds: tuple[Resource[Any], ...] = (CONFIG_MAPS, LEASES)
        for resource in kinds:
            for item in (await entered.list(resource, Selection(NS))).items:
                await entered.delete(resource, item.metadata.name, namespace=NS)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": NS, "labels": {"of": NS}}, "data": data}


async def test_informer_index_and_assume_cache(client: Client) -> None:
    def app(item: ConfigMap) -> list[str]:
        return [item.data["app"]] if "app" in item.data else []

    await client.create(CONFIG_MAPS, config_map("a", app="x"))
    informers = Informers(client)
    # A controller manager puts a ConfigMap of its own into every namespace.
    maps = informers.of(CONFIG_MAPS, Selection(NS, labels=f"of={NS}"), indexers={"app": app})
    informers.of(RESOURCE_CLAIMS, Selection(NS))
    cache = AssumeCache(maps, indexers={"app": app})
    told = list[str]()
    cache.on_change(lambda change: told.append(f"{type(change).__name__} {change.key[1]}"))
    async with asyncio.timeout(PATIENCE), informers:
        assert [item.metadata.name for item in maps.indexed("app", "x")] == ["a"]
        generation = maps.generation
        written = await client.patch(CONFIG_MAPS, "a", {"data": {"app": "y"}}, namespace=NS)
        cache.assume(written)
        assert [len(cache.indexed("app", value)) for value in "xy"] == [0, 1]
        await maps.wait_changed(generation)
        assert [len(maps.indexed("app", value)) for value in "xy"] == [0, 1]
        await client.create(CONFIG_MAPS, config_map("b", app="y"))
        await maps.wait_changed(generation + 1)
        assert [item.metadata.name for item in cache.indexed("app", "y")] == ["a", "b"]
        await client.delete(CONFIG_MAPS, "a", namespace=NS)
        await maps.wait_changed(generation + 2)
        assert [item.metadata.name for item in cache.indexed("app", "y")] == ["b"]
    assert told == ["Added a", "Modified a", "Added b", "Deleted a"]


async def test_apply(client: Client) -> None:
    made = await client.apply(CONFIG_MAPS, config_map("s", a="1", b="2"), manager="one")
    assert made.data == {"a": "1", "b": "2"}
    with pytest.raises(ConflictError, match="conflict"):
        await client.apply(CONFIG_MAPS, config_map("s", a="other"), manager="two")
    taken = await client.apply(CONFIG_MAPS, config_map("s", a="other"), manager="two", force=True)
    assert taken.data == {"a": "other", "b": "2"}
    left = await client.apply(CONFIG_MAPS, config_map("s"), manager="one")
    assert left.data == {"a": "other"}
    typed = await client.apply(
        CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name="t", namespace=NS), data={"x": "y"}), manager="one"
    )
    assert typed.data == {"x": "y"}
    gone = Preconditions(uid=str(uuid.uuid4()))
    for name in ("s", "never"):
        with pytest.raises(ConflictError):
            await client.apply(CONFIG_MAPS, config_map(name, a="3"), manager="two", preconditions=gone)
    with pytest.raises(NotFoundError):
        await client.get(CONFIG_MAPS, "never", namespace=NS)


@pytest.mark.parametrize("kind", list(PatchType))
async def test_preconditions_of_patches(client: Client, kind: PatchType) -> None:
    made = await client.create(CONFIG_MAPS, config_map("p", a="1"))
    uid, version = made.metadata.uid, made.metadata.resource_version

    async def patch(value: str, conditions: Preconditions) -> ConfigMap:
        if kind is PatchType.APPLY:
            document = config_map("p", a=value)
            return await client.apply(
                CONFIG_MAPS, document, manager="m", force=True, preconditions=conditions
            )
        operations = [{"op": "replace", "path": "/data/a", "value": value}]
        change: Any = operations if kind is PatchType.JSON else {"data": {"a": value}}
        return await client.patch(CONFIG_MAPS, "p", change, kind, namespace=NS, preconditions=conditions)

    after = await patch("2", Preconditions(uid, version))
    assert after.data == {"a": "2"}
    for wrong in (
        Preconditions(resource_version=version),
        Preconditions(uid=str(uuid.uuid4())),
        Preconditions(str(uuid.uuid4()), after.metadata.resource_version),
    ):
        with pytest.raises(ConflictError):
            await patch("3", wrong)
    assert (await patch("4", Preconditions(uid=uid))).data == {"a": "4"}


async def test_conflicts_are_retried(client: Client) -> None:
    await client.create(CONFIG_MAPS, config_map("count", n="0"))

    async def add() -> None:
        async def write(document: dict[str, Any]) -> None:
            document["data"]["n"] = str(int(document["data"]["n"]) + 1)
            await client.update(CONFIG_MAPS, document)

        policy = ConflictPolicy(attempts=60)
        await retry_on_conflict(
            lambda: client.get_raw(CONFIG_MAPS, "count", namespace=NS), write, policy=policy
        )

    await asyncio.gather(*(add() for _ in range(8)))
    assert (await client.get(CONFIG_MAPS, "count", namespace=NS)).data == {"n": "8"}


def plugin_script(path: Path, status: dict[str, str]) -> None:
    document = {"kind": "ExecCredential", "apiVersion": V1, "status": status}
    path.with_suffix(".json").write_text(json.dumps(document))
    path.write_text(f"#!/bin/sh\necho . >> {path}.calls\ncat {path.with_suffix('.json')}\n")
    path.chmod(0o755)


async def test_plugin_with_token_then_certificate(apiserver: ControlPlane, tmp_path: Path) -> None:
    admin = find_access(apiserver.kubeconfig, environ={})
    known = find_access(apiserver.certificate_kubeconfig, environ={}).user
    assert known.certificate is not None
    assert known.key is not None
    program = tmp_path / "plugin"
    plugin_script(program, {"token": "wrong"})
    access = replace(admin, user=User(plugin=ExecPlugin("config: exec", str(program), V1)))
    async with Client(access) as client:
        with pytest.raises(DeniedError) as caught:
            await client.list(NAMESPACES)
        assert not caught.value.authenticated
        plugin_script(program, {"token": apiserver.admin_token})
        await client.list(NAMESPACES)
        calls = len(Path(f"{program}.calls").read_text().split())
        await asyncio.gather(*(client.list(NAMESPACES) for _ in range(5)))
        assert len(Path(f"{program}.calls").read_text().split()) == calls
    pair = {
        "clientCertificateData": known.certificate.read().decode(),
        "clientKeyData": known.key.read().decode(),
    }
    plugin_script(program, pair)
    async with Client(access) as client:
        await client.list(NAMESPACES)


PROGRAM = """
import asyncio, sys
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.client.leader import LeaderConfig, LeaderElection
from dray.client.lease import LeaseTimes

async def main():
    async with Client(find_access(sys.argv[1], environ={})) as client:
        config = LeaderConfig(sys.argv[2], "lock", sys.argv[3], LeaseTimes(lease=3, renew=2, retry=0.3))
        async with LeaderElection(client, config):
            print("leading", flush=True)
            await asyncio.Event().wait()

asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def other_leader(access: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Another process that leads."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        str(access),
        NS,
        "other",
        stdout=pipe,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == b"leading\n"
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await asyncio.wait_for(process.wait(), PATIENCE)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_lead_is_handed_over(client: Client, apiserver: ControlPlane, number: signal.Signals) -> None:
    """Killed: the lease runs out, by our clock. Stopped and continued after that: it finds that it no longer leads, and ends."""
    clock = FakeClock()
    async with other_leader(apiserver.kubeconfig) as process:
        os.kill(process.pid, number)
        election = LeaderElection(client, LeaderConfig(NS, "lock", "me", TIMES), clock=clock)
        entering = asyncio.create_task(election.__aenter__())
        await wait_until(lambda: clock.sleepers)
        while clock.monotonic() < TIMES.lease - STEP:
            await clock.advance(STEP)
            await wait_until(lambda: clock.sleepers)
        lease = await client.get(LEASES, "lock", namespace=NS)
        assert (lease.spec.holder_identity, election.leader, entering.done()) == ("other", "other", False)
        while not entering.done():
            await clock.advance(STEP)
            await wait_until(lambda: clock.sleepers or entering.done())
        async with await entering:
            if number == signal.SIGSTOP:
                os.kill(process.pid, signal.SIGCONT)
                assert await asyncio.wait_for(process.wait(), PATIENCE) == 1
            before = (await client.get(LEASES, "lock", namespace=NS)).spec
            await wait_until(lambda: clock.sleepers == 2)  # the next renewal, and the end of the lead
            await clock.advance(TIMES.retry)
            await wait_until(lambda: clock.sleepers == 2)
            assert election.is_leading
            after = (await client.get(LEASES, "lock", namespace=NS)).spec
            assert (after.holder_identity, after.lease_transitions) == ("me", 1)
            assert after.renew_time != before.renew_time
        lease = await client.get(LEASES, "lock", namespace=NS)
        assert not lease.spec.holder_identity


async def test_lead_is_given_over_at_once_when_the_leader_leaves(
    client: Client, apiserver: ControlPlane
) -> None:
    """The lease would have run out long after this test has given up."""
    times = LeaseTimes(lease=90, renew=60, retry=0.3)
    config = LeaderConfig(NS, "given", "one", times)
    async with Client(find_access(apiserver.kubeconfig, environ={})) as second:
        waiting = LeaderElection(second, LeaderConfig(NS, "given", "two", times))
        async with asyncio.timeout(PATIENCE):
            async with LeaderElection(client, config):
                entering = asyncio.create_task(waiting.__aenter__())
                await wait_until(lambda: waiting.leader == "one")
                assert not entering.done()
            await entering
            await waiting.__aexit__(None, None, None)
