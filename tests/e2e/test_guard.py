"""The guard in front of a real API server: whoever writes, no device is stored in two claims."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dray.api.kinds import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    LEASES,
    NAMESPACES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Resource,
)
from dray.api.resource import ResourceClaim
from dray.client.client import Client
from dray.client.http import Request
from dray.client.kubeconfig import find_access
from dray.client.requests import Selection, WriteOptions
from dray.controllers.guard.callers import Callers
from dray.controllers.guard.guard import Guard, GuardConfig
from dray.controllers.guard.parameters import Parameters
from dray.controllers.guard.server import GuardServer, serve
from dray.controllers.guard.webhook import Target, configuration, install
from dray.controllers.metrics import ControllerMetrics
from dray.errors import ConflictError, DeniedError, Error, InvalidError, NotFoundError
from dray.runtime.certificates import serving_certificate
from dray.runtime.clock import SystemClock
from dray.runtime.metrics import Metrics
from dray.testing.kubernetes.control_plane import ControlPlane
from tests.campaign import campaign, seeded
from tests.e2e.guard_process import GuardProcess, refusing, remove_hook
from tests.waiting import PATIENCE, until

NS = "dray-guarded"
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}


@pytest.fixture
async def client(apiserver: ControlPlane) -> AsyncIterator[Client]:
    """The administrator; claims, the webhook and what the guard keeps are removed afterwards."""
    async with Client(find_access(apiserver.kubeconfig, environ={})) as entered:
        with contextlib.suppress(ConflictError):
            await entered.create(NAMESPACES, {"metadata": {"name": NS}})
        yield entered
        with contextlib.suppress(NotFoundError):
            await remove_hook(entered, "dray-guard")
        for claim in (await entered.list(RESOURCE_CLAIMS, Selection(NS))).items:
            await entered.delete(RESOURCE_CLAIMS, claim.metadata.name, namespace=NS)
        for resource in (CONFIG_MAPS, LEASES):
            with contextlib.suppress(NotFoundError):
                await entered.delete(resource, "dray-guard", namespace="kube-system")


@pytest.fixture
async def guard(client: Client, apiserver: ControlPlane, tmp_path: Path) -> AsyncIterator[GuardProcess]:
    process = GuardProcess(apiserver.kubeconfig, tmp_path / "guard")
    await process.start()
    await wait_asked(client)
    yield process
    assert await process.stop() in (0, None)


async def wait_asked(client: Client) -> None:
    """The API server takes a moment to hear of a webhook: until then it lets everything through."""
    await add(client, "first", "second")
    await allocate(client, "first", "probe")
    async with asyncio.timeout(PATIENCE):
        while await attempt(client, "second", "probe", dry_run=True) == "stored":
            await asyncio.sleep(0.05)
    for name in ("first", "second"):
        await client.delete(RESOURCE_CLAIMS, name, namespace=NS)


async def add(client: Client, *names: str) -> None:
    for name in names:
        await client.create(RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": NS}, "spec": SPEC})


async def allocate(
    client: Client, name: str, *devices: str, version: str = "", options: WriteOptions | None = None
) -> ResourceClaim:
    """Give the claim these devices, or free it where there are none."""
    results = [{"request": "r", "driver": "d.example", "pool": "n", "device": one} for one in devices]
    change: dict[str, Any] = {
        "status": {"allocation": {"devices": {"results": results}} if devices else None}
    }
    if version:
        change["metadata"] = {"resourceVersion": version}
    return await client.patch(
        RESOURCE_CLAIMS,
        name,
        change,
        namespace=NS,
        subresource="status",
        options=options or WriteOptions(),
    )


async def attempt(client: Client, name: str, *devices: str, **options: Any) -> str:
    """What became of it, in one word."""
    dry_run = options.pop("dry_run", False)
    try:
        await allocate(client, name, *devices, options=WriteOptions(dry_run=dry_run), **options)
    except Error as error:
        text = str(error)
        return "refused" if "allocated to claim" in text else "changed" if "modified" in text else "failed"
    return "stored"


async def check_once(client: Client) -> int:
    """No device is in two claims, at one moment; how many claims have any."""
    claims = (await client.list(RESOURCE_CLAIMS, Selection(NS))).items
    results = [one.status.allocation.devices.results for one in claims if one.status.allocation is not None]
    devices = Counter(one.device for each in results for one in each)
    assert max(devices.values(), default=1) == 1, devices
    return len(results)


async def test_of_two_writers_at_once_one_gets_the_device(client: Client, guard: GuardProcess) -> None:
    for number in range(campaign(15, 500)):
        await add(client, "one", "two")
        fates = await asyncio.gather(
            attempt(client, "one", f"g{number % 3}"), attempt(client, "two", f"g{number % 3}")
        )
        assert sorted(fates) == ["refused", "stored"]
        assert await check_once(client) == 1
        winner = "one" if fates[0] == "stored" else "two"
        if number % 2:
            await allocate(client, winner)  # the next round finds it free at once, or the claim gone
        for name in ("one", "two"):
            await client.delete(RESOURCE_CLAIMS, name, namespace=NS)


async def test_a_dry_run_is_refused_and_reserves_nothing(client: Client, guard: GuardProcess) -> None:
    await add(client, "one", "two", "three")
    assert await attempt(client, "one", "g0", dry_run=True) == "stored"
    assert await attempt(client, "two", "g0") == "stored"
    assert await attempt(client, "three", "g0", dry_run=True) == "refused"


async def test_older_versions_of_the_api_are_guarded_too(client: Client, guard: GuardProcess) -> None:
    await add(client, "one", "two")
    await allocate(client, "one", "g0")
    path = f"/apis/resource.k8s.io/v1beta2/namespaces/{NS}/resourceclaims/two/status"
    body = b'{"status": {"allocation": {"devices": {"results": [{"request": "r", "driver": "d.example", "pool": "n", "device": "g0"}]}}}}'
    request = Request("PATCH", path, body=body, content_type="application/merge-patch+json")
    with pytest.raises(DeniedError, match=r"device d\.example/n/g0 is already allocated to claim"):
        await client.raw(request)


async def test_parameters_of_our_drivers_are_checked_when_they_are_written(
    client: Client, tmp_path: Path
) -> None:
    guard = Guard(client, GuardConfig(), SystemClock(), ControllerMetrics())
    parameters = Parameters({"ours.example": picky})
    serving = serving_certificate(tmp_path, ["127.0.0.1"], datetime.now(UTC))
    callers = Callers()
    async with serve(GuardServer(guard, parameters, callers, Metrics()), "127.0.0.1", 0, serving) as port:
        target = Target(f"https://127.0.0.1:{port}", serving.ca.read_bytes(), callers.secret)
        await install(client, configuration(target, parameters.drivers))
        await until(lambda: said(client, RESOURCE_CLAIMS, SPEC | {"devices": with_config("warp")}))
        for resource, spec, place in (
            (RESOURCE_CLAIMS, {"devices": with_config("warp")}, "spec.devices.config[0]"),
            (
                RESOURCE_CLAIM_TEMPLATES,
                {"spec": {"devices": with_config("warp")}},
                "spec.spec.devices.config[0]",
            ),
            (DEVICE_CLASSES, {"config": with_config("warp", requests=None)["config"]}, "spec.config[0]"),
        ):
            assert f"{place}.opaque.parameters.mode: must be fast (driver ours.example" in await said(
                client, resource, spec
            )
        good, foreign = with_config("fast"), with_config("warp", driver="theirs.example")
        assert await said(client, RESOURCE_CLAIMS, {"devices": good}) == ""
        assert await said(client, RESOURCE_CLAIMS, {"devices": foreign}) == ""


def picky(parameters: Mapping[str, Any]) -> None:
    """Of a driver that can only be fast."""
    if parameters.get("mode") != "fast":
        raise InvalidError("mode: must be fast", field="mode")


def with_config(mode: str, driver: str = "ours.example", requests: Any = ("r",)) -> dict[str, Any]:
    entry: dict[str, Any] = {"opaque": {"driver": driver, "parameters": {"mode": mode}}}
    if requests:
        entry["requests"] = list(requests)
    return {**SPEC["devices"], "config": [entry]}


async def said(client: Client, resource: Resource[Any], spec: Any) -> str:
    """Why it is refused, or nothing. Never stored."""
    metadata = {"name": "asked"} | ({"namespace": NS} if resource.namespaced else {})
    try:
        await client.create(
            resource, {"metadata": metadata, "spec": spec}, options=WriteOptions(dry_run=True)
        )
    except InvalidError as error:
        return str(error)
    return ""


async def test_a_write_that_another_webhook_refuses_frees_its_device(
    client: Client, guard: GuardProcess, tmp_path: Path
) -> None:
    await add(client, "one", "two")
    async with refusing(client, tmp_path / "other", "dray-refuses"):
        async with asyncio.timeout(PATIENCE):
            while (
                fate := await attempt(client, "one", "g0")
            ) == "stored":  # the other one is not heard of yet
                await allocate(client, "one")
        assert fate == "failed"
    async with asyncio.timeout(PATIENCE):
        while await attempt(client, "two", "g0") != "stored":
            await asyncio.sleep(0.1)
    assert await check_once(client) == 1


async def test_conflicts_writers_and_kills_never_store_a_device_twice_and_leave_all_free(
    client: Client, guard: GuardProcess
) -> None:
    rng = seeded(20_260)
    names, devices = [f"c{number}" for number in range(8)], [f"g{number}" for number in range(5)]
    await add(client, *names)
    fates: Counter[str] = Counter()
    is_over = False

    async def writer() -> None:
        while not is_over:
            name = rng.choice(names)
            claim = await client.get(RESOURCE_CLAIMS, name, namespace=NS)
            version = claim.metadata.resource_version if rng.random() < 0.5 else ""
            if claim.status.allocation is not None:
                await attempt(client, name, version=version)
            elif rng.random() < 0.15:
                change = {"metadata": {"labels": {"n": str(rng.randrange(10**6))}}}
                await client.patch(RESOURCE_CLAIMS, name, change, namespace=NS)
            else:
                fates[
                    await attempt(client, name, *rng.sample(devices, rng.randint(1, 2)), version=version)
                ] += 1
            await check_once(client)

    async with asyncio.TaskGroup() as group:
        for _ in range(6):
            group.create_task(writer())
        for turn in range(campaign(2, 40)):
            await asyncio.sleep(0.5 + rng.random())
            await guard.stop(signal.SIGKILL if turn % 2 == 0 else signal.SIGTERM)
            await guard.start()
        await asyncio.sleep(1.0)
        is_over = True
    assert fates["stored"] > 10 and fates["refused"] > 10, fates
    for name in names:
        await allocate(client, name)
    for name, device in zip(names, devices, strict=False):  # nothing stays reserved
        async with asyncio.timeout(PATIENCE):
            while await attempt(client, name, device) != "stored":
                await asyncio.sleep(0.1)
    assert await check_once(client) == len(devices)
