"""A small API server for one driver: real HTTP, the kinds of `dray.api.kinds`, get, list, watch and all writes.

It validates as a real one does and keeps what it refused, so that a rule can tell. It has no users, no memory beyond its
own life, and forgets no version.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import secrets
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from dray.api.codec import encode, view
from dray.api.defaults import set_defaults
from dray.api.field_errors import FieldError
from dray.api.http_status import status_for, to_status
from dray.api.kinds import ALL_RESOURCES, Resource, by_plural
from dray.api.names import SUFFIX_ALPHABET, generate
from dray.api.prepare import prepare_create, prepare_status, prepare_update
from dray.api.validation import validate, validate_status
from dray.apiserver.patching.entry import JSON_PATCH
from dray.apiserver.patching.json_patch import json_patched, read_operations
from dray.errors import ConflictError, Error, InvalidError, NotFoundError
from dray.runtime.clock import Clock
from dray.testing.check import kubernetes_protobuf

Document = dict[str, Any]
_JSON: Final = "application/json"
_STOP_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Place:
    """What a path names."""

    resource: Resource[Any]
    namespace: str
    name: str
    subresource: str


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the history."""

    version: int
    type: str
    plural: str
    document: Document


@dataclass
class SmallApiServer:
    """The objects, their history, and what was refused as invalid."""

    clock: Clock
    objects: dict[tuple[str, str, str], Document] = field(default_factory=dict)
    history: list[Change] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def version(self) -> int:
        """Of the last change."""
        return self.history[-1].version if self.history else 1

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Any request."""
        try:
            return await self._answer(request)
        except Error as error:
            code, _ = status_for(error)
            return web.Response(status=code, body=encode(to_status(error)), content_type=_JSON)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if (told := _discovery(request.path)) is not None:
            return web.json_response(told)
        place = parse_path(request.path)
        if request.method == "GET" and request.query.get("watch") in ("true", "1"):
            return await self._watch(request, place)
        if request.method == "GET":
            return web.json_response(self._read(request, place))
        if request.method == "DELETE":
            return web.json_response(await self._delete(request, place))
        if request.method == "PATCH" and request.content_type == JSON_PATCH:
            steps = read_operations(await _decoded(request))
            return web.json_response(await self.update(place, json_patched(self._get(place), steps)))
        document = await _body(request)
        if request.method == "POST":
            return web.json_response(await self.create(place, document), status=HTTPStatus.CREATED)
        if request.method == "PATCH":
            document = merged(copy.deepcopy(self._get(place)), document)
        return web.json_response(await self.update(place, document))

    def _read(self, request: web.Request, place: Place) -> Document:
        if place.name:
            return self._get(place)
        return {
            "apiVersion": place.resource.api_version,
            "kind": f"{place.resource.kind}List",
            "metadata": {"resourceVersion": str(self.version)},
            "items": [
                one for one in self._all(place) if _matches(one, request.query.get("fieldSelector", ""))
            ],
        }

    def _get(self, place: Place) -> Document:
        found = self.objects.get((place.resource.plural, place.namespace, place.name))
        if found is None:
            text = f'{place.resource} "{place.name}" not found'
            raise NotFoundError(text, kind=place.resource.plural, name=place.name)
        return found

    def _all(self, place: Place) -> list[Document]:
        return [
            document
            for (plural, namespace, _), document in sorted(self.objects.items())
            if plural == place.resource.plural and (not place.namespace or namespace == place.namespace)
        ]

    async def create(self, place: Place, document: Document) -> Document:
        """A new object, with what a server adds."""
        resource = place.resource
        metadata = document.setdefault("metadata", {})
        if place.namespace:
            metadata["namespace"] = place.namespace
        if not metadata.get("name"):
            suffix = "".join(secrets.choice(SUFFIX_ALPHABET) for _ in range(5))
            metadata["name"] = generate(metadata.get("generateName", ""), suffix)
        key = (resource.plural, place.namespace, metadata["name"])
        if key in self.objects:
            raise ConflictError(f'{resource} "{metadata["name"]}" already exists')
        now = self.clock.now()
        prepare_create(resource, document, uid=str(uuid.uuid4()), now=now)
        set_defaults(resource, document, now)
        self._check(resource, validate(resource, view(document, resource.type)))
        return await self._store("ADDED", resource, key, document)

    async def update(self, place: Place, document: Document) -> Document:
        """The object in place of the stored one, through the main door or its status."""
        resource, old = place.resource, self._get(place)
        _require_uid(document.get("metadata", {}), old)
        given = document.get("metadata", {}).get("resourceVersion")
        if given and given != old["metadata"]["resourceVersion"]:
            raise ConflictError(f'{resource} "{place.name}": the object has been modified; read it again')
        document, now = copy.deepcopy(document), self.clock.now()
        set_defaults(resource, document, now)
        document.setdefault("metadata", {})["resourceVersion"] = old["metadata"]["resourceVersion"]
        if place.subresource == "status":
            prepare_status(resource, document, old)
            before, after = view(old, resource.type), view(document, resource.type)
            self._check(resource, validate_status(resource, after, before))
        else:
            prepare_update(resource, document, old, now=now)
            before, after = view(old, resource.type), view(document, resource.type)
            self._check(resource, validate(resource, after, before))
        return await self._store(
            "MODIFIED", resource, (resource.plural, place.namespace, place.name), document
        )

    def _check(self, resource: Resource[Any], faults: list[FieldError]) -> None:
        if faults:
            text = "; ".join(str(one) for one in faults)
            self.refused.append(f"{resource.kind}: {text}")
            raise InvalidError(f"{resource.kind} is invalid: {text}", causes=tuple(faults))

    async def _store(
        self, change: str, resource: Resource[Any], key: tuple[str, str, str], document: Document
    ) -> Document:
        version = self.version + 1
        document |= {"apiVersion": resource.api_version, "kind": resource.kind}
        document["metadata"]["resourceVersion"] = str(version)
        if change == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = document
        self.history.append(Change(version, change, resource.plural, copy.deepcopy(document)))
        async with self._changed:
            self._changed.notify_all()
        return document

    async def _delete(self, request: web.Request, place: Place) -> Document:
        selector = request.query.get("fieldSelector", "")
        found = (
            [self._get(place)] if place.name else [one for one in self._all(place) if _matches(one, selector)]
        )
        wanted = (await _body(request) if request.can_read_body else {}).get("preconditions") or {}
        for document in found:
            _require_uid(wanted, document)
            metadata = document["metadata"]
            key = (place.resource.plural, metadata.get("namespace", ""), metadata["name"])
            await self._store("DELETED", place.resource, key, copy.deepcopy(document))
        return {"apiVersion": "v1", "kind": "Status", "status": "Success"}

    async def _watch(self, request: web.Request, place: Place) -> web.StreamResponse:
        query = request.query
        response = web.StreamResponse(headers={"Content-Type": _JSON})
        await response.prepare(request)
        seen = int(query.get("resourceVersion") or self.version)
        if query.get("sendInitialEvents") == "true":
            seen = self.version
            for document in self._all(place):
                if _matches(document, query.get("fieldSelector", "")):
                    await _send(response, "ADDED", document)
            await _send(response, "BOOKMARK", _bookmark(place.resource, seen))
        with contextlib.suppress(ConnectionResetError):  # who watched is gone
            while True:
                for change in [one for one in self.history if one.version > seen]:
                    seen = change.version
                    if change.plural == place.resource.plural and _is_watched(change.document, place, query):
                        await _send(response, change.type, change.document)
                await self._wait_newer(seen)
        return response

    async def _wait_newer(self, version: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.version > version)


def _require_uid(given: Document, stored: Document) -> None:
    """A write that names the object it means does not touch another one of the same name."""
    if given.get("uid", stored["metadata"]["uid"]) != stored["metadata"]["uid"]:
        raise ConflictError(f'"{stored["metadata"]["name"]}": another object has the name by now')


def _is_watched(document: Document, place: Place, query: Any) -> bool:
    namespace = document["metadata"].get("namespace", "")
    return (not place.namespace or namespace == place.namespace) and _matches(
        document, query.get("fieldSelector", "")
    )


def _bookmark(resource: Resource[Any], version: int) -> Document:
    annotations = {"k8s.io/initial-events-end": "true"}
    metadata = {"resourceVersion": str(version), "annotations": annotations}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


async def _send(response: web.StreamResponse, change: str, document: Document) -> None:
    await response.write(json.dumps({"type": change, "object": document}).encode() + b"\n")


async def _body(request: web.Request) -> Document:
    if request.content_type == kubernetes_protobuf.CONTENT_TYPE:
        return kubernetes_protobuf.read_object(await request.read())
    found = await _decoded(request)
    if not isinstance(found, dict):
        raise InvalidError("the body is not an object")
    return found


async def _decoded(request: web.Request) -> Any:
    try:
        return json.loads(await request.read())
    except ValueError as error:
        raise InvalidError(f"the body is not JSON: {error}") from error


def parse_path(path: str) -> Place:
    """What a URL path names; NotFoundError where there is no such kind."""
    parts = path.strip("/").split("/")
    if parts[:1] == ["api"] and len(parts) > 2:
        api_version, rest = parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        api_version, rest = f"{parts[1]}/{parts[2]}", parts[3:]
    else:
        raise NotFoundError("the server could not find the requested resource")
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    words = [*rest, "", ""]
    return Place(by_plural(api_version, words[0]), namespace, words[1], words[2])


def _matches(document: Document, selector: str) -> bool:
    """Equality only, as drivers use it."""
    for part in filter(None, selector.split(",")):
        key, _, wanted = part.replace("==", "=").partition("=")
        found: Any = document
        for word in key.split("."):
            found = found.get(word, "") if isinstance(found, dict) else ""
        if found != wanted:
            return False
    return True


def merged(document: Document, change: Document) -> Document:
    """A JSON merge patch, in place."""
    for key, value in change.items():
        if value is None:
            document.pop(key, None)
        elif isinstance(value, dict) and isinstance(document.get(key), dict):
            merged(document[key], value)
        else:
            document[key] = value
    return document


def _discovery(path: str) -> Document | None:
    if path == "/version":
        return {"major": "1", "minor": "36", "gitVersion": "v1.36.0"}
    if path in ("/readyz", "/healthz", "/livez"):
        return {}
    if path == "/apis/resource.k8s.io/v1":
        found = [one for one in ALL_RESOURCES if one.api_version == "resource.k8s.io/v1"]
        rows = [
            {
                "name": one.plural,
                "namespaced": one.namespaced,
                "kind": one.kind,
                "verbs": ["get", "list", "watch"],
            }
            for one in found
        ]
        return {"kind": "APIResourceList", "groupVersion": "resource.k8s.io/v1", "resources": rows}
    return None


@asynccontextmanager
async def served(api: SmallApiServer, kubeconfig: Path) -> AsyncIterator[None]:
    """Serve on loopback while entered; `kubeconfig` is written first."""
    application = web.Application(client_max_size=16 * 2**20)
    application.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(application, shutdown_timeout=_STOP_SECONDS, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        _write_kubeconfig(kubeconfig, f"http://127.0.0.1:{port}")
        yield
    finally:
        await runner.cleanup()


def _write_kubeconfig(path: Path, url: str) -> None:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "check",
        "contexts": [{"name": "check", "context": {"cluster": "check", "user": "check"}}],
        "clusters": [{"name": "check", "cluster": {"server": url}}],
        "users": [{"name": "check", "user": {}}],
    }
    path.write_text(json.dumps(document))
