"""Names of a live cluster's objects for shell completion: asked over plain HTTP by the standard library, and in time.

The client that everything else uses takes longer to load than a person waits for a list of names.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

if TYPE_CHECKING:
    from dray.client.access import ClusterAccess

TIMEOUT: Final = 1.0
_METADATA: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
_DRA: Final = "/apis/resource.k8s.io/v1"
DEVICES: Final = "devices"


@dataclass(frozen=True, slots=True)
class Kind:
    """Where a kind is, and what people call it."""

    root: str
    plural: str
    namespaced: bool
    words: tuple[str, ...]


KINDS: Final = {
    "nodes": Kind("/api/v1", "nodes", False, ("node", "no")),
    "pods": Kind("/api/v1", "pods", True, ("pod", "po")),
    "claims": Kind(_DRA, "resourceclaims", True, ("claim", "resourceclaim", "resourceclaims")),
    "claimtemplates": Kind(
        _DRA, "resourceclaimtemplates", True, ("claimtemplate", "resourceclaimtemplate", "rct")
    ),
    "classes": Kind(_DRA, "deviceclasses", False, ("class", "deviceclass", "deviceclasses", "dc")),
    "slices": Kind(_DRA, "resourceslices", False, ("slice", "resourceslice", "resourceslices")),
    "events": Kind("/api/v1", "events", True, ("event", "ev")),
    "namespaces": Kind("/api/v1", "namespaces", False, ("namespace", "ns")),
    "configmaps": Kind("/api/v1", "configmaps", True, ("configmap", "cm")),
}
"""Those whose names are completed, by the word that is offered."""


def find_kind(word: str) -> str:
    """The kind that a word means; "" for one whose names are not completed."""
    word = word.lower()
    if word in (DEVICES, "device", "dev"):
        return DEVICES
    return next((name for name, one in KINDS.items() if word in (name, *one.words)), "")


class Names:
    """Asks one server. Whatever goes wrong comes out as an OSError, a ValueError or an Error, for the caller to drop."""

    def __init__(self, access: ClusterAccess, namespace: str) -> None:
        self._access = access
        self._namespace = namespace or access.namespace

    def of(self, kind: str) -> list[str]:
        """All names of a kind, in the namespace where it has one."""
        place = KINDS[kind]
        space = f"/namespaces/{quote(self._namespace, safe='')}" if place.namespaced else ""
        items = self._items(f"{place.root}{space}/{place.plural}")
        return sorted(str((one.get("metadata") or {}).get("name", "")) for one in items)

    def devices(self, node: str) -> list[str]:
        """Of one node."""
        query = urlencode({"fieldSelector": f"spec.nodeName={node}"})
        items = self._items(f"{_DRA}/resourceslices?{query}", accept="application/json")
        listed = [device for one in items for device in (one.get("spec") or {}).get("devices") or ()]
        return sorted({str(one.get("name", "")) for one in listed})

    def containers(self, pod: str) -> list[str]:
        """Of one pod."""
        path = f"/api/v1/namespaces/{quote(self._namespace, safe='')}/pods/{quote(pod, safe='')}"
        spec = self._get(path, "application/json").get("spec") or {}
        return [
            str(one.get("name", ""))
            for key in ("containers", "initContainers")
            for one in spec.get(key) or ()
        ]

    def _items(self, path: str, accept: str = _METADATA) -> Sequence[dict[str, Any]]:
        return [one for one in self._get(path, accept).get("items") or () if isinstance(one, dict)]

    def _get(self, path: str, accept: str) -> dict[str, Any]:
        server = urlsplit(self._access.server)
        connection = self._connection(server.hostname or "", server.port, is_tls=server.scheme == "https")
        try:
            connection.request("GET", f"{server.path.rstrip('/')}{path}", headers=self._headers(accept))
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        found = json.loads(body) if answer.status == 200 else {}
        return found if isinstance(found, dict) else {}

    def _connection(self, host: str, port: int | None, *, is_tls: bool) -> http.client.HTTPConnection:
        if not is_tls:
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT)
        from dray.client.credentials import build_context

        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=build_context(self._access))

    def _headers(self, accept: str) -> dict[str, str]:
        user = self._access.user
        token = user.token_file.read().decode().strip() if user.token_file is not None else user.token
        return {"Accept": accept} | ({"Authorization": f"Bearer {token}"} if token else {})
