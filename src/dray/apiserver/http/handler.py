"""Every request of the API: who asks, what for, may they, and the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from dray import __version__
from dray.api.codec import encode
from dray.apiserver.access.authorize import check_request
from dray.apiserver.access.identity import ANONYMOUS, Identity
from dray.apiserver.access.roles import Asked, check_path
from dray.apiserver.access.tokens import Tokens
from dray.apiserver.http.bodies import LIMIT, delete_options, write_options
from dray.apiserver.http.discovery import AGGREGATED, JSON, discover, discover_all
from dray.apiserver.http.failures import RequestError, failure
from dray.apiserver.http.lists import Found, as_list, as_table, find
from dray.apiserver.http.openapi import ROOT, openapi_document, openapi_index
from dray.apiserver.http.options import ListOptions, list_options
from dray.apiserver.http.paths import Group, Place, parse_path
from dray.apiserver.http.tables import table, wants_table
from dray.apiserver.http.watches import Lines, watching
from dray.apiserver.http.writes import Body, ClusterView, decide, decide_delete, decide_delete_all
from dray.apiserver.store.contract import Store
from dray.apiserver.writing.faults import not_found
from dray.apiserver.writing.request import Outcome, Rules, Write, Written
from dray.errors import Error, InvariantError, NotFoundError
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log

_log = get_log("apiserver.http")

KUBERNETES = ("1", "36")
"""The version whose API this is."""
WATCH_SECONDS = 1800.0
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_NOT_ALLOWED = "the server does not allow this method on the requested resource"
_HEALTH = ("/healthz", "/livez", "/readyz")


@dataclass(frozen=True, slots=True)
class _Call:
    """One request about a resource."""

    request: web.Request
    identity: Identity
    place: Place
    asked: Asked


class Handler:
    """Answers every request from the store."""

    def __init__(self, store: Store, rules: Rules, tokens: Tokens, clock: Clock) -> None:
        self._store = store
        self._rules = rules
        self._tokens = tokens
        self._clock = clock

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Any request. Whatever goes wrong is a Status; only our own bugs are a 500, and they are logged."""
        place: Place | None = None
        try:
            identity = self._tokens.identity(request.headers.get("Authorization", "")) or ANONYMOUS
            path = request.rel_url.raw_path
            found = parse_path(path, self._rules.serving)
            if isinstance(found, Place):
                place = found
                return await self._resource(request, identity, found)
            check_path(identity, path)
            return self._other(request, path, found)
        except web.HTTPRequestEntityTooLarge:
            error: Error = RequestError(413, f"Request entity too large: limit is {LIMIT}")
        except InvariantError as bug:
            _log.error("a request met a bug", path=request.path, error=str(bug))
            error = bug
        except Error as refusal:
            error = refusal
        return _refused(error, place)

    def _other(self, request: web.Request, path: str, found: Group | None) -> web.Response:
        if request.method != "GET":
            raise RequestError(405, _NOT_ALLOWED)
        if isinstance(found, Group):
            if (
                not found.group
                and not found.version
                and "g=apidiscovery.k8s.io" in request.headers.get("Accept", "")
            ):
                told = msgspec.json.encode(discover_all(self._rules.serving, core=found.core))
                return web.Response(body=told, headers={"Content-Type": AGGREGATED})
            return _json(msgspec.json.encode(discover(self._rules.serving, found)))
        if path in _HEALTH:
            return web.Response(text="ok")
        if path == "/version":
            major, minor = KUBERNETES
            version = f"v{major}.{minor}.0+dray-{__version__}"
            return _json(
                msgspec.json.encode(
                    {"major": major, "minor": minor, "gitVersion": version, "platform": "linux/amd64"}
                )
            )
        if path == ROOT:
            return _json(msgspec.json.encode(openapi_index(self._rules.serving)))
        if path.startswith(f"{ROOT}/"):
            wanted = parse_path(path.removeprefix(ROOT), self._rules.serving)
            if isinstance(wanted, Group) and wanted.version:
                return _json(openapi_document(self._rules.serving, wanted))
        raise NotFoundError("the server could not find the requested resource")

    async def _resource(self, request: web.Request, identity: Identity, place: Place) -> web.StreamResponse:
        options = ListOptions()
        if place.is_collection and request.method in ("GET", "DELETE"):
            options = list_options(request.query, place.served)
        asked = Asked(
            _verb(request.method, place, options),
            str(place.served.resource),
            place.namespace,
            place.name,
            place.subresource,
            options.pinned,
        )
        await self._store.write(lambda transaction: check_request(identity, asked, ClusterView(transaction)))
        call = _Call(request, identity, place, asked)
        if asked.verb == "get":
            return self._get(call)
        if asked.verb == "list":
            return self._list(call, options)
        if asked.verb == "watch":
            return await self._watch(call, options)
        return await self._change(call, options)

    def _get(self, call: _Call) -> web.Response:
        place = call.place
        if place.subresource not in ("", "status"):
            raise RequestError(405, _NOT_ALLOWED)
        stored = self._store.get(place.served.key(place.namespace, place.name))
        if stored is None:
            raise not_found(place.served, place.name)
        if wants_table(call.request.headers.get("Accept", "")):
            include = call.request.query.get("includeObject", "")
            document = msgspec.json.decode(stored.raw)
            metadata = {"resourceVersion": str(stored.revision)}
            told = table(place.served, [document], metadata, include, self._clock.now())
            return _json(msgspec.json.encode(told))
        return _json(stored.raw)

    def _list(self, call: _Call, options: ListOptions) -> web.Response:
        found = find(self._store, call.place, options)
        if wants_table(call.request.headers.get("Accept", "")):
            return _json(as_table(call.place, found, options.include, self._clock.now()))
        return _json(as_list(call.place, found))

    async def _watch(self, call: _Call, options: ListOptions) -> web.StreamResponse:
        tables = wants_table(call.request.headers.get("Accept", ""))
        lines = Lines(call.place, options, self._clock.now if tables else None)
        answer = web.StreamResponse(headers={"Content-Type": JSON})
        async with watching(self._store, call.place, options, lines) as told:
            await answer.prepare(call.request)
            try:
                async with asyncio.timeout(options.timeout or WATCH_SECONDS):
                    async for line in told:
                        await answer.write(line)
            except (TimeoutError, ConnectionResetError):
                pass
        return answer

    async def _change(self, call: _Call, options: ListOptions) -> web.Response:
        request, place, asked = call.request, call.place, call.asked
        data = await request.read()
        told = write_options(request.query, request.headers.get("User-Agent", ""))
        write = Write(
            self._rules,
            place.served,
            place.namespace,
            place.name,
            self._clock.now(),
            told.dry_run,
            told.field_validation,
        )
        if asked.verb in ("delete", "deletecollection"):
            return await self._delete(call, write, data, options)
        body = Body(data, request.headers.get("Content-Type", JSON))
        written = await self._store.write(
            lambda transaction: decide(transaction, write, place, asked, call.identity, body)
        )
        code = 201 if written.outcome is Outcome.CREATED or asked.verb == "create" else 200
        if place.subresource in ("binding", "eviction"):
            return _json(_success(place, written), 201, written.warnings)
        return _json(written.raw, code, written.warnings)

    async def _delete(self, call: _Call, write: Write, data: bytes, wanted: ListOptions) -> web.Response:
        request, place, asked, identity = call.request, call.place, call.asked, call.identity
        if place.subresource:
            raise RequestError(405, _NOT_ALLOWED)
        options = delete_options(data, request.headers.get("Content-Type", JSON), request.query)
        if options.dry_run and not write.dry_run:
            write = Write(
                write.rules,
                write.served,
                write.namespace,
                write.name,
                write.now,
                True,
                write.field_validation,
            )
        if asked.verb == "deletecollection":
            gone = await self._store.write(
                lambda transaction: decide_delete_all(transaction, write, asked, identity, options, wanted)
            )
            head = as_list(place, Found(self._store.revision, [], "", None))
            return _json(head[: -len(b"]}")] + b",".join(map(msgspec.json.encode, gone)) + b"]}")
        written = await self._store.write(
            lambda transaction: decide_delete(transaction, write, asked, identity, options)
        )
        if written.outcome is Outcome.DELETED and not place.served.returns_deleted:
            return _json(_success(place, written))
        return _json(written.raw)


def _verb(method: str, place: Place, options: ListOptions) -> str:
    if method == "GET":
        return "get" if place.name else "watch" if options.is_watch else "list"
    if method == "DELETE":
        return "delete" if place.name else "deletecollection"
    verb = _VERBS.get(method)
    needs_namespace = place.served.resource.namespaced and not place.namespace
    if verb is None or needs_namespace or (place.is_collection and verb != "create"):
        raise RequestError(405, _NOT_ALLOWED)
    return verb


def _json(body: bytes, code: int = 200, warnings: tuple[str, ...] = ()) -> web.Response:
    answer = web.Response(body=body, status=code, headers={"Content-Type": JSON})
    for one in warnings:
        text = one.encode("ascii", "backslashreplace").decode().replace("\\", "\\\\").replace('"', '\\"')
        answer.headers.add("Warning", f'299 - "{text}"')
    return answer


def _success(place: Place, written: Written) -> bytes:
    metadata: Mapping[str, Any] = msgspec.json.decode(written.raw).get("metadata", {})
    details = {"name": place.name, "kind": place.served.resource.plural, "uid": metadata.get("uid", "")}
    if place.served.resource.group:
        details["group"] = place.served.resource.group
    return msgspec.json.encode(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
            "code": 200,
        }
    )


def _refused(error: Error, place: Place | None) -> web.Response:
    status = failure(error, place)
    answer = _json(encode(status), status.code)
    if status.details is not None and status.details.retry_after_seconds:
        answer.headers["Retry-After"] = str(status.details.retry_after_seconds)
    if status.code == 401:
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer
