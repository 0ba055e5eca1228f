"""What a real API server says to a write. Creates are dry runs; updates need the old object to be stored first."""

from __future__ import annotations

import copy
import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from dray.api.kinds import Resource
from tests.api.cases.case import CURRENT, NAMESPACE, Case, Document, Faults

_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


class Server:
    """One connection to an API server, as administrator."""

    def __init__(self, address: str, authority: str, token: str) -> None:
        parts = urlsplit(address)
        context = ssl.create_default_context(cafile=authority)
        self._connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, context=context, timeout=30
        )
        self._headers = {**_HEADERS, "Authorization": f"Bearer {token}"}

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()

    def ask(self, method: str, path: str, body: Document | None = None) -> tuple[int, Any]:
        """Send a request; returns the code and the decoded answer."""
        data = json.dumps(body, separators=(",", ":")).encode() if body is not None else None
        self._connection.request(method, path, data, self._headers)
        response = self._connection.getresponse()
        return response.status, json.loads(response.read() or b"null")

    def must(self, method: str, path: str, body: Document | None = None) -> Any:
        """The same for a request that has to succeed."""
        code, answer = self.ask(method, path, body)
        assert code < 300, f"{method} {path}: {code} {answer}"
        return answer


Verdict = tuple[int, Faults]
"""The HTTP status code and the causes."""


def their_verdict(server: Server, case: Case) -> Verdict:
    """What the server makes of the write of a case; afterwards everything is as before."""
    if case.old is None:
        return _verdict(server.ask("POST", _collection(case.resource) + "?dryRun=All", case.new))
    with _stored(server, case) as stored:
        path = _path(case.resource, stored)
        new = copy.deepcopy(case.new)
        metadata = new.get("metadata")
        if isinstance(metadata, dict) and metadata.get("resourceVersion") == CURRENT:
            new["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
        if case.status:
            return _verdict(server.ask("PUT", f"{path}/status?dryRun=All", new))
        return _verdict(server.ask("PUT", f"{path}?dryRun=All", new))


@contextmanager
def _stored(server: Server, case: Case) -> Iterator[Document]:
    assert case.old is not None
    old = copy.deepcopy(case.old)
    stored = server.must("POST", _collection(case.resource), old)
    path = _path(case.resource, stored)
    try:
        if case.status and "status" in old:
            stored["status"] = old["status"]
            stored = server.must("PUT", f"{path}/status", stored)
        if case.deleting:
            server.must("DELETE", path)
        yield stored
    finally:
        _remove(server, path)


def _remove(server: Server, path: str) -> None:
    stored = server.must("GET", path)
    if stored["metadata"].pop("finalizers", None):
        server.must("PUT", path, stored)
    code, answer = server.ask("DELETE", f"{path}?gracePeriodSeconds=0")
    assert code in (200, 202, 404), answer


def _collection(resource: Resource[Any]) -> str:
    return resource.path(NAMESPACE if resource.namespaced else None)


def _path(resource: Resource[Any], document: Document) -> str:
    metadata = document["metadata"]
    return resource.path(metadata.get("namespace"), metadata["name"])


def _verdict(reply: tuple[int, Any]) -> Verdict:
    code, answer = reply
    causes = (answer.get("details") or {}).get("causes") or () if code == 422 else ()
    return code, frozenset((cause.get("field", ""), cause["reason"]) for cause in causes)
