"""The guard's server over TLS, as an API server asks it."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dray.controllers.guard.callers import Callers, secret_at
from dray.controllers.guard.guard import Guard, GuardConfig
from dray.controllers.guard.parameters import Parameters
from dray.controllers.guard.server import GuardServer, serve
from dray.controllers.metrics import ControllerMetrics
from dray.errors import InvalidError, UnavailableError
from dray.runtime.certificates import serving_certificate
from dray.runtime.clock import SystemClock
from dray.runtime.metrics import Metrics
from tests.controllers.guard.reviews import add_claims, allocated, result, review_body
from tests.controllers.objects import Json
from tests.controllers.server import cluster
from tests.waiting import PATIENCE

HANGS = threading.Event()


def hangs(parameters: Mapping[str, Any]) -> None:
    HANGS.wait(PATIENCE)


def picky(parameters: Mapping[str, Any]) -> None:
    raise InvalidError("mode: unknown", field="mode")


@asynccontextmanager
async def served(guard: Guard, directory: Path, metrics: Metrics) -> AsyncIterator[aiohttp.ClientSession]:
    certificates = serving_certificate(directory, ["127.0.0.1"], datetime.now(UTC))
    server = GuardServer(
        guard,
        Parameters({"ours.example": picky, "slow.example": hangs}),
        Callers("hush"),
        metrics,
        seconds=0.2,
    )
    context = ssl.create_default_context(cafile=str(certificates.ca))
    async with serve(server, "127.0.0.1", 0, certificates) as port:
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(f"https://127.0.0.1:{port}", connector=connector) as session:
            yield session
            with pytest.raises(UnavailableError, match="cannot listen on"):
                async with serve(server, "127.0.0.1", port, certificates):
                    pass


async def ask(session: aiohttp.ClientSession, path: str, body: bytes) -> Json:
    async with session.post(
        f"{path}/{secret_at(path, 'hush')}", params={"timeout": "10s"}, data=body
    ) as answer:
        assert answer.status == 200
        found: Json = (await answer.json())["response"]
        return found


async def test_it_answers_and_says_who_leads(tmp_path: Path) -> None:
    metrics = Metrics()
    async with cluster(tmp_path) as (api, client):
        guard = Guard(client, GuardConfig("default"), SystemClock(), ControllerMetrics())
        one, two = await add_claims(api, "one", "two")
        body = review_body(one, allocated(one, result()))
        async with served(guard, tmp_path / "pki", metrics) as session:
            assert (await session.get("/healthz")).status == 200
            assert (await session.get("/readyz")).status == 503
            refusal = await ask(session, "/claims", body)
            assert not refusal["allowed"] and refusal["status"]["code"] == 503
            async with guard.leading("a"):
                assert (await session.get("/readyz")).status == 200
                assert (await ask(session, "/claims", body)) == {
                    "uid": json.loads(body)["request"]["uid"],
                    "allowed": True,
                }
                refusal = await ask(session, "/claims", review_body(two, allocated(two, result())))
                assert "is being allocated to claim default/one" in refusal["status"]["message"]
                await refuses_what_is_not_its_business(session, one)
                lines = metrics.render().decode()
    assert "dray_guard_reservations 1" in lines and "dray_guard_leading 1" in lines
    assert 'dray_guard_reviews_total{code="403",path="/claims"} 1.0' in lines


async def refuses_what_is_not_its_business(session: aiohttp.ClientSession, claim: Json) -> None:
    for body in (b"", b"{}", b"nonsense"):
        async with session.post("/claims/hush", data=body) as answer:
            assert answer.status == 400
    other = json.loads(review_body(claim, claim))
    other["request"]["resource"]["resource"] = "pods"
    refusal = await ask(session, "/claims", json.dumps(other).encode())
    assert refusal["status"]["code"] == 422
    garbled = review_body(claim, allocated(claim, {"driver": 3}))
    refusal = await ask(session, "/claims", garbled)
    assert refusal["status"]["code"] == 422 and "status.allocation" in refusal["status"]["message"]
    async with session.get("/claims/hush") as answer:
        assert answer.status == 405


async def test_parameters_need_no_lead(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (_, client):
        guard = Guard(client, GuardConfig("default"), SystemClock(), ControllerMetrics())
        document = {
            "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": "u",
                "resource": {"resource": "deviceclasses"},
                "object": {"spec": {"config": [{"opaque": {"driver": "ours.example", "parameters": {}}}]}},
            },
        }
        async with served(guard, tmp_path / "pki", Metrics()) as session:
            refusal = await ask(session, "/parameters", json.dumps(document).encode())
            assert refusal["status"]["code"] == 422
            assert refusal["status"]["message"].startswith("spec.config[0].opaque.parameters.mode: unknown")
            slow = json.dumps(document).replace("ours.example", "slow.example")
            refusal = await ask(session, "/parameters", slow.encode())
            assert refusal["status"]["code"] == 503 and "did not end in 0.2 s" in refusal["status"]["message"]
            HANGS.set()
            document["request"]["resource"] = {"resource": "pods"}  # type: ignore[index]
            assert (await ask(session, "/parameters", json.dumps(document).encode()))["allowed"]
