"""How answers are put: JSON with the status of its error, files with their ETag, and the same headers on all of them."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from dray.api.http_status import status_for
from dray.dashboard.fleet.model import json
from dray.dashboard.http.files import File
from dray.dashboard.http.security import HEADERS
from dray.dashboard.telling.explanations import BusyError
from dray.errors import Error, InvalidError, UnavailableError
from dray.runtime.http_server import RequestError

JSON = "application/json"
LARGE = 16 * 1024
"""Bytes from which on an answer is packed."""


class TooManyError(UnavailableError):
    """Too much of it at once, or in a short time."""


def json_answer(value: Any, status: int = 200) -> web.Response:
    """An answer that nobody keeps. Bytes are JSON already."""
    body = value if isinstance(value, bytes) else json(value)
    answer = web.Response(
        body=body, status=status, headers={"Content-Type": JSON, "Cache-Control": "no-store", **HEADERS}
    )
    if len(body) > LARGE:
        answer.enable_compression()
    return answer


def refused(error: Error) -> web.Response:
    """One line about what is wrong, where in the request, and all faults where there are several."""
    told: dict[str, Any] = {"error": str(error)}
    if isinstance(error, InvalidError):
        told["field"] = error.field or None
        if error.causes:
            told["causes"] = [str(cause) for cause in error.causes]
    answer = json_answer(told, code_of(error))
    if isinstance(error, UnavailableError) and error.retry_after is not None:
        answer.headers["Retry-After"] = str(max(round(error.retry_after), 1))
    if answer.status == 401:
        answer.headers["WWW-Authenticate"] = "Bearer"
    return answer


def code_of(error: Error) -> int:
    """The status; what the classes of `dray.errors` cannot tell apart comes first."""
    if isinstance(error, RequestError):
        return error.code
    if isinstance(error, BusyError | TooManyError):
        return 429
    return status_for(error)[0]


def file_answer(file: File, known: str) -> web.Response:
    """A file of the page, or only that it is the one the browser has (`known` is its If-None-Match)."""
    headers = {"ETag": file.etag, "Cache-Control": "no-cache", **HEADERS}
    if file.etag in (one.strip().removeprefix("W/") for one in known.split(",")):
        return web.Response(status=304, headers=headers)
    return web.Response(body=file.body, headers={**headers, "Content-Type": file.content_type})
