"""An API server that only lists: what it is given, in pages, to whom it may, behind real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from dray.api.codec import load_documents
from dray.api.defaults import set_defaults
from dray.api.kinds import by_kind
from dray.cli.main import main
from tests.client.servers import ScriptedServer, scripted

PLURALS = {
    "Node": "nodes",
    "Pod": "pods",
    "ResourceSlice": "resourceslices",
    "DeviceClass": "deviceclasses",
    "ResourceClaim": "resourceclaims",
    "ResourceClaimTemplate": "resourceclaimtemplates",
    "DeviceTaintRule": "devicetaintrules",
}
NAMESPACED = ("Pod", "ResourceClaim", "ResourceClaimTemplate")


@dataclass
class SmallApi:
    """`denied` and `missing` are plurals; `most` is how many objects a page has at most."""

    minor: str = "36"
    version: str = "v1"
    rules: str = "v1beta2"
    most: int = 1
    denied: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    objects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    server: ScriptedServer = field(default_factory=ScriptedServer)

    def add(self, text: str, namespace: str = "default") -> None:
        """Objects as a user would apply them; a server fills in what they leave out."""
        for manifest in load_documents(text):
            items = self.objects.setdefault(PLURALS[manifest.kind], [])
            metadata = {"uid": f"{manifest.kind}-{len(items)}", "resourceVersion": "7"}
            if manifest.kind in NAMESPACED:
                metadata["namespace"] = namespace
            raw = {key: value for key, value in manifest.raw.items() if key not in ("apiVersion", "kind")}
            set_defaults(by_kind(manifest.api_version, manifest.kind), raw, datetime(2026, 1, 1, tzinfo=UTC))
            items.append({**raw, "metadata": {**metadata, **raw["metadata"]}})

    async def handle(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        if parts == ["version"]:
            return _json({"major": "1", "minor": self.minor, "gitVersion": f"v1.{self.minor}.4"})
        if parts == ["apis", "resource.k8s.io"] and "resource.k8s.io" not in self.missing:
            return _json({"versions": [{"version": self.version}]})
        plural = parts[-1]
        namespace = parts[-2] if "namespaces" in parts else ""
        if plural in self.denied and not namespace:
            return _status(403, "Forbidden", f'{plural} is forbidden: User "tenant" cannot list resource')
        wanted = self.rules if plural == "devicetaintrules" else self.version
        group = ["api", "v1"] if plural in ("nodes", "pods") else ["apis", "resource.k8s.io", wanted]
        if plural in self.missing or parts[: len(group)] != group or plural not in PLURALS.values():
            return _status(404, "NotFound", "the server could not find the requested resource")
        return self._page(request, plural, namespace)

    def _page(self, request: web.Request, plural: str, namespace: str) -> web.StreamResponse:
        every = self.objects.get(plural, [])
        items = [one for one in every if not namespace or one["metadata"]["namespace"] == namespace]
        start = int(request.query.get("continue", "0"))
        stop = start + min(int(request.query.get("limit", "1000")), self.most)
        token = str(stop) if stop < len(items) else ""
        return _json({"metadata": {"resourceVersion": "9", "continue": token}, "items": items[start:stop]})


def _json(document: Any) -> web.Response:
    return web.json_response(document)


def _status(code: int, reason: str, message: str) -> web.Response:
    body = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": code}
    return web.json_response(body, status=code)


@asynccontextmanager
async def serving(api: SmallApi) -> AsyncIterator[SmallApi]:
    """Serve while entered."""
    async with scripted() as server:
        server.answer(api.handle)
        api.server = server
        yield api


def kubeconfig(folder: Path, url: str, namespace: str = "") -> str:
    """A file with one context."""
    context = {"cluster": "c", "user": "u", **({"namespace": namespace} if namespace else {})}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": context}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document))
    return str(path)


async def dray(*words: str) -> int:
    """A command, beside the server that it asks."""
    return await asyncio.to_thread(main, list(words))
