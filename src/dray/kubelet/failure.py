"""The words of errors here: where it happened goes in front, gRPC's faults are told as a Go client tells them."""

from __future__ import annotations

from dray.errors import (
    ConflictError,
    DeniedError,
    Error,
    HardwareError,
    InvalidError,
    NotFoundError,
    ProtocolError,
    UnavailableError,
)
from dray.wire.status import Code, cut, status_of

_KINDS = (
    InvalidError,
    NotFoundError,
    ConflictError,
    DeniedError,
    UnavailableError,
    ProtocolError,
    HardwareError,
)
_NAMES = {Code.OK: "OK", Code.CANCELLED: "Canceled"}


def code_name(code: Code) -> str:
    """As Go writes it: `DeadlineExceeded`."""
    return _NAMES.get(code) or "".join(word.capitalize() for word in code.name.split("_"))


def prefixed(where: str, error: Error, text: str | None = None) -> Error:
    """The same kind of error with `where: ` in front of its text (or of `text`). Never for our own bugs."""
    message = f"{where}: {text if text is not None else error}"
    kind: type[Error] = next((kind for kind in _KINDS if isinstance(error, kind)), Error)
    if isinstance(error, UnavailableError):
        return UnavailableError(message, retry_after=error.retry_after)
    return kind(message)


def rpc_text(error: Error) -> str:
    """`rpc error: code = C desc = D`, for a call that failed. The peer's words are cut: they reach logs and pods."""
    status = status_of(error)
    if status is None:
        text = str(error)
    else:
        text = "context deadline exceeded" if status.code is Code.DEADLINE_EXCEEDED else status.message
    return f"rpc error: code = {rpc_code(error)} desc = {cut(text)}"


def rpc_code(error: Error) -> str:
    """The status code, also for the metric. Without one the call never got as far as the driver."""
    status = status_of(error)
    return code_name(Code.UNAVAILABLE if status is None else status.code)
