from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.apiserver.access.identity import ANONYMOUS, Identity, admin, node, reader
from dray.apiserver.access.service_accounts import ISSUER
from dray.apiserver.access.tokens import Tokens
from dray.apiserver.http.reviews import review_kind, reviewed
from dray.apiserver.http.writes import INDEXES
from dray.apiserver.store.contract import Store
from dray.apiserver.store.sqlite import open_store
from dray.errors import DeniedError
from dray.runtime.http_server import RequestError
from tests.apiserver.http.asking import asking

REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
PODS = {"verb": "create", "resource": "pods", "namespace": "default"}


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path / "store.db", indexes=INDEXES) as opened:
        yield opened


class Reviews:
    def __init__(self, store: Store, tokens: Tokens) -> None:
        self.tokens = tokens
        self._store = store

    async def ask(self, kind: str, identity: Identity, spec: Any) -> dict[str, Any]:
        document = {"kind": kind, "spec": spec}
        told = msgspec.json.decode(await reviewed(kind, document, identity, self._store, self.tokens))
        assert told["spec"] == spec
        status: dict[str, Any] = told["status"]
        return status


@pytest.fixture
def reviews(store: Store, tmp_path: Path) -> Reviews:
    return Reviews(store, Tokens(tmp_path / "tokens.json"))


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        ("/apis/authorization.k8s.io/v1/namespaces/n/localsubjectaccessreviews", "LocalSubjectAccessReview"),
        ("/apis/authentication.k8s.io/v1/tokenreviews", "TokenReview"),
        ("/apis/authentication.k8s.io/v1/subjectaccessreviews", ""),
        ("/apis/authorization.k8s.io/v1", ""),
        ("/api/v1/pods", ""),
    ],
)
def test_reviews_have_paths_of_their_own(path: str, kind: str) -> None:
    assert review_kind(path) == kind


@pytest.mark.parametrize(("identity", "allowed"), [(admin(), True), (reader(), False), (node("n"), False)])
async def test_what_one_may_oneself(reviews: Reviews, identity: Identity, allowed: bool) -> None:
    spec = {"resourceAttributes": PODS}
    assert await reviews.ask("SelfSubjectAccessReview", identity, spec) == {"allowed": allowed}
    reading = {"resourceAttributes": {"verb": "list", "resource": "devices", "group": "example.com"}}
    assert (await reviews.ask("SelfSubjectAccessReview", identity, reading))["allowed"] is (
        identity != node("n")
    )


async def test_paths_that_are_no_resources(reviews: Reviews) -> None:
    spec = {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}
    assert await reviews.ask("SelfSubjectAccessReview", reader(), spec) == {"allowed": True}
    assert await reviews.ask("SelfSubjectAccessReview", node("n"), spec) == {"allowed": False}


async def test_administrators_and_nodes_may_ask_about_others(reviews: Reviews) -> None:
    spec = {"resourceAttributes": PODS, "user": "admin", "groups": ["system:masters"]}
    assert await reviews.ask("SubjectAccessReview", admin(), spec) == {"allowed": True}
    assert await reviews.ask("SubjectAccessReview", admin(), {**spec, "groups": []}) == {"allowed": False}
    assert await reviews.ask("SubjectAccessReview", node("n"), spec) == {"allowed": True}
    for identity in (reader(), ANONYMOUS):
        with pytest.raises(DeniedError, match=r'cannot create resource "subjectaccessreviews"'):
            await reviews.ask("SubjectAccessReview", identity, spec)


async def test_who_one_is(reviews: Reviews) -> None:
    user = {"username": "reader", "groups": ["dray:readers", "system:authenticated"]}
    assert await reviews.ask("SelfSubjectReview", reader(), {}) == {"userInfo": user}
    with pytest.raises(DeniedError):
        await reviews.ask("SelfSubjectReview", ANONYMOUS, {})


async def test_whose_a_token_is(reviews: Reviews) -> None:
    token = reviews.tokens.issue(reader())
    status = await reviews.ask("TokenReview", admin(), {"token": token})
    assert (status["authenticated"], status["user"]["username"]) == (True, "reader")
    assert "authenticated" not in await reviews.ask("TokenReview", admin(), {"token": "x"})
    assert await reviews.ask("TokenReview", admin(), {}) == {"user": {}}
    here, there = {"token": token, "audiences": ["x", ISSUER]}, {"token": token, "audiences": ["x"]}
    assert (await reviews.ask("TokenReview", node("n"), here))["audiences"] == [ISSUER]
    assert "another audience" in (await reviews.ask("TokenReview", node("n"), there))["error"]


async def test_the_list_of_rights(reviews: Reviews) -> None:
    status = await reviews.ask("SelfSubjectRulesReview", reader(), {"namespace": "default"})
    assert status["resourceRules"] == [
        {"verbs": ["get", "list", "watch"], "apiGroups": ["*"], "resources": ["*"]}
    ]
    assert (await reviews.ask("SelfSubjectRulesReview", node("n"), {}))["incomplete"] is True


@pytest.mark.parametrize(
    "spec", [None, [], {}, {"resourceAttributes": 3}, {"nonResourceAttributes": {"path": ""}}]
)
async def test_a_review_that_asks_nothing_is_refused(reviews: Reviews, spec: Any) -> None:
    with pytest.raises(RequestError, match="must have resourceAttributes"):
        await reviews.ask("SelfSubjectAccessReview", admin(), spec)


async def test_a_body_that_is_no_object_is_refused(reviews: Reviews, store: Store) -> None:
    with pytest.raises(RequestError, match="must be a TokenReview"):
        await reviewed("TokenReview", [], admin(), store, reviews.tokens)


async def test_a_server_answers_as_who_is_impersonated(tmp_path: Path) -> None:
    review = {"spec": {"resourceAttributes": PODS}}
    somebody = {"Impersonate-User": "somebody"}
    async with asking(tmp_path) as client:
        for headers, allowed in (({}, True), (somebody, False)):
            code, told = await client.ask("POST", REVIEW, review, **headers)
            assert (code, told["status"]) == (201, {"allowed": allowed})
        assert (await client.ask("GET", "/api/v1/pods", **somebody))[0] == 403
        client.become(reader())
        assert (await client.ask("GET", "/api/v1/pods"))[0] == 200
        assert (await client.ask("GET", "/api/v1/pods", **{"Impersonate-User": "admin"}))[0] == 403
        assert (await client.ask("GET", "/openapi/v2"))[1]["swagger"] == "2.0"
