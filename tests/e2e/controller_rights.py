"""The rights that docs/reference/controllers.md says `dray controllers --guard` needs, and nothing more."""

from __future__ import annotations

import json
from typing import Any, Final

from dray.client.client import Client
from dray.client.http import Request

USER: Final = "dray-controllers"
_API: Final = "/apis/rbac.authorization.k8s.io/v1"
_READ: Final = ("get", "list", "watch")
EVERYWHERE: Final = (
    ("", "pods", (*_READ, "delete")),
    ("", "pods/status", ("patch",)),
    ("", "nodes", _READ),
    ("", "events", ("create", "get", "patch")),
    ("resource.k8s.io", "resourceclaims", (*_READ, "create", "patch", "delete")),
    ("resource.k8s.io", "resourceclaims/status", ("patch",)),
    ("resource.k8s.io", "resourceclaims/binding", ("patch",)),
    ("resource.k8s.io", "resourceclaimtemplates", _READ),
    ("resource.k8s.io", "resourceslices", ("list", "watch")),
    ("resource.k8s.io", "devicetaintrules", ("list", "watch")),
    ("resource.k8s.io", "devicetaintrules/status", ("patch",)),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations", ("create", "patch")),
)
OWN_NAMESPACE: Final = (
    ("", "configmaps", ("get", "create", "update")),
    ("coordination.k8s.io", "leases", ("get", "create", "update")),
)


async def grant(client: Client) -> None:
    """Let the user do this, and nothing else."""
    for prefix, kind, rules in (
        ("", "ClusterRole", EVERYWHERE),
        ("/namespaces/kube-system", "Role", OWN_NAMESPACE),
    ):
        plural = kind.lower() + "s"
        granted = [{"apiGroups": [group], "resources": [one], "verbs": verbs} for group, one, verbs in rules]
        await _create(client, f"{_API}{prefix}/{plural}", {"kind": kind, "rules": granted})
        bound = {
            "kind": f"{kind}Binding",
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": USER},
            "subjects": [{"kind": "User", "name": USER, "apiGroup": "rbac.authorization.k8s.io"}],
        }
        await _create(client, f"{_API}{prefix}/{kind.lower()}bindings", bound)


async def _create(client: Client, path: str, document: dict[str, Any]) -> None:
    whole = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": USER}, **document}
    await client.raw(Request("POST", path, body=json.dumps(whole).encode()))
