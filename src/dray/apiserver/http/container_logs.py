"""`GET …/pods/NAME/log`: asked of the kubelet of the pod's node, and passed on as it comes."""

from __future__ import annotations

import base64
import os
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, unquote

import aiohttp
import msgspec
from aiohttp import web
from yarl import URL

from dray.api.core.node import KUBELET_AUTHORITY
from dray.apiserver.access.roles import Asked
from dray.apiserver.store.contract import Key, Store
from dray.apiserver.writing.faults import BadRequestError
from dray.errors import Error, NotFoundError, UnavailableError
from dray.runtime.certificates import Serving
from dray.runtime.logs import get_log

_log = get_log("apiserver.http")

Document = Mapping[str, Any]
USER: Final = ("kube-apiserver-kubelet-client", "system:masters")
"""Who the server is to kubelets, with the group that may do everything: they ask it back whether it may."""
_PATH: Final = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/pods/(?P<name>[^/]+)/log/?")
_PASSED: Final = (
    "follow", "limitBytes", "previous", "sinceSeconds", "sinceTime", "stream", "tailLines", "timestamps",
)  # fmt: skip
_CONNECT_SECONDS = 5.0
_ERROR_BYTES = 4096
_DEFAULT = "kubectl.kubernetes.io/default-container"


def log_request(path: str) -> Asked | None:
    """What a path asks for; None for all that ask for no log."""
    found = _PATH.fullmatch(path)
    return Asked("get", "pods", unquote(found["namespace"]), unquote(found["name"]), "log") if found else None


class KubeletLogs:
    """Asks kubelets as the server itself; whether the user may was asked before."""

    def __init__(self, session: aiohttp.ClientSession, pair: Serving) -> None:
        self._session = session
        self._contexts = lru_cache(maxsize=256)(lambda authority: _context(pair, authority))

    async def answer(self, request: web.Request, asked: Asked, store: Store) -> web.StreamResponse:
        """The log as text, for as long as the kubelet sends it."""
        pod = _found(store, Key("pods", asked.namespace, asked.name))
        container = choose_container(pod, request.query.get("container", ""))
        node = _node(store, pod, container)
        url = _url(
            node, asked, container, {name: request.query[name] for name in _PASSED if name in request.query}
        )
        context = self._contexts(_annotations(node).get(KUBELET_AUTHORITY, ""))
        async with self._asked(url, context, _name(node)) as response:
            answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
            answer.enable_chunked_encoding()
            await answer.prepare(request)
            try:
                async for piece in response.content.iter_any():
                    await answer.write(piece)
            except (aiohttp.ClientError, OSError) as error:
                # The reader must not take what came for all there is: without the last chunk it is cut off.
                _log.info("a log ended early", pod=asked.name, error=repr(error))
                if request.transport is not None:
                    request.transport.abort()
            return answer

    @asynccontextmanager
    async def _asked(
        self, url: URL, context: ssl.SSLContext, node: str
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        try:
            response = await self._session.get(url, ssl=context, timeout=limits, allow_redirects=False)
        except (aiohttp.ClientError, OSError) as error:
            raise UnavailableError(
                f"the kubelet of node {node} cannot be asked at {url.host}:{url.port}: {_reason(error)}"
            ) from error
        try:
            if response.status != 200:
                raise _refusal(response.status, await response.content.read(_ERROR_BYTES), node)
            yield response
        finally:
            response.close()


@asynccontextmanager
async def kubelet_logs(pair: Serving) -> AsyncIterator[KubeletLogs]:
    """While entered, kubelets can be asked with this client certificate."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield KubeletLogs(session, pair)


def choose_container(pod: Document, wanted: str) -> str:
    """The one that is named, or the only one, or the one that the pod itself names. The errors are Kubernetes'."""
    spec, name = _below(pod, "spec"), _name(pod)
    mains, inits, later = (
        _names(spec, field) for field in ("containers", "initContainers", "ephemeralContainers")
    )
    if wanted:
        if wanted in (*mains, *inits, *later):
            return wanted
        every = " ".join((*mains, *inits, *later))
        raise BadRequestError(f"container {wanted} is not valid for pod {name}, which has [{every}]")
    marked = _annotations(pod).get(_DEFAULT, "")
    if marked in mains:
        return str(marked)
    if len(mains) == 1:
        return mains[0]
    text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(mains)}]"
    raise BadRequestError(f"{text} or one of the init containers: [{' '.join(inits)}]" if inits else text)


def _found(store: Store, key: Key) -> Document:
    stored = store.get(key)
    if stored is None:
        raise NotFoundError(f'{key.resource} "{key.name}" not found', kind=key.resource, name=key.name)
    found: Document = msgspec.json.decode(stored.raw)
    return found


def _node(store: Store, pod: Document, container: str) -> Document:
    """The pod's node, with a kubelet that can be asked."""
    name = str(_below(pod, "spec").get("nodeName") or "")
    if not name:
        raise BadRequestError(
            f'container "{container}" in pod "{_name(pod)}" is waiting to start: the pod is on no node yet'
        )
    node = _found(store, Key("nodes", "", name))
    if not _port(node):
        raise BadRequestError(
            f"node {name} serves no logs: it is simulated, or its kubelet does not listen for the API server"
        )
    return node


def _url(node: Document, asked: Asked, container: str, query: Mapping[str, str]) -> URL:
    told = _below(node, "status").get("addresses") or ()
    by_type = {one.get("type"): str(one.get("address")) for one in reversed(told) if isinstance(one, dict)}
    host = by_type.get("InternalIP") or by_type.get("ExternalIP") or by_type.get("Hostname") or _name(node)
    path = "/".join(quote(one, safe="") for one in ("containerLogs", asked.namespace, asked.name, container))
    shown = f"[{host}]" if ":" in host else host
    return URL(f"https://{shown}:{_port(node)}/{path}", encoded=True).with_query(query)


def _reason(error: aiohttp.ClientError | OSError) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"it is not the kubelet that its Node tells of: {error.certificate_error}"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    number = cause.errno if isinstance(cause, OSError) else None
    return os.strerror(number).lower() if number else str(cause) or type(cause).__name__


def _refusal(code: int, body: bytes, node: str) -> Error:
    text = " ".join(body.decode(errors="replace").split()) or f"HTTP {code}"
    if code == 400:
        return BadRequestError(text)
    if code == 404:
        return NotFoundError(text)
    return UnavailableError(f"the kubelet of node {node} refused: {text}")


def _context(pair: Serving, authority: str) -> ssl.SSLContext:
    """A kubelet is known by the authority that its Node names; other kubelets name none, and are believed as Kubernetes does."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(pair.certificate, pair.key)
    if authority:
        try:
            context.load_verify_locations(cadata=base64.b64decode(authority, validate=True).decode("ascii"))
        except (ValueError, ssl.SSLError) as error:
            raise UnavailableError(
                f"the node's annotation {KUBELET_AUTHORITY} is no certificate: {error}"
            ) from error
    else:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _port(node: Document) -> int:
    found = _below(_below(_below(node, "status"), "daemonEndpoints"), "kubeletEndpoint").get("Port")
    return found if isinstance(found, int) and 0 < found < 65536 else 0


def _names(spec: Document, field: str) -> tuple[str, ...]:
    found = spec.get(field)
    return (
        tuple(str(one.get("name")) for one in found if isinstance(one, dict))
        if isinstance(found, list)
        else ()
    )


def _annotations(document: Document) -> Document:
    return _below(_below(document, "metadata"), "annotations")


def _name(document: Document) -> str:
    return str(_below(document, "metadata").get("name", ""))


def _below(parent: Document, key: str) -> Document:
    found = parent.get(key)
    return found if isinstance(found, dict) else {}
