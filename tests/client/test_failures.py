from __future__ import annotations

import aiohttp
import pytest

from dray.client.failures import ExpiredError, from_connection, from_response, retry_after
from dray.errors import ConflictError, Error, UnavailableError


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:10 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 10.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT", "Date": "Wed, 21 Oct 2015 07:29:00 GMT"}, 0.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "9" * 400}, None),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


BODIES = [b"", b"null", b"[]", b"\xff", b'{"kind":"Status"}', b'{"kind":"Status","reason":5}', b"[" * 10_000]


@pytest.mark.parametrize("body", BODIES)
def test_every_status_is_an_error_whatever_the_body(body: bytes) -> None:
    for code in range(400, 600):
        error = from_response("GET x", code, {}, body)
        assert isinstance(error, Error)
        assert "\n" not in str(error)
        assert isinstance(error, UnavailableError) or code < 500


def test_gone_is_expired_and_a_conflict() -> None:
    body = b'{"kind":"Status","reason":"Expired","message":"too old","code":410}'
    error = from_response("GET x", 410, {}, body)
    assert isinstance(error, ExpiredError)
    assert isinstance(error, ConflictError)
    assert str(error) == "GET x: too old; list again"
    assert isinstance(from_response("GET x", 410, {}, b"gone"), ExpiredError)


def test_unknown_reason_of_a_server_in_trouble() -> None:
    error = from_response(
        "GET x", 500, {"Retry-After": "4"}, b'{"kind":"Status","reason":"New","message":"m"}'
    )
    assert isinstance(error, UnavailableError)
    assert (str(error), error.retry_after) == ("m", 4.0)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (aiohttp.ServerDisconnectedError(), UnavailableError, "the connection broke: Server disconnected"),
        (aiohttp.ClientPayloadError("x"), UnavailableError, "the connection broke in the middle"),
        (TimeoutError(), UnavailableError, "did not answer in time"),
        (ConnectionResetError(104, "whatever"), UnavailableError, "connection reset by peer"),
        (OSError(), UnavailableError, "OSError"),
        (aiohttp.ClientError(), UnavailableError, "ClientError"),
    ],
)
def test_connection_errors(error: Exception, kind: type[Error], words: str) -> None:
    found = from_connection("GET x", error)
    assert type(found) is kind
    assert words in str(found)
