"""Who may ask a kubelet: whoever shows a certificate of the cluster's authority and may `get nodes/proxy`, as in Kubernetes.

So the kubelet needs to share no secret with the API server: its kubeconfig names the authority already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from dray.client.client import Client
from dray.client.http import Request
from dray.errors import DeniedError

_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_EVERYBODY = "system:authenticated"


@dataclass(frozen=True, slots=True)
class Caller:
    """The user that a certificate names."""

    name: str
    groups: tuple[str, ...] = ()


def caller_of(certificate: Mapping[str, Any] | None) -> Caller:
    """Out of a certificate that TLS has verified, as `ssl` tells it. DeniedError (401) where it names nobody."""
    subject: Iterable[Iterable[tuple[str, str]]] = (certificate or {}).get("subject", ())
    found = [pair for part in subject for pair in part]
    names = [value for key, value in found if key == "commonName"]
    if not names:
        raise DeniedError("the certificate names no user", authenticated=False)
    return Caller(names[-1], tuple(value for key, value in found if key == "organizationName"))


class Callers:
    """Asks the API server about each; one that is away makes nobody welcome."""

    def __init__(self, client: Client, node: str) -> None:
        self._client = client
        self._node = node

    async def check(self, caller: Caller) -> None:
        """DeniedError where the caller may not see what runs on this node."""
        about = {
            "verb": "get",
            "version": "v1",
            "resource": "nodes",
            "subresource": "proxy",
            "name": self._node,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": caller.name,
                "groups": [*caller.groups, _EVERYBODY],
                "resourceAttributes": about,
            },
        }
        told = await self._client.raw(Request("POST", _REVIEWS, body=msgspec.json.encode(review)))
        status = told.get("status")
        if not (isinstance(status, dict) and status.get("allowed") is True):
            raise DeniedError(
                f"{caller.name} may not get nodes/proxy of {self._node}", who=caller.name, what="nodes/proxy"
            )
