"""The ValidatingWebhookConfiguration with which an API server asks the guard. Pure, but for sending it."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from dray.client.client import Client
from dray.client.http import Request
from dray.client.requests import PatchType
from dray.controllers.guard.callers import CLAIMS_PATH, PARAMETERS_PATH, secret_at
from dray.controllers.guard.parameters import PLACES

NAME: Final = "dray-guard"
_GROUP: Final = "resource.k8s.io"
_VERSIONS: Final = ["v1", "v1beta1", "v1beta2"]
_SECONDS: Final = 10
_PATH: Final = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{NAME}"
_NEW_ALLOCATION: Final = (
    "has(object.status) && has(object.status.allocation) && (!has(oldObject.status) || "
    "!has(oldObject.status.allocation) || object.status.allocation != oldObject.status.allocation)"
)


@dataclass(frozen=True, slots=True)
class Service:
    """A Service of the cluster whose only ready endpoint is the guard that leads."""

    namespace: str
    name: str
    port: int = 443


@dataclass(frozen=True, slots=True)
class Target:
    """How the API server reaches the guard: a URL such as https://10.0.0.5:9617, or a Service; and whom it trusts.

    Of `secret` the last parts of the paths are made, by which the guard knows that an API server asks (see `callers.py`).
    """

    where: str | Service
    authority: bytes
    secret: str

    def client_config(self, path: str) -> dict[str, Any]:
        """As the webhook says it."""
        path = f"{path}/{secret_at(path, self.secret)}"
        bundle = {"caBundle": base64.b64encode(self.authority).decode()}
        if isinstance(self.where, str):
            return {"url": self.where.rstrip("/") + path, **bundle}
        service = {
            "namespace": self.where.namespace,
            "name": self.where.name,
            "port": self.where.port,
            "path": path,
        }
        return {"service": service, **bundle}


def configuration(target: Target, drivers: Sequence[str]) -> dict[str, Any]:
    """Fail-closed: while no guard answers, nothing new is allocated. All else about claims goes on.

    Parameters are asked about only for `drivers`, so that no other driver's claims depend on the guard.
    """
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [_claims(target), *(_parameters(target, one, drivers) for one in PLACES if drivers)],
    }


def _claims(target: Target) -> dict[str, Any]:
    return {
        "name": "claims.guard.dray.internal",
        # What is let through is reserved; a dry run reserves nothing.
        "sideEffects": "NoneOnDryRun",
        "clientConfig": target.client_config(CLAIMS_PATH),
        "rules": [_rule("resourceclaims/status", ["UPDATE"], "Namespaced")],
        "matchConditions": [{"name": "new-allocation", "expression": _NEW_ALLOCATION}],
        **_terms(),
    }


def _parameters(target: Target, resource: str, drivers: Sequence[str]) -> dict[str, Any]:
    is_class = resource == "deviceclasses"
    # The configuration of claims and templates never changes, and updates of old ones must go on.
    operations, scope = (["CREATE", "UPDATE"], "Cluster") if is_class else (["CREATE"], "Namespaced")
    return {
        "name": f"{resource}.parameters.guard.dray.internal",
        "sideEffects": "None",
        "clientConfig": target.client_config(PARAMETERS_PATH),
        "rules": [_rule(resource, operations, scope)],
        "matchConditions": [{"name": "own-drivers", "expression": _has_config_for(resource, drivers)}],
        **_terms(),
    }


def _terms() -> dict[str, Any]:
    return {
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": _SECONDS,
    }


def _rule(resource: str, operations: list[str], scope: str) -> dict[str, Any]:
    return {
        "apiGroups": [_GROUP],
        "apiVersions": _VERSIONS,
        "resources": [resource],
        "operations": operations,
        "scope": scope,
    }


def _has_config_for(resource: str, drivers: Sequence[str]) -> str:
    place = PLACES[resource]
    steps = ["object." + ".".join(place[: end + 1]) for end in range(1, len(place))]
    there = " && ".join(f"has({one})" for one in steps)
    names = json.dumps(sorted(drivers))
    return f"{there} && {steps[-1]}.exists(c, has(c.opaque) && c.opaque.driver in {names})"


async def install(client: Client, document: dict[str, Any]) -> None:
    """Apply it; the guard that leads owns every field of it, so that its own authority and address count."""
    body = json.dumps(document).encode()
    query = (("fieldManager", NAME), ("force", "true"))
    await client.raw(Request("PATCH", _PATH, query, body, content_type=PatchType.APPLY.value))
