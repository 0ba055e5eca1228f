from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from dray.api.kinds import CONFIG_MAPS, NAMESPACES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.apiserver.access.identity import Identity, admin, node, reader
from dray.apiserver.access.tokens import Tokens
from dray.apiserver.http.handler import Handler
from dray.apiserver.http.server import Address, serve
from dray.apiserver.http.writes import INDEXES
from dray.apiserver.store.sqlite import open_store
from dray.apiserver.writing import indexes
from dray.apiserver.writing.removing.emptying import create_namespaces
from dray.apiserver.writing.request import Rules
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.client.reflector import Reflector
from dray.client.requests import PatchType, Selection
from dray.errors import ConflictError, DeniedError, InvalidError, NotFoundError
from dray.runtime.certificates import serving_certificate
from dray.runtime.clock import SystemClock

POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "c", "image": "x"}]},
}


class Running:
    """A server with TLS, and clients of it."""

    def __init__(self, directory: Path, url: str, tokens: Tokens, ca: Path) -> None:
        self.url = url
        self._directory = directory
        self.tokens = tokens
        self.ca = ca

    def client(self, identity: Identity) -> Client:
        path = self._directory / f"{identity.name.replace(':', '-')}.kubeconfig"
        path.write_text(
            f"current-context: c\n"
            f"contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
            f"clusters: [{{name: c, cluster: {{server: '{self.url}', certificate-authority: {self.ca}}}}}]\n"
            f"users: [{{name: u, user: {{token: {self.tokens.issue(identity)}}}}}]\n"
        )
        return Client(find_access(path))


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Running]:
    clock, rules, tokens = SystemClock(), Rules(), Tokens(directory / "tokens.json")
    certificates = serving_certificate(directory / "pki", ("127.0.0.1",), datetime.now(UTC))
    async with open_store(directory / "store.db", indexes=(*INDEXES, *indexes())) as store:
        await store.write(lambda transaction: create_namespaces(transaction, rules, clock.now()))
        handler = Handler(store, rules, tokens, clock)
        async with serve(handler, Address(), certificates) as port:
            yield Running(directory, f"https://127.0.0.1:{port}", tokens, certificates.ca)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path) as found:
        yield found


@pytest.fixture
async def client(server: Running) -> AsyncIterator[Client]:
    async with server.client(admin()) as found:
        yield found


async def test_the_life_of_an_object(client: Client) -> None:
    made = await client.create(PODS, POD)
    assert made.metadata.uid and made.spec.restart_policy == "Always" and made.status.phase == "Pending"
    document = await client.get_raw(PODS, "p", namespace="default")
    document["metadata"]["labels"] = {"a": "b"}
    changed = await client.update(PODS, document)
    assert changed.metadata.labels == {"a": "b"}
    with pytest.raises(ConflictError, match="the object has been modified"):
        await client.update(PODS, document | {"metadata": document["metadata"] | {"labels": {}}})
    patch = {"metadata": {"labels": {"c": "d"}}}
    for kind in (PatchType.MERGE, PatchType.STRATEGIC):
        patched = await client.patch(PODS, "p", patch, namespace="default", patch_type=kind)
        assert patched.metadata.labels == {"a": "b", "c": "d"}
    found = await client.list(PODS, Selection(namespace="default", labels="c=d"))
    assert [one.metadata.name for one in found.items] == ["p"]
    await client.delete(PODS, "p", namespace="default")
    with pytest.raises(NotFoundError, match='pods "p" not found'):
        await client.get(PODS, "p", namespace="default")


async def test_what_is_refused_is_named(client: Client) -> None:
    await client.create(PODS, POD)
    with pytest.raises(ConflictError, match='pods "p" already exists'):
        await client.create(PODS, POD)
    with pytest.raises(InvalidError, match=r'Pod "q" is invalid.*spec\.containers') as caught:
        await client.create(PODS, {"metadata": {"name": "q", "namespace": "default"}, "spec": {}})
    assert caught.value.causes
    with pytest.raises(NotFoundError, match='namespaces "none" not found'):
        await client.create(PODS, {"metadata": {"name": "q", "namespace": "none"}, "spec": POD["spec"]})


async def test_a_reflector_follows_and_a_restart_loses_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as server, server.client(admin()) as client:
        async with Reflector(client, CONFIG_MAPS, Selection(namespace="default")) as reflector:
            await reflector.wait_synced()
            for number in range(20):
                await client.create(CONFIG_MAPS, {"metadata": {"name": f"c{number}", "namespace": "default"}})
            await client.delete(CONFIG_MAPS, "c3", namespace="default")
            async with asyncio.timeout(60):
                while len(reflector.snapshot()) != 19:
                    await reflector.wait_changed(reflector.generation)
        before = await client.list(CONFIG_MAPS)
    async with running(tmp_path) as server, server.client(admin("again")) as client:
        after = await client.list(CONFIG_MAPS)
        assert after.entries == before.entries
        assert {one.metadata.name for one in (await client.list(NAMESPACES)).items} >= {
            "default",
            "kube-system",
        }


async def test_roles(server: Running, client: Client) -> None:
    await client.create(PODS, POD)
    slice_: dict[str, Any] = {
        "metadata": {"name": "s"},
        "spec": {
            "driver": "d.example.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        },
    }
    async with (
        server.client(reader()) as watcher,
        server.client(node("n1")) as kubelet,
        server.client(Identity("eve")) as eve,
    ):
        assert (await watcher.list(PODS)).items
        with pytest.raises(DeniedError, match="cannot create"):
            await watcher.create(RESOURCE_SLICES, slice_)
        await kubelet.create(RESOURCE_SLICES, slice_)
        with pytest.raises(DeniedError, match=r"spec\.nodeName must be 'n1'"):
            other = slice_["spec"] | {"nodeName": "n2"}
            await kubelet.create(RESOURCE_SLICES, {"metadata": {"name": "t"}, "spec": other})
        with pytest.raises(NotFoundError):
            await client.get(RESOURCE_SLICES, "t")
        with pytest.raises(DeniedError):
            await kubelet.list(PODS)
        assert not (await kubelet.list(PODS, Selection(fields="spec.nodeName=n1"))).items
        with pytest.raises(DeniedError):
            await eve.list(PODS)


async def test_two_claims_never_hold_one_device(client: Client) -> None:
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
    result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "d"}
    status = {"allocation": {"devices": {"results": [result]}}}
    for name in ("a", "b"):
        await client.create(
            RESOURCE_CLAIMS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        )
    patches = [
        client.patch(RESOURCE_CLAIMS, name, {"status": status}, namespace="default", subresource="status")
        for name in ("a", "b")
    ]
    answers = await asyncio.gather(*patches, return_exceptions=True)
    refused = [one for one in answers if isinstance(one, BaseException)]
    assert len(refused) == 1 and isinstance(refused[0], ConflictError), refused
    assert "d.example.com/p/d" in str(refused[0])


async def ask(server: Running, method: str, path: str, **more: Any) -> tuple[int, Any]:
    usual = {"Authorization": f"Bearer {server.tokens.issue(admin())}", "Content-Type": "application/json"}
    headers = usual | more.pop("headers", {})
    data = io.BytesIO(more.pop("data", b""))
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
        session.request(method, server.url + path, headers=headers, data=data) as answer,
    ):
        return answer.status, await answer.json(content_type=None)


@pytest.mark.parametrize(
    ("method", "path", "more", "code", "reason"),
    [
        ("GET", "/api/v1/widgets", {}, 404, "NotFound"),
        ("GET", "/nowhere", {}, 404, "NotFound"),
        ("PUT", "/api/v1/namespaces/default/pods", {"data": b"{}"}, 405, "MethodNotAllowed"),
        ("POST", "/api/v1/pods", {"data": b"{}"}, 405, "MethodNotAllowed"),
        ("POST", "/healthz", {}, 405, "MethodNotAllowed"),
        ("POST", "/api/v1/namespaces/default/pods", {"data": b"{"}, 400, "BadRequest"),
        ("POST", "/api/v1/namespaces/default/pods", {"data": b"[]"}, 400, "BadRequest"),
        (
            "POST",
            "/api/v1/namespaces/default/pods",
            {"data": b"x" * (3 * 2**20 + 1)},
            413,
            "RequestEntityTooLarge",
        ),
        (
            "PATCH",
            "/api/v1/namespaces/default/pods/x",
            {"data": b"{}", "headers": {"Content-Type": "text/plain"}},
            404,
            "NotFound",
        ),
        (
            "POST",
            "/api/v1/namespaces/default/pods",
            {"data": b"{}", "headers": {"Content-Type": "text/plain"}},
            415,
            "UnsupportedMediaType",
        ),
        ("GET", "/api/v1/pods?limit=x", {}, 400, "BadRequest"),
        ("GET", "/api/v1/pods?fieldSelector=x%3D1", {}, 400, "BadRequest"),
        ("GET", "/api/v1/pods?resourceVersionMatch=Exact", {}, 422, "Invalid"),
        ("GET", "/api/v1/pods?resourceVersion=99999", {}, 504, "Timeout"),
        ("GET", "/api/v1/pods?watch=1&resourceVersion=99999", {}, 504, "Timeout"),
        ("DELETE", "/api/v1/namespaces/default/pods/x", {}, 404, "NotFound"),
    ],
)
async def test_bad_requests_get_a_status(
    server: Running, method: str, path: str, more: dict[str, Any], code: int, reason: str
) -> None:
    status, body = await ask(server, method, path, **more)
    assert (status, body["kind"], body["code"], body["reason"]) == (code, "Status", code, reason), body
    assert body["message"]


async def test_who_has_no_token(server: Running) -> None:
    status, body = await ask(server, "GET", "/api/v1/pods", headers={"Authorization": "Bearer x"})
    assert (status, body["reason"]) == (401, "Unauthorized")
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        async with session.get(f"{server.url}/readyz") as answer:
            assert answer.status == 200
        async with session.get(f"{server.url}/api/v1/pods") as answer:
            assert answer.status == 401


async def test_discovery_and_openapi(server: Running) -> None:
    _, index = await ask(server, "GET", "/openapi/v3")
    address = index["paths"]["apis/resource.k8s.io/v1"]["serverRelativeURL"]
    _, document = await ask(server, "GET", address)
    patch = document["paths"]["/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"][
        "patch"
    ]
    assert "fieldValidation" in [one["name"] for one in patch["parameters"]]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "ResourceClaim"
    _, told = await ask(
        server,
        "GET",
        "/apis",
        headers={"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"},
    )
    assert told["kind"] == "APIGroupDiscoveryList"
    _, version = await ask(server, "GET", "/version")
    assert version["gitVersion"].startswith("v1.36.0+dray-")


async def test_a_body_that_does_not_come(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client gets a Status."""
    monkeypatch.setattr("dray.apiserver.http.handler.BODY_SECONDS", 0.05)
    trust = ssl.create_default_context(cafile=server.ca)
    address = URL(server.url)
    reader_, writer = await asyncio.open_connection(address.host, address.port, ssl=trust)
    token = server.tokens.issue(admin())
    head = f"POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 99\r\n\r\n"
    writer.write(f'{head}{{"metadata":'.encode())
    async with asyncio.timeout(60):
        answer = await reader_.readuntil(b"seconds")
    writer.close()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"the request's body has not come within" in answer
