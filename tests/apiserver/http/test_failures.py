from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from dray.apiserver.access.identity import node, reader
from dray.apiserver.http.failures import failure
from dray.errors import Error, UnavailableError
from tests.apiserver.http.asking import MAPS, PODS, Asking, Document, asking

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
POD: Document = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "x"}]}}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Asking]:
    async with asking(tmp_path) as found:
        yield found


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "reason", "message", "details"),
    [
        (
            "GET",
            f"{CLAIMS}/x",
            None,
            404,
            "NotFound",
            'resourceclaims.resource.k8s.io "x" not found',
            {"name": "x", "group": "resource.k8s.io", "kind": "resourceclaims"},
        ),
        (
            "POST",
            "/api/v1/namespaces/none/pods",
            POD,
            404,
            "NotFound",
            'namespaces "none" not found',
            {"name": "none", "kind": "namespaces"},
        ),
        ("POST", PODS, POD, 409, "AlreadyExists", 'pods "p" already exists', {"name": "p", "kind": "pods"}),
        (
            "PUT",
            f"{PODS}/p",
            {**POD, "metadata": {"name": "p", "resourceVersion": "1"}},
            409,
            "Conflict",
            'Operation cannot be fulfilled on pods "p": the object has been modified; please apply your changes to',
            {"name": "p", "kind": "pods"},
        ),
        (
            "POST",
            f"{PODS}/p/binding",
            {"target": {"name": "m"}},
            409,
            "Conflict",
            'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"',
            {"name": "p", "kind": "pods/binding"},
        ),
        (
            "DELETE",
            "/api/v1/namespaces/default",
            None,
            403,
            "Forbidden",
            'namespaces "default" is forbidden: this namespace may not be deleted',
            {"name": "default", "kind": "namespaces"},
        ),
        (
            "POST",
            CLAIMS,
            {"metadata": {"name": "Bad"}, "spec": {}},
            422,
            "Invalid",
            'ResourceClaim.resource.k8s.io "Bad" is invalid: metadata.name: Invalid value: "Bad"',
            {"name": "Bad", "group": "resource.k8s.io", "kind": "ResourceClaim"},
        ),
        ("PUT", MAPS, {}, 405, "MethodNotAllowed", "the server does not allow", {}),
        ("GET", "/api/v1/nothing", None, 404, "NotFound", "could not find the requested resource", {}),
        ("POST", MAPS, "{", 400, "BadRequest", "the object provided is unrecognized", None),
        (
            "POST",
            f"{MAPS}?dryRun=Some",
            POD,
            422,
            "Invalid",
            'dryRun: Unsupported value: ["Some"]',
            {"kind": "CreateOptions", "group": "meta.k8s.io"},
        ),
    ],
)
async def test_a_status_names_what_it_is_about(
    server: Asking,
    method: str,
    path: str,
    body: object,
    code: int,
    reason: str,
    message: str,
    details: Document | None,
) -> None:
    await server.done("POST", PODS, POD)
    await server.done("POST", f"{PODS}/p/binding", {"target": {"name": "n"}})
    found, status = await server.ask(method, path, body)
    assert (found, status["code"], status["reason"]) == (code, code, reason)
    assert message in status["message"]
    told = dict(status["details"]) if "details" in status else None
    causes = told.pop("causes", None) if told else None
    assert told == details
    assert bool(causes) == (reason == "Invalid")


async def test_who_may_not_is_told_what(server: Asking) -> None:
    server.become(reader("eve"))
    code, status = await server.ask("DELETE", f"{CLAIMS}/x")
    assert (code, status["reason"]) == (403, "Forbidden")
    assert status["message"].startswith(
        'resourceclaims.resource.k8s.io "x" is forbidden: User "eve" cannot delete'
    )
    assert status["details"] == {"name": "x", "group": "resource.k8s.io", "kind": "resourceclaims"}


@pytest.mark.parametrize(
    "selector", ["", "spec.nodeName=n2", "spec.nodeName!=n1", "spec.driver=d.example.com"]
)
async def test_a_node_sees_no_slices_but_its_own(server: Asking, selector: str) -> None:
    for name in ("n1", "n2"):
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d.example.com", "nodeName": name, "pool": pool}
        await server.done("POST", SLICES, {"metadata": {"name": name}, "spec": spec})
    server.become(node("n1"))
    for query in (f"?fieldSelector={quote(selector)}", f"?watch=true&fieldSelector={quote(selector)}"):
        code, status = await server.ask("GET", SLICES + query)
        assert (code, status["reason"]) == (403, "Forbidden"), query
    assert (await server.ask("GET", f"{SLICES}/n2"))[0] == 403
    assert (await server.done("GET", f"{SLICES}/n1"))["metadata"]["name"] == "n1"
    found = await server.done("GET", f"{SLICES}?fieldSelector=spec.nodeName%3Dn1")
    assert [one["metadata"]["name"] for one in found["items"]] == ["n1"]


async def test_a_wrong_token_is_told_nothing(server: Asking) -> None:
    code, status = await server.ask("GET", PODS, Authorization="Bearer wrong")
    assert (code, status["message"], "details" in status) == (401, "Unauthorized", False)


def test_what_is_our_fault_says_so() -> None:
    status = failure(Error("no"))
    assert (status.code, status.message) == (500, "Internal error occurred: no")
    assert status.details is not None and [one.message for one in status.details.causes] == ["no"]


def test_when_to_come_back() -> None:
    status = failure(UnavailableError("busy", retry_after=3.0))
    assert status.details is not None and status.details.retry_after_seconds == 3
