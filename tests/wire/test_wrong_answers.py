"""A client against servers that answer wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest
from h2.connection import H2Connection
from h2.errors import ErrorCodes

from dray.errors import (
    DeniedError,
    InvalidError,
    NotFoundError,
    ProtocolError,
    UnavailableError,
)
from dray.wire.connect import connect
from dray.wire.deviceplugin import DevicePluginClient
from dray.wire.gen.deviceplugin_v1beta1_pb2 import AllocateRequest
from tests.waiting import PATIENCE
from tests.wire.samples import (
    HEADERS,
    Script,
    frame,
    request_for,
    scripted,
)

OK = [("grpc-status", "0")]


def answering(*parts: bytes, end: bool = True, trailers: list[tuple[str, str]] | None = OK) -> Script:
    def script(h2: H2Connection, number: int) -> None:
        h2.send_headers(number, HEADERS)
        for part in parts:
            h2.send_data(number, part)
        if trailers is not None:
            h2.send_headers(number, trailers, end_stream=True)
        elif end:
            h2.end_stream(number)

    return script


def refusing(*headers: tuple[str, str]) -> Script:
    def script(h2: H2Connection, number: int) -> None:
        h2.send_headers(number, list(headers), end_stream=True)

    return script


async def ask(path: Path, script: Script) -> object:
    async with scripted(path, script), connect(path, timeout=PATIENCE) as channel:
        return await DevicePluginClient(channel).allocate(AllocateRequest())


GRPC = [(":status", "200"), ("content-type", "application/grpc")]
WRONG = {
    "no message": (answering(), ProtocolError, "success without an answer"),
    "two messages": (answering(frame(b""), frame(b"")), ProtocolError, "more than one answer"),
    "not the message": (answering(frame(b"\xff\xff")), ProtocolError, "not a v1beta1.AllocateResponse"),
    "half a message": (answering(frame(b"", length=5)), ProtocolError, "middle of a message"),
    "half a prefix": (answering(b"\0\0"), ProtocolError, "middle of a message"),
    "compressed": (answering(frame(b"", flag=1)), ProtocolError, "compressed"),
    "too long": (answering(frame(b"", length=2**32 - 1)), ProtocolError, "larger than the limit"),
    "no trailers": (answering(frame(b""), trailers=None), UnavailableError, "without a status"),
    "no status": (answering(frame(b""), trailers=[("x", "y")]), ProtocolError, "status '' does not exist"),
    "odd status": (answering(trailers=[("grpc-status", "99")]), ProtocolError, "status '99' does not exist"),
    "text status": (answering(trailers=[("grpc-status", "OK")]), ProtocolError, "'OK' does not exist"),
    "error after message": (
        answering(frame(b""), trailers=[("grpc-status", "5"), ("grpc-message", "no%20such%20%C3%A4")]),
        NotFoundError,
        "no such ä",
    ),
    "error at once": (refusing(*GRPC, ("grpc-status", "16")), DeniedError, "UNAUTHENTICATED"),
    "ok at once": (refusing(*GRPC, ("grpc-status", "0")), ProtocolError, "success without an answer"),
    "http 503": (refusing((":status", "503")), UnavailableError, "HTTP status 503"),
    "http 404": (refusing((":status", "404")), ProtocolError, "HTTP status 404"),
    "http 418": (refusing((":status", "418")), ProtocolError, "HTTP status 418"),
    "not grpc": (
        refusing((":status", "200"), ("content-type", "text/html")),
        ProtocolError,
        "'text/html', not gRPC",
    ),
}


@pytest.mark.parametrize("case", WRONG)
async def test_a_wrong_answer_is_told_plainly(socket_path: Path, case: str) -> None:
    script, kind, text = WRONG[case]
    with pytest.raises(kind, match=text) as caught:
        await ask(socket_path, script)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(f"Allocate at '{socket_path}': ")


async def test_empty_frames_are_legal_anywhere(socket_path: Path) -> None:
    assert await ask(socket_path, answering(b"", b"\0\0", b"", b"\0\0\0", b"")) is not None


async def test_a_server_that_goes_away_politely(socket_path: Path) -> None:
    def go(h2: H2Connection, number: int) -> None:
        h2.close_connection()

    with pytest.raises(UnavailableError, match="GOAWAY"):
        await ask(socket_path, go)


async def test_an_answer_before_the_request_was_read(socket_path: Path) -> None:
    """The server refuses while we are still sending; its reason wins over our broken send."""
    status = refusing(*GRPC, ("grpc-status", "3"), ("grpc-message", "too big for me"))

    def refuse(h2: H2Connection, number: int) -> None:
        status(h2, number)
        h2.reset_stream(number, ErrorCodes.NO_ERROR)

    async with scripted(socket_path, refuse), connect(socket_path, timeout=PATIENCE) as channel:
        with pytest.raises(InvalidError, match="too big for me"):
            await DevicePluginClient(channel).allocate(request_for("x" * 1_000_000))
