from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dray.apiserver.access.identity import Identity, admin, node
from dray.apiserver.access.service_accounts import ISSUER, ServiceAccountTokens
from dray.apiserver.access.signing import Signer
from dray.apiserver.http.token_requests import requested_token, token_request
from dray.apiserver.writing.faults import BadRequestError
from dray.errors import ConflictError, DeniedError, Error, InvalidError, NotFoundError
from dray.runtime.clock import FakeClock
from tests.apiserver.writing.small_store import START, SmallStore, pod

PATH = "/api/v1/namespaces/default/serviceaccounts/robot/token"
POD = {"kind": "Pod", "apiVersion": "v1", "name": "web"}


VAULT: dict[str, Any] = {
    "name": "t",
    "projected": {
        "sources": [
            {"serviceAccountToken": {"audience": "vault", "path": "token"}},
            {"configMap": {"name": "ca"}},
        ]
    },
}


class Requests:
    def __init__(self, path: Path) -> None:
        self.store, self.clock = SmallStore(), FakeClock(START)
        self.signer = Signer(path / "k.key")
        self.account = self.store.create("serviceaccounts", {"metadata": {"name": "robot"}})
        self.pod = self.store.create("pods", pod(serviceAccountName="robot", nodeName="n1", volumes=[VAULT]))
        self.store.create("pods", pod("other", nodeName="n1"))

    def ask(self, spec: dict[str, Any], who: Identity | None = None, **metadata: str) -> dict[str, Any]:
        document = {"kind": "TokenRequest", "metadata": metadata, "spec": spec}
        asked = token_request(PATH)
        assert asked is not None
        told = self.store.run(
            lambda transaction: requested_token(
                asked,
                document,
                who or admin(),
                transaction,
                ServiceAccountTokens(self.signer, self.clock, transaction),
            )
        )
        found: dict[str, Any] = msgspec.json.decode(told)
        return found

    def who(self, token: str, *audiences: str) -> str:
        def known(transaction: Any) -> str:
            tokens = ServiceAccountTokens(self.signer, self.clock, transaction)
            return tokens.known(token, audiences or (ISSUER,))[0].name

        return self.store.run(known)


@pytest.fixture
def requests(tmp_path: Path) -> Requests:
    return Requests(tmp_path)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/n/serviceaccounts/x",
        "/api/v1/serviceaccounts/x/token",
        "/api/v1/pods",
        "/",
        PATH + "/x",
    ],
)
def test_other_paths_are_none(path: str) -> None:
    assert token_request(path) is None


def test_a_token_for_this_server(requests: Requests) -> None:
    told = requests.ask({})
    assert told["spec"] == {"audiences": [ISSUER], "expirationSeconds": 3600}
    assert told["metadata"] == {"name": "robot", "namespace": "default"}
    assert told["status"]["expirationTimestamp"] == "2030-01-01T01:00:00Z"
    assert requests.who(told["status"]["token"]) == "system:serviceaccount:default:robot"


def test_a_token_of_a_pod_for_somebody_else(requests: Requests) -> None:
    uid = requests.pod["metadata"]["uid"]
    spec = {"audiences": ["vault"], "expirationSeconds": 600, "boundObjectRef": {**POD, "uid": uid}}
    told = requests.ask(spec, node("n1"), name="robot", namespace="default")
    assert told["spec"] == spec
    token = told["status"]["token"]
    assert requests.who(token, "vault") == "system:serviceaccount:default:robot"
    assert requests.signer.read(token)["kubernetes.io"] == {  # type: ignore[index]
        "namespace": "default",
        "serviceaccount": {"name": "robot", "uid": requests.account["metadata"]["uid"]},
        "pod": {"name": "web", "uid": uid},
    }


@pytest.mark.parametrize(
    ("spec", "metadata", "error", "why"),
    [
        ({"expirationSeconds": 599}, {}, InvalidError, "less than 10 minutes"),
        ({"expirationSeconds": 2**32 + 1}, {}, InvalidError, "larger than 2\\^32 seconds"),
        ({}, {"name": "another"}, InvalidError, "must match the service account name"),
        ({}, {"namespace": "another"}, InvalidError, "must match the service account namespace"),
        ({}, {"uid": "another"}, ConflictError, "UID in the token request"),
        ({"boundObjectRef": {**POD, "uid": "another"}}, {}, ConflictError, "UID in the bound object"),
        ({"boundObjectRef": {**POD, "name": "gone"}}, {}, NotFoundError, 'pods "gone" not found'),
        ({"boundObjectRef": {**POD, "name": ""}}, {}, NotFoundError, 'pods "" not found'),
        ({"boundObjectRef": {**POD, "name": "other"}}, {}, BadRequestError, "different serviceaccount"),
        ({"boundObjectRef": {**POD, "kind": "Job"}}, {}, BadRequestError, "cannot bind token to object"),
        ({"boundObjectRef": {**POD, "kind": "pod"}}, {}, BadRequestError, "cannot bind token to object"),
        ({"boundObjectRef": {**POD, "apiVersion": "x/v1"}}, {}, BadRequestError, "cannot bind token"),
        ({"audiences": "x"}, {}, BadRequestError, "cannot be handled as a TokenRequest"),
        ({"expirationSeconds": "x"}, {}, BadRequestError, "cannot be handled as a TokenRequest"),
    ],
)
def test_refusals(
    requests: Requests, spec: dict[str, Any], metadata: dict[str, str], error: type[Error], why: str
) -> None:
    with pytest.raises(error, match=why):
        requests.ask(spec, None, **metadata)


def test_an_account_that_is_not_there(requests: Requests) -> None:
    asked = token_request(PATH.replace("robot", "nobody"))
    assert asked is not None and (asked.namespace, asked.name) == ("default", "nobody")
    objects = requests.store

    def ask(transaction: Any) -> bytes:
        tokens = ServiceAccountTokens(requests.signer, requests.clock, transaction)
        return requested_token(asked, {"spec": {}}, admin(), transaction, tokens)

    with pytest.raises(NotFoundError, match='serviceaccounts "nobody" not found'):
        objects.run(ask)


def test_a_node_gets_tokens_of_its_own_pods_only(requests: Requests) -> None:
    own: dict[str, Any] = {"boundObjectRef": {**POD, "uid": requests.pod["metadata"]["uid"]}}
    assert requests.ask({**own, "audiences": ["vault"]}, node("n1"))["status"]["token"]
    # The pod has a token for somebody else, and none for the API server.
    for audiences in ([], [""]):
        with pytest.raises(DeniedError, match="no volume of the pod has a token for audience ''"):
            requests.ask({**own, "audiences": audiences}, node("n1"))
    with pytest.raises(DeniedError, match="one audience at a time"):
        requests.ask({**own, "audiences": ["vault", "vault"]}, node("n1"))
    with pytest.raises(DeniedError, match="must give the uid of its pod"):
        requests.ask({"boundObjectRef": POD}, node("n1"))
    with pytest.raises(DeniedError, match="no volume of the pod has a token for audience 'bank'"):
        requests.ask({**own, "audiences": ["bank"]}, node("n1"))
    for spec, who in (({"boundObjectRef": POD}, node("n2")), ({}, node("n1"))):
        with pytest.raises(DeniedError, match="bound to its own pods"):
            requests.ask(spec, who)
