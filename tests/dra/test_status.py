"""Against the embedded API server, whose server-side apply is the real one's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from dray.api.field_errors import FieldError, Reason
from dray.api.kinds import RESOURCE_CLAIMS
from dray.api.meta import Condition
from dray.api.resource import ResourceClaim
from dray.api.resource.claim_status import NetworkDeviceData
from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.dra.parcels import ClaimRef, PreparedDevice
from dray.dra.status import DENIED_SECONDS, PAUSE, ClaimStatus, DeviceDetails
from dray.errors import ConflictError, DeniedError, InvalidError, UnavailableError
from dray.processes.apiserver import ApiServerOptions, api_server
from dray.runtime.clock import FakeClock, SystemClock
from dray.testing.check.api_server import SmallApiServer, served
from tests.dra.tiny import DRIVER
from tests.waiting import wait_until

SHARES = ("0b7a5a29-6c8c-4d2c-bd7e-0a3a3f1f6a11", "1b7a5a29-6c8c-4d2c-bd7e-0a3a3f1f6a12")
ONE = PreparedDevice(("main",), "pool", "dev-1")


class Grudging(SmallApiServer):
    """Answers writes of a status by driver with these errors, while there are any."""

    failures: list[Exception]
    writes = 0

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.method == "PATCH":
            self.writes += 1
            if self.failures:
                raise self.failures.pop(0)
        return await super()._answer(request)


@asynccontextmanager
async def cluster(tmp_path: Path) -> AsyncIterator[Client]:
    options = ApiServerOptions(tmp_path / "api", Address("127.0.0.1", 0))
    async with api_server(options) as server, Client(find_access(server.kubeconfig)) as client:
        yield client


@asynccontextmanager
async def grudging(tmp_path: Path, *failures: Exception) -> AsyncIterator[tuple[Grudging, Client]]:
    server = Grudging(SystemClock())
    server.failures = list(failures)
    async with served(server, tmp_path / "config"), Client(find_access(tmp_path / "config")) as client:
        yield server, client


async def allocated(client: Client, name: str, *devices: tuple[str, ...]) -> ResourceClaim:
    """A claim with these devices, by driver, name and, where it is shared, the share."""
    request = {"name": "main", "exactly": {"deviceClassName": "tapes"}}
    document = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    await client.create(RESOURCE_CLAIMS, document, namespace="default")
    stored = await client.get_raw(RESOURCE_CLAIMS, name, namespace="default")
    results = [
        {"request": "main", "pool": "pool"} | dict(zip(("driver", "device", "shareID"), one, strict=False))
        for one in devices
    ]
    stored["status"] = {"allocation": {"devices": {"results": results}}}
    return await client.update(RESOURCE_CLAIMS, stored, subresource="status")


async def read(client: Client, name: str) -> ResourceClaim:
    return await client.get(RESOURCE_CLAIMS, name, namespace="default")


def ref_of(claim: ResourceClaim) -> ClaimRef:
    return ClaimRef(claim.metadata.namespace, claim.metadata.name, claim.metadata.uid)


async def written(status: ClaimStatus, clock: FakeClock) -> None:
    async with asyncio.timeout(60):
        while not status.is_idle:
            await clock.advance(PAUSE)
            await asyncio.sleep(0.005)


async def test_written_kept_and_removed(tmp_path: Path) -> None:
    async with cluster(tmp_path) as client:
        claim = await allocated(client, "a", (DRIVER, "dev-1"), (DRIVER, "dev-2"), ("other.io", "x"))
        other = {"driver": "other.io", "pool": "pool", "device": "x", "data": {"kept": True}}
        document = {"metadata": {"name": "a"}, "status": {"devices": [other]}}
        options: dict[str, Any] = {"namespace": "default", "subresource": "status"}
        await client.apply(RESOURCE_CLAIMS, document, manager="other", **options)

        def details(device: PreparedDevice) -> DeviceDetails:
            network = NetworkDeviceData(interface_name="net1", ips=("10.0.0.1/24",))
            link = Condition(type="Linked", status="False", reason="NoCable")
            return (
                DeviceDetails({"speed": 10}, network, (link,))
                if device.device == "dev-1"
                else DeviceDetails()
            )

        clock = FakeClock()
        status = ClaimStatus(client, DRIVER, clock, details=details)
        devices = (ONE, PreparedDevice(("main",), "pool", "dev-2"))
        async with status.writing():
            status.prepared(claim, devices)
            await written(status, clock)
            found = {one.device: one for one in (await read(client, "a")).status.devices}
            assert set(found) == {"dev-1", "dev-2", "x"}
            assert [(one.type, one.status) for one in found["dev-1"].conditions] == [
                ("Ready", "True"),
                ("Linked", "False"),
            ]
            assert found["dev-1"].data == {"speed": 10}
            assert found["dev-1"].network_data == NetworkDeviceData(
                interface_name="net1", ips=("10.0.0.1/24",)
            )
            assert found["dev-2"].conditions[0].last_transition_time is not None
            assert found["x"].data == {"kept": True}
            # Prepared again, as after a restart: nothing is to be written.
            before = await read(client, "a")
            await clock.advance(60)
            status.prepared(before, devices)
            await written(status, clock)
            assert (await read(client, "a")).metadata.resource_version == before.metadata.resource_version
            # One device less, and somebody else's condition in our entry.
            mine = {"driver": DRIVER, "pool": "pool", "device": "dev-1"}
            document["status"] = {"devices": [other, {**mine, "conditions": [condition("Theirs")]}]}
            await client.apply(RESOURCE_CLAIMS, document, manager="other", **options)
            status.prepared(await read(client, "a"), (ONE,))
            await written(status, clock)
            found = {one.device: one for one in (await read(client, "a")).status.devices}
            assert set(found) == {"dev-1", "x"}
            assert {one.type for one in found["dev-1"].conditions} == {"Ready", "Linked", "Theirs"}
            document["status"] = {"devices": [other]}
            await client.apply(RESOURCE_CLAIMS, document, manager="other", **options)
            status.unprepared(ref_of(claim))
            await written(status, clock)
            after = await read(client, "a")
            assert [one.device for one in after.status.devices] == ["x"]
            assert after.status.allocation == claim.status.allocation


def condition(kind: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": "True",
        "reason": "R",
        "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }


async def test_what_somebody_else_said_in_our_place_gives_way(tmp_path: Path) -> None:
    async with cluster(tmp_path) as client:
        claim = await allocated(client, "a", (DRIVER, "dev-1"))
        mine = {"driver": DRIVER, "pool": "pool", "device": "dev-1"}
        entry = {**mine, "conditions": [{**condition("Ready"), "status": "False"}]}
        document = {"metadata": {"name": "a"}, "status": {"devices": [entry]}}
        await client.apply(
            RESOURCE_CLAIMS, document, manager="other", namespace="default", subresource="status"
        )
        status = ClaimStatus(client, DRIVER, SystemClock())
        async with status.writing():
            status.prepared(claim, (ONE,))
            await wait_until(lambda: status.is_idle)
        (found,) = (await read(client, "a")).status.devices
        assert [(one.type, one.status) for one in found.conditions] == [("Ready", "True")]


async def test_shares_of_one_device_are_apart(tmp_path: Path) -> None:
    async with cluster(tmp_path) as client:
        claim = await allocated(client, "a", *((DRIVER, "dev-1", share) for share in SHARES))
        status = ClaimStatus(client, DRIVER, SystemClock())
        async with status.writing():
            status.prepared(claim, tuple(replace(ONE, share_id=share) for share in SHARES))
            await wait_until(lambda: status.is_idle)
            found = (await read(client, "a")).status.devices
            assert {one.share_id for one in found} == set(SHARES)
            status.prepared(await read(client, "a"), (replace(ONE, share_id=SHARES[1]),))
            await wait_until(lambda: status.is_idle)
            assert [one.share_id for one in (await read(client, "a")).status.devices] == [SHARES[1]]


async def test_a_claim_that_is_gone_or_replaced(tmp_path: Path) -> None:
    async with cluster(tmp_path) as client:
        claim = await allocated(client, "a", (DRIVER, "dev-1"))
        status = ClaimStatus(client, DRIVER, SystemClock())
        async with status.writing():
            await client.delete(RESOURCE_CLAIMS, "a", namespace="default")
            status.prepared(claim, (ONE,))
            await wait_until(lambda: status.is_idle)
            await allocated(client, "a", (DRIVER, "dev-1"))
            status.prepared(claim, (ONE,))
            await wait_until(lambda: status.is_idle)
            assert (await read(client, "a")).status.devices == ()
            status.unprepared(ref_of(claim))
            await wait_until(lambda: status.is_idle)


async def test_a_device_that_is_not_allocated_is_given_up(tmp_path: Path) -> None:
    async with cluster(tmp_path) as client:
        claim = await allocated(client, "a", ("other.io", "x"))
        status = ClaimStatus(client, DRIVER, SystemClock())
        async with status.writing():
            status.prepared(claim, (ONE,))
            await wait_until(lambda: status.is_idle)
        assert (await read(client, "a")).status.devices == ()


async def test_what_passes_is_tried_again_with_the_newest_word(tmp_path: Path) -> None:
    away = UnavailableError("away")
    async with grudging(tmp_path, away, ConflictError("somebody wrote first")) as (server, client):
        claim = await allocated(client, "a", (DRIVER, "dev-1"))
        status = ClaimStatus(client, DRIVER, SystemClock())
        async with status.writing():
            status.unprepared(ref_of(claim))
            await wait_until(lambda: server.writes == 1)
            status.prepared(claim, (ONE,))
            await wait_until(lambda: status.is_idle)
            assert len((await read(client, "a")).status.devices) == 1


IMMUTABLE = InvalidError(
    "field is immutable", causes=(FieldError("status.allocation", Reason.INVALID, "field is immutable"),)
)
"""What a real API server answers to server-side apply where the allocation's parameters are not in its own notation."""


async def test_where_apply_would_touch_the_allocation_only_our_entries_are_patched(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [IMMUTABLE, ConflictError("somebody wrote first"), IMMUTABLE]
    async with grudging(tmp_path, *failures) as (server, client):
        claim = await allocated(client, "a", (DRIVER, "dev-1"), (DRIVER, "dev-2"), ("other.io", "x"))
        raw = await client.get_raw(RESOURCE_CLAIMS, "a", namespace="default")
        mine = {"driver": DRIVER, "pool": "pool", "device": "dev-1", "conditions": [condition("Theirs")]}
        other = {"driver": "other.io", "pool": "pool", "device": "x", "data": {"kept": True}, "new": 1}
        raw["status"]["devices"] = [mine, {**mine, "device": "dev-2"}, other]
        await client.update(RESOURCE_CLAIMS, raw, subresource="status")
        status = ClaimStatus(client, DRIVER, SystemClock())
        async with status.writing():
            status.prepared(claim, (ONE,))
            await wait_until(lambda: status.is_idle)
            assert server.writes == 4
            found = await client.get_raw(RESOURCE_CLAIMS, "a", namespace="default")
            assert found["status"]["devices"][0] == other
            (entry,) = found["status"]["devices"][1:]
            assert [one["type"] for one in entry["conditions"]] == ["Ready", "Theirs"]
            assert found["status"]["allocation"] == raw["status"]["allocation"]
            # An apply that says nothing does not touch anything, and is not refused: it does not remove the entry either.
            status.unprepared(ref_of(claim))
            await wait_until(lambda: status.is_idle)
            found = await client.get_raw(RESOURCE_CLAIMS, "a", namespace="default")
            assert found["status"]["devices"] == [other]
            server.failures = [IMMUTABLE, IMMUTABLE]
            status.prepared(claim, (ONE,))
            await wait_until(lambda: status.is_idle)
    (why,) = [vars(one)["fields"]["error"] for one in caplog.records if "not written" in one.message]
    assert "spaces between the JSON of its parameters" in why


async def test_missing_rights_are_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with grudging(tmp_path, *[DeniedError("forbidden")] * 9) as (server, client):
        claim = await allocated(client, "a", (DRIVER, "dev-1"))
        clock = FakeClock()
        status = ClaimStatus(client, DRIVER, clock)
        async with status.writing():
            for _ in range(3):
                status.prepared(claim, (ONE,))
                await written(status, clock)
            assert server.writes == 1
            await clock.advance(DENIED_SECONDS + 1)
            status.prepared(claim, (ONE,))
            await written(status, clock)
            assert server.writes == 2
    assert caplog.text.count("associated-node:patch on resourceclaims/driver") == 1


async def test_data_that_no_server_takes_is_left_out(tmp_path: Path) -> None:
    async with cluster(tmp_path) as client:
        claim = await allocated(client, "a", (DRIVER, "dev-1"))
        huge = DeviceDetails({"text": "x" * 20_000})
        status = ClaimStatus(client, DRIVER, SystemClock(), details=lambda device: huge)
        async with status.writing():
            status.prepared(claim, (ONE,))
            await wait_until(lambda: status.is_idle)
        (found,) = (await read(client, "a")).status.devices
        assert found.data is None


async def test_a_driver_that_cannot_tell_harms_nobody_else(tmp_path: Path) -> None:
    def details(device: PreparedDevice) -> DeviceDetails:
        return {"dev-2": DeviceDetails({"fine": True})}[device.device]

    async with cluster(tmp_path) as client:
        bad, good = (
            await allocated(client, "bad", (DRIVER, "dev-1")),
            await allocated(client, "good", (DRIVER, "dev-2")),
        )
        status = ClaimStatus(client, DRIVER, SystemClock(), details=details)
        async with status.writing():
            status.prepared(bad, (ONE,))
            status.prepared(good, (replace(ONE, device="dev-2"),))
            while not (await read(client, "good")).status.devices:
                await asyncio.sleep(0.01)
