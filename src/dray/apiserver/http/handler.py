"""Every request of the API: who asks, what for, may they, and the answer."""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass

import msgspec
from aiohttp import web

from dray import __version__
from dray.apiserver.access.authorize import check_request
from dray.apiserver.access.identity import ANONYMOUS, Identity
from dray.apiserver.access.impersonation import GROUP, USER, acting
from dray.apiserver.access.roles import Asked, check_path, is_open
from dray.apiserver.access.tokens import Tokens
from dray.apiserver.custom.definition import DEFINITIONS
from dray.apiserver.custom.live import Live
from dray.apiserver.forms import PLAIN
from dray.apiserver.http.answers import json_answer, refused, success
from dray.apiserver.http.bodies import LIMIT, delete_options, document_of, write_options
from dray.apiserver.http.container_logs import KubeletLogs, log_request
from dray.apiserver.http.discovery import AGGREGATED, JSON, discover, discover_all
from dray.apiserver.http.doorkeeper import Doorkeeper, server_hosts
from dray.apiserver.http.measures import Measures, Seen
from dray.apiserver.http.openapi import ROOT, ROOT_V2, openapi_document, openapi_index, openapi_v2
from dray.apiserver.http.options import ListOptions, list_options
from dray.apiserver.http.paths import Group, Place, parse_path
from dray.apiserver.http.reviews import review_kind, reviewed
from dray.apiserver.http.selector_checks import SelectorChecks
from dray.apiserver.http.showing.metadata_only import MetadataLines, as_metadata, metadata_of, wants_metadata
from dray.apiserver.http.showing.tables import table, wants_table
from dray.apiserver.http.showing.views import seen_from
from dray.apiserver.http.token_requests import requested_token, token_request
from dray.apiserver.http.watching.fanout import Watches
from dray.apiserver.http.watching.lists import Found, answer_list, as_list, as_table, find
from dray.apiserver.http.watching.watches import Lines, watching
from dray.apiserver.http.writes import Body, ClusterView, decide, decide_delete, decide_delete_all
from dray.apiserver.store.contract import LiveStore
from dray.apiserver.writing.faults import not_found
from dray.apiserver.writing.kinds.scale import scale_of
from dray.apiserver.writing.request import Outcome, Rules, Write
from dray.errors import DeniedError, Error, NotFoundError
from dray.runtime.clock import Clock
from dray.runtime.http_arrivals import Strangers
from dray.runtime.http_hosts import Hosts
from dray.runtime.http_server import RequestError
from dray.runtime.logs import get_log
from dray.runtime.metrics import CONTENT_TYPE, Metrics

_log = get_log("apiserver.http")

KUBERNETES = ("1", "36")
"""The version whose API this is."""
WATCH_SECONDS = 1800.0
BODY_SECONDS = 60.0
STRANGERS = 256
"""Connections on which nobody has shown a key yet."""
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

    def __init__(
        self,
        store: LiveStore,
        rules: Rules,
        tokens: Tokens,
        clock: Clock,
        live: Live | None = None,
        measures: Measures | None = None,
        logs: KubeletLogs | None = None,
        hosts: Hosts | None = None,
    ) -> None:
        """`live` is shared with the upkeep, which sees definitions go. Without `logs` no kubelet is asked for any."""
        self._store = store
        self._watches = Watches(store)
        self._live = live or Live(store, rules)
        self._tokens = tokens
        self._clock = clock
        self._measures = measures or Measures(Metrics(), clock)
        self._logs = logs
        self._doorkeeper = Doorkeeper(hosts or server_hosts())
        self._selector_checks = SelectorChecks(clock)
        self.strangers = Strangers(STRANGERS)
        """Who has no key, or has not asked yet."""

    @property
    def _rules(self) -> Rules:
        return self._live.rules

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Any request. Whatever goes wrong is a Status; only our own bugs are a 500, and they are logged."""
        with self._measures.request(request.method) as seen:
            answer = await self._answer(request, seen)
            seen.code = answer.status
            return answer

    async def _answer(self, request: web.Request, seen: Seen) -> web.StreamResponse:
        place: Place | None = None
        try:
            self._doorkeeper.check(request.headers)
            path = request.rel_url.raw_path
            identity = self._identity(request, path)
            if request.method == "POST" and (kind := review_kind(path)):
                asked = document_of(await _body(request), request.headers.get("Content-Type", JSON))
                return json_answer(await reviewed(kind, asked, identity, self._store, self._tokens), 201)
            if request.method == "POST" and (account := token_request(path)):
                return await self._account_token(request, identity, account)
            if self._logs is not None and request.method == "GET" and (wanted := log_request(path)):
                check_request(identity, wanted, ClusterView(self._store))
                return await self._logs.answer(request, wanted, self._store)
            found = parse_path(path, self._rules.serving)
            if isinstance(found, Place):
                place = found
                seen.resource = str(found.served.resource)
                return await self._resource(request, identity, found, seen)
            check_path(identity, path)
            return self._other(request, path, found)
        except web.HTTPRequestEntityTooLarge:
            error: Error = RequestError(413, f"Request entity too large: limit is {LIMIT}")
        except Error as refusal:
            error = refusal
        return refused(error, place)

    def _identity(self, request: web.Request, path: str) -> Identity:
        """Who asks, or for whom. DeniedError (401) without a token, but for the little that is for everybody."""
        headers = request.headers
        known = self._tokens.identity(headers.get("Authorization", ""))
        if known is None and not is_open(path):
            raise DeniedError("a bearer token is needed", authenticated=False)
        if known is not None:
            self.strangers.know(request)
        return acting(known or ANONYMOUS, headers.getall(USER, ()), headers.getall(GROUP, ()))

    async def _account_token(self, request: web.Request, identity: Identity, asked: Asked) -> web.Response:
        check_request(identity, asked, ClusterView(self._store))
        if self._tokens.accounts is None:
            raise NotFoundError("the server could not find the requested resource")
        document = document_of(await _body(request), request.headers.get("Content-Type", JSON))
        told = requested_token(asked, document, identity, self._store, self._tokens.accounts)
        return json_answer(told, 201)

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
            return json_answer(msgspec.json.encode(discover(self._rules.serving, found)))
        if path in _HEALTH:
            return web.Response(text="ok")
        if path == "/metrics":
            return web.Response(body=self._measures.render(), headers={"Content-Type": CONTENT_TYPE})
        if path == "/version":
            major, minor = KUBERNETES
            version = f"v{major}.{minor}.0+dray-{__version__}"
            return json_answer(
                msgspec.json.encode(
                    {"major": major, "minor": minor, "gitVersion": version, "platform": "linux/amd64"}
                )
            )
        if path == ROOT_V2:
            body, kind = openapi_v2(request.headers.get("Accept", ""))
            return web.Response(body=body, headers={"Content-Type": kind})
        if path == ROOT:
            return json_answer(msgspec.json.encode(openapi_index(self._rules.serving)))
        if path.startswith(f"{ROOT}/"):
            wanted = parse_path(path.removeprefix(ROOT), self._rules.serving)
            if isinstance(wanted, Group) and wanted.version:
                return json_answer(openapi_document(self._rules.serving, wanted))
        raise NotFoundError("the server could not find the requested resource")

    async def _resource(
        self, request: web.Request, identity: Identity, place: Place, seen: Seen
    ) -> web.StreamResponse:
        options = ListOptions()
        if place.is_collection and request.method in ("GET", "DELETE"):
            options = list_options(request.query, place.served)
        asked = Asked(
            _verb(request.method, place, options),
            str(self._rules.serving.kept(place.served).resource),
            place.namespace,
            place.name,
            place.subresource,
            options.pinned,
        )
        check_request(identity, asked, ClusterView(self._store))
        seen.verb = asked.verb
        call = _Call(request, identity, place, asked)
        if asked.verb == "get":
            return self._get(call)
        if asked.verb == "list":
            return await self._list(call, options)
        if asked.verb == "watch":
            return await self._watch(call, options)
        return await self._change(call, options)

    def _get(self, call: _Call) -> web.Response:
        place = call.place
        if place.subresource not in ("", "status", "scale"):
            raise RequestError(405, _NOT_ALLOWED)
        stored = seen_from(self._store, place).get(place.served.key(place.namespace, place.name))
        if stored is None:
            raise not_found(place.served, place.name)
        if place.subresource == "scale":
            return json_answer(msgspec.json.encode(scale_of(msgspec.json.decode(stored.raw))))
        if wants_table(call.request.headers.get("Accept", "")):
            include = call.request.query.get("includeObject", "")
            document = msgspec.json.decode(stored.raw)
            metadata = {"resourceVersion": str(stored.revision)}
            told = table(place.served, [document], metadata, include, self._clock.now())
            return json_answer(msgspec.json.encode(told))
        wanted = wants_metadata(call.request.headers.get("Accept", ""))
        return json_answer(metadata_of(stored.raw) if wanted else stored.raw)

    async def _list(self, call: _Call, options: ListOptions) -> web.StreamResponse:
        found = find(seen_from(self._store, call.place), call.place, options)
        if wants_table(call.request.headers.get("Accept", "")):
            return json_answer(as_table(call.place, found, options.include, self._clock.now()))
        if wants_metadata(call.request.headers.get("Accept", "")):
            return json_answer(as_metadata(call.place, found))
        return await answer_list(call.request, call.place, found)

    async def _watch(self, call: _Call, options: ListOptions) -> web.StreamResponse:
        accept = call.request.headers.get("Accept", "")
        lines = (MetadataLines if wants_metadata(accept) else Lines)(
            call.place, options, self._clock.now if wants_table(accept) else None
        )
        seconds = options.timeout or WATCH_SECONDS
        if call.place.form is PLAIN:
            return await self._watches.answer(call.request, call.place, options, lines, seconds)
        answer = web.StreamResponse(headers={"Content-Type": JSON})
        async with watching(seen_from(self._store, call.place), call.place, options, lines) as told:
            await answer.prepare(call.request)
            try:
                async with asyncio.timeout(seconds):
                    async for line in told:
                        await answer.write(line)
            except (TimeoutError, ConnectionResetError):
                pass
        return answer

    async def _change(self, call: _Call, options: ListOptions) -> web.Response:
        request, place, asked = call.request, call.place, call.asked
        data = await _body(request)
        body = Body(data, request.headers.get("Content-Type", JSON))
        is_apply = asked.verb == "patch" and body.is_apply
        agent = request.headers.get("User-Agent", "")
        told = write_options(request.query, request.method, agent, is_apply=is_apply)
        body = dataclasses.replace(body, force=told.force)
        write = Write(
            self._rules,
            self._rules.serving.kept(place.served),
            place.namespace,
            place.name,
            self._clock.now(),
            told.dry_run,
            told.field_validation,
            told.field_manager,
            is_apply,
        )
        if asked.verb in ("delete", "deletecollection"):
            return await self._delete(call, write, data, options)
        written = await self._selector_checks.write(
            self._store,
            write,
            lambda transaction, write: decide(transaction, write, place, asked, call.identity, body),
        )
        self._refresh(place)
        code = 201 if written.outcome is Outcome.CREATED or asked.verb == "create" else 200
        if place.subresource in ("binding", "eviction"):
            return json_answer(success(place, written), 201, written.warnings)
        return json_answer(_shown(place, written.raw), code, written.warnings)

    def _refresh(self, place: Place) -> None:
        if str(place.served.resource) == DEFINITIONS:
            self._live.refresh()

    async def _delete(self, call: _Call, write: Write, data: bytes, wanted: ListOptions) -> web.Response:
        request, place, asked, identity = call.request, call.place, call.asked, call.identity
        if place.subresource:
            raise RequestError(405, _NOT_ALLOWED)
        options = delete_options(data, request.headers.get("Content-Type", JSON), request.query)
        if options.dry_run and not write.dry_run:
            write = dataclasses.replace(write, dry_run=True)
        if asked.verb == "deletecollection":
            gone = await self._store.write(
                lambda transaction: decide_delete_all(transaction, write, asked, identity, options, wanted)
            )
            head = as_list(place, Found(self._store.revision, [], "", None))
            self._refresh(place)
            shown = (msgspec.json.encode(place.form.outward(one)) for one in gone)
            return json_answer(head[: -len(b"]}")] + b",".join(shown) + b"]}")
        written = await self._store.write(
            lambda transaction: decide_delete(transaction, write, asked, identity, options)
        )
        self._refresh(place)
        if written.outcome is Outcome.DELETED and not place.served.returns_deleted:
            return json_answer(success(place, written))
        return json_answer(_shown(place, written.raw))


async def _body(request: web.Request) -> bytes:
    """All of it. RequestError with 408 where it does not come: a client may be slow, but not hold its place for ever."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except TimeoutError:
        raise RequestError(408, f"the request's body has not come within {BODY_SECONDS:g} seconds") from None


def _shown(place: Place, raw: bytes) -> bytes:
    """An object as the client of this place knows it. A Scale has one form everywhere."""
    if place.form is PLAIN or place.subresource == "scale":
        return raw
    return msgspec.json.encode(place.form.outward(msgspec.json.decode(raw)))


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
