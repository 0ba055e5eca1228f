"""How answers are put: JSON, warnings in headers, a Status where there is no object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from aiohttp import web

from dray.api.codec import encode, loads
from dray.apiserver.http.discovery import JSON
from dray.apiserver.http.failures import failure
from dray.apiserver.http.paths import Place
from dray.apiserver.writing.request import Written
from dray.errors import Error

_WARNING = 256
"""Characters of one warning, and of all: clients read headers only so far."""
_WARNED = 4096


def json_answer(body: bytes, code: int = 200, warnings: tuple[str, ...] = ()) -> web.Response:
    """An answer with the warnings that came up on the way."""
    answer = web.Response(body=body, status=code, headers={"Content-Type": JSON})
    for text in _quotable(warnings):
        answer.headers.add("Warning", f'299 - "{text}"')
    return answer


def _quotable(warnings: tuple[str, ...]) -> Iterator[str]:
    """As they may stand in headers. Names that a client made up are in them: no line ends there, and they have an end."""
    left = _WARNED
    for one in warnings:
        shown = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in one[:_WARNING])
        text = shown.encode("ascii", "backslashreplace").decode().replace("\\", "\\\\").replace('"', '\\"')
        left -= len(text)
        if left < 0:
            return
        yield text


def success(place: Place, written: Written) -> bytes:
    """The Status of a deletion that is done, or of what a door such as a binding did."""
    told: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if place.subresource:
        return msgspec.json.encode(told | {"code": 201})
    metadata: Mapping[str, Any] = msgspec.json.decode(written.raw).get("metadata", {})
    group = {"group": place.served.resource.group} if place.served.resource.group else {}
    kind, uid = place.served.resource.plural, metadata.get("uid", "")
    return msgspec.json.encode(told | {"details": {"name": place.name, **group, "kind": kind, "uid": uid}})


def refused(error: Error, place: Place | None) -> web.Response:
    """The Status of a refusal."""
    status = failure(error, place)
    told = {"kind": "Status", "apiVersion": "v1", "metadata": {}, **loads(encode(status))}
    if status.code in (404, 405):
        told.setdefault("details", {})
    answer = json_answer(msgspec.json.encode(told), status.code)
    if status.details is not None and status.details.retry_after_seconds:
        answer.headers["Retry-After"] = str(status.details.retry_after_seconds)
    if status.code == 401:
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer
