"""Somebody who can connect, and has no key: to the guard's webhook, to metrics and debug pages, to the dashboard."""

from __future__ import annotations

import asyncio
import copy
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dray.client.client import Client
from dray.controllers.guard.callers import Callers
from dray.controllers.guard.guard import Guard, GuardConfig
from dray.controllers.guard.parameters import Parameters
from dray.controllers.guard.server import GuardServer, serve
from dray.controllers.guard.settling import SettlingConfig
from dray.controllers.metrics import ControllerMetrics
from dray.errors import InvalidError
from dray.runtime.certificates import serving_certificate
from dray.runtime.clock import SystemClock
from dray.runtime.metrics import Metrics, serve_metrics
from dray.runtime.pages import Page, Readers
from tests.client.certificates import Authority
from tests.controllers.guard.reviews import add_claims, allocated, found, result, review, review_body, store
from tests.controllers.objects import Json
from tests.controllers.server import Cluster, cluster
from tests.dashboard.looking import alone
from tests.waiting import wait_until

QUICK = SettlingConfig(first=0.01, pause=0.01, fence=0.03)


@dataclass(frozen=True)
class Guarded:
    """A guard that leads and serves."""

    api: Cluster
    guard: Guard
    url: str
    authority: Path
    metrics: Metrics

    async def post(self, path: str, body: bytes, pair: tuple[Path, Path] | None = None) -> tuple[int, str]:
        context = ssl.create_default_context(cafile=str(self.authority))
        if pair is not None:
            context.load_cert_chain(*pair)
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.url}{path}", data=body, ssl=context) as answer,
        ):
            return answer.status, await answer.text()

    async def is_allowed(self, path: str, body: bytes, pair: tuple[Path, Path] | None = None) -> bool:
        status, text = await self.post(path, body, pair)
        assert status == 200, text
        return bool(json.loads(text)["response"]["allowed"])


@asynccontextmanager
async def guarded(
    tmp_path: Path, callers: Callers, client_ca: Path | None = None, **config: Any
) -> AsyncIterator[Guarded]:
    metrics = Metrics()
    async with cluster(tmp_path) as (api, client):
        guard = _guard(client, **config)
        serving = serving_certificate(tmp_path / "pki", ["127.0.0.1"], datetime.now(UTC))
        server = GuardServer(guard, Parameters({}), callers, metrics)
        async with serve(server, "127.0.0.1", 0, serving, client_ca) as port, guard.leading("a"):
            yield Guarded(api, guard, f"https://127.0.0.1:{port}", serving.ca, metrics)


def _guard(client: Client, settling: SettlingConfig = QUICK, **config: Any) -> Guard:
    return Guard(
        client, GuardConfig("default", settling=settling, **config), SystemClock(), ControllerMetrics()
    )


async def test_a_forged_review_holds_no_device_and_changes_no_claim(tmp_path: Path) -> None:
    """Without the path that only the API server knows, whatever is said about a real claim."""
    async with guarded(tmp_path, Callers("hush")) as here:
        mine, theirs = await add_claims(here.api, "mine", "theirs")
        body = review_body(theirs, allocated(theirs, result()))
        for path in ("/claims", "/claims/", "/claims/hus", "/claims/hush/", "/claims//hush", "/parameters/x"):
            status, _ = await here.post(path, body)
            assert status in (404, 405), path
        assert here.guard.reserved == 0
        assert await here.is_allowed("/claims/hush", review_body(mine, allocated(mine, result())))
        assert await store(here.api, mine, result())
        assert found(here.api, "theirs") == theirs


async def test_nothing_is_read_of_a_stranger_and_nothing_of_the_path_is_shown(tmp_path: Path) -> None:
    async with guarded(tmp_path, Callers("hush")) as here:
        status, _ = await here.post("/claims/guess", b"{" * 2**20)
        assert status == 404
        shown = here.metrics.render().decode()
        assert 'dray_guard_reviews_total{code="404",path="/claims"} 1.0' in shown
        assert "hush" not in shown and "guess" not in shown


async def test_a_path_that_leaked_is_good_for_one_turn_only(tmp_path: Path) -> None:
    """API servers show the webhook's URL in errors, to whoever wrote the claim."""
    callers = Callers("leaked")
    async with guarded(tmp_path, callers) as here:
        (claim,) = await add_claims(here.api, "c")
        body = review_body(claim, allocated(claim, result()))
        callers.renew()
        assert (await here.post("/claims/leaked", body))[0] == 200
        callers.renew()
        assert (await here.post("/claims/leaked", body))[0] == 404
        assert (await here.post(f"/claims/{callers.secret}", body))[0] == 200


async def test_with_a_client_authority_the_path_alone_opens_nothing(tmp_path: Path) -> None:
    authority, other = Authority(), Authority("another CA")
    (ca := tmp_path / "client-ca.crt").write_bytes(authority.pem)
    callers = Callers("hush", needs_certificate=True, names=["kube-apiserver"])
    pairs = {name: authority.issue(name).write(tmp_path, name) for name in ("kube-apiserver", "node-1")}
    foreign = other.issue("kube-apiserver").write(tmp_path, "foreign")
    async with guarded(tmp_path, callers, ca) as here:
        (claim,) = await add_claims(here.api, "c")
        body = review_body(claim, allocated(claim, result()))
        for pair in (None, pairs["node-1"]):
            status, text = await here.post("/claims/hush", body, pair)
            assert (status, "only an API server may ask" in text) == (403, True)
        with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
            await here.post("/claims/hush", body, foreign)
        assert here.guard.reserved == 0
        assert await here.is_allowed("/claims/hush", body, pairs["kube-apiserver"])
        # Probes of the kubelet have no certificate.
        context = ssl.create_default_context(cafile=str(here.authority))
        async with aiohttp.ClientSession() as session:
            assert (await session.get(f"{here.url}/readyz", ssl=context)).status == 200


async def test_a_client_authority_that_is_none_is_refused_at_the_start(tmp_path: Path) -> None:
    (bad := tmp_path / "bad.crt").write_text("nonsense")
    with pytest.raises(InvalidError, match="holds no certificate in PEM form"):
        async with guarded(tmp_path, Callers("hush"), bad):
            pass


async def test_who_holds_connections_to_the_guard_takes_no_memory_without_end(tmp_path: Path) -> None:
    """They neither ask nor go; an API server's connection, older than all of theirs, stays."""
    async with guarded(tmp_path, Callers("hush")) as here:
        (claim,) = await add_claims(here.api, "c")
        body = review_body(claim, allocated(claim, result()))
        head = f"POST /claims/hush HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
        context = ssl.create_default_context(cafile=str(here.authority))
        port = int(here.url.rpartition(":")[2])

        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            return await asyncio.open_connection("127.0.0.1", port, ssl=context)

        async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(head.encode() + body)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            assert b'"allowed":true' in await reader.readuntil(b"}}")

        reader, writer = await connect()
        await ask(reader, writer)
        held = [await connect() for _ in range(80)]
        await wait_until(lambda: sum(one.at_eof() for one, _ in held) == 80 - 64)
        await ask(reader, writer)
        for _, each in (*held, (reader, writer)):
            each.transport.abort()


def _with(claim: Json, **meta: str) -> Json:
    changed = copy.deepcopy(claim)
    changed["metadata"].update(meta)
    return changed


async def test_who_learned_the_path_holds_nothing_for_a_claim_that_is_not_as_he_says(tmp_path: Path) -> None:
    """The API server is asked for the claim before a review is believed. And no word about one claim moves another."""
    async with guarded(tmp_path, Callers("hush")) as here:
        held, other = await add_claims(here.api, "held", "other")
        assert await store(here.api, held, result("g1"))
        held = found(here.api, "held")
        for forged in (
            _with(other, name="nobody"),
            _with(other, namespace="elsewhere"),
            _with(other, uid="00000000-0000-4000-8000-000000000009"),
            _with(other, resourceVersion="999999"),
            _with(other, uid=held["metadata"]["uid"]),  # of one claim the name, of another the uid
        ):
            answer = await here.guard.review(review(forged, result()))
            assert answer.status is HTTPStatus.CONFLICT, forged["metadata"]
            assert here.guard.reserved == 0
        # The claim whose uid was named still holds its device.
        assert (await here.guard.review(review(other, result("g1")))).status is HTTPStatus.FORBIDDEN
        assert found(here.api, "held") == held and found(here.api, "other") == other


async def test_who_learned_the_path_cannot_hold_more_than_a_share(tmp_path: Path) -> None:
    patient = SettlingConfig(first=60.0, pause=60.0, fence=60.0)
    limits: dict[str, Any] = {"settling": patient, "most_devices_of_namespace": 6, "most_writes_of_claim": 2}
    async with guarded(tmp_path, Callers("hush"), **limits) as here:
        claims = await add_claims(here.api, *(f"c{number}" for number in range(4)))
        answers = [await here.guard.review(review(claims[0], result(f"g{number}"))) for number in range(4)]
        assert [one.status for one in answers] == [HTTPStatus.OK] * 2 + [HTTPStatus.SERVICE_UNAVAILABLE] * 2
        assert "2 other allocations of claim default/c0 are on their way already" in answers[2].message
        # The same write again is no other one.
        assert (await here.guard.review(review(claims[0], result("g0")))).status is HTTPStatus.OK
        four = [result(f"h{number}") for number in range(4)]
        assert (await here.guard.review(review(claims[1], *four))).status is HTTPStatus.OK
        answer = await here.guard.review(review(claims[2], result("k")))
        assert "6 devices of namespace default are on their way already" in answer.message
        assert await store(here.api, claims[1], *four)
        await wait_until(lambda: here.guard.reserved == 2)
        assert (await here.guard.review(review(claims[2], result("k")))).status is HTTPStatus.OK


async def test_one_review_cannot_hold_more_devices_than_a_claim_may_have(tmp_path: Path) -> None:
    patient = SettlingConfig(first=60.0, pause=60.0, fence=60.0)
    async with guarded(tmp_path, Callers("hush"), settling=patient) as here:
        claim, other = await add_claims(here.api, "c", "d")
        for count in (33, 1000):
            answer = await here.guard.review(review(claim, *(result(f"g{one}") for one in range(count))))
            assert answer.status is HTTPStatus.UNPROCESSABLE_ENTITY
            text = f"status.allocation.devices.results: has {count} devices, at most 32 are allowed"
            assert answer.message == text
        assert here.guard.reserved == 0
        thirties = [[result(f"{one}-{each}") for each in range(32)] for one in ("a", "b", "c")]
        answers = [await here.guard.review(review(claim, *one)) for one in thirties]
        assert [one.status for one in answers] == [HTTPStatus.OK] * 2 + [HTTPStatus.SERVICE_UNAVAILABLE]
        assert answers[2].message.startswith("64 devices for claim default/c are on their way already")
        assert (await here.guard.review(review(other, *thirties[2]))).status is HTTPStatus.OK


PARTS = {"/plugins": lambda: Page(200, "application/json", b'{"plugins":[]}\n')}


@asynccontextmanager
async def metrics_served(readers: Readers) -> AsyncIterator[aiohttp.ClientSession]:
    metrics = Metrics()
    metrics.counter("dray_something", "Of a tenant.").inc()
    async with (
        serve_metrics(metrics, checks={"/readyz": str}, pages=PARTS, readers=readers) as port,
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session,
    ):
        yield session


async def test_metrics_and_plugins_are_for_who_has_the_token(tmp_path: Path) -> None:
    (file := tmp_path / "token").write_text("a-token-of-sixteen\n")
    async with metrics_served(Readers(token_file=file)) as session:
        for path in ("/metrics", "/plugins"):
            for headers in (
                {},
                {"Authorization": "Bearer wrong"},
                {"Authorization": "Basic a-token-of-sixteen"},
            ):
                async with session.get(path, headers=headers) as answer:
                    assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
                    assert "a-token-of-sixteen" not in await answer.text()
            async with session.get(path, headers={"Authorization": "Bearer a-token-of-sixteen"}) as answer:
                assert answer.status == 200
        for path in ("/healthz", "/readyz"):
            assert (await session.get(path)).status == 200


@pytest.mark.parametrize("content", [None, "", " \n"])
async def test_without_a_token_in_the_file_metrics_are_for_nobody(
    tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    async with metrics_served(Readers(token_file=file)) as session:
        for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer"}):
            async with session.get("/metrics", headers=headers) as answer:
                assert (answer.status, "no token is set" in await answer.text()) == (401, True)
        assert (await session.get("/healthz")).status == 200
        # It may be made, and changed, while the part runs.
        file.write_text("now-there-is-a-token")
        async with session.get(
            "/metrics", headers={"Authorization": "Bearer now-there-is-a-token"}
        ) as answer:
            assert answer.status == 200


async def test_who_holds_connections_does_not_keep_probes_from_being_answered() -> None:
    """Else the kubelet would restart the part, as often as the stranger comes again."""
    async with serve_metrics(Metrics(), checks={"/readyz": str}) as port:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
        for path in ("/healthz", "/readyz"):
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{port}{path}") as answer,
            ):
                assert answer.status == 200
        for _, writer in held:
            writer.close()


async def test_wrong_logins_of_a_stranger_do_not_lock_the_owner_out_of_the_dashboard() -> None:
    async with alone() as looker:
        for _ in range(12):
            status, _, _ = await looker.ask("/api/fleet", token="a-wrong-token-of-a-stranger")
            assert status == 401
        status, _, _ = await looker.ask(
            "/api/login", method="POST", token="", body={"token": looker.at.token}
        )
        assert status == 200
