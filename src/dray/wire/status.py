"""The gRPC boundary: each of our errors as a status code, and each status code as one of our errors."""

from __future__ import annotations

import enum

from dray.errors import (
    ConflictError,
    DeniedError,
    Error,
    HardwareError,
    InvalidError,
    InvariantError,
    NotFoundError,
    ProtocolError,
    UnavailableError,
)

MESSAGE_BYTES = 2048
"""A longer status text is cut: it travels in a header, and gRPC's C core drops a call whose headers pass 8 KiB."""


class Code(enum.IntEnum):
    """gRPC's status codes, by their numbers on the wire."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


CODES: dict[type[Error | InvariantError], Code] = {
    Error: Code.UNKNOWN,
    InvalidError: Code.INVALID_ARGUMENT,
    NotFoundError: Code.NOT_FOUND,
    ConflictError: Code.ABORTED,
    DeniedError: Code.PERMISSION_DENIED,
    UnavailableError: Code.UNAVAILABLE,
    ProtocolError: Code.INTERNAL,
    HardwareError: Code.FAILED_PRECONDITION,
    InvariantError: Code.INTERNAL,
}
"""What a handler raises -> what its caller is told."""

ERRORS: dict[Code, type[Error]] = {
    Code.CANCELLED: UnavailableError,
    # What a Go server answers for any plain error: it failed, and did not say whose fault it is.
    Code.UNKNOWN: ProtocolError,
    Code.INVALID_ARGUMENT: InvalidError,
    Code.DEADLINE_EXCEEDED: UnavailableError,
    Code.NOT_FOUND: NotFoundError,
    Code.ALREADY_EXISTS: ConflictError,
    Code.PERMISSION_DENIED: DeniedError,
    Code.RESOURCE_EXHAUSTED: UnavailableError,
    Code.FAILED_PRECONDITION: HardwareError,
    Code.ABORTED: ConflictError,
    Code.OUT_OF_RANGE: InvalidError,
    Code.UNIMPLEMENTED: ProtocolError,
    Code.INTERNAL: ProtocolError,
    Code.UNAVAILABLE: UnavailableError,
    Code.DATA_LOSS: ProtocolError,
    Code.UNAUTHENTICATED: DeniedError,
}
"""What a peer answers -> what the caller gets. OK is no error."""


class StatusError(Exception):
    """A bare gRPC status: the faults of the protocol itself, and the cause behind an error a client raises.

    A handler raises `dray.errors`; it may raise this one where the contract asks for a code that no class of ours
    stands for, UNIMPLEMENTED above all.
    """

    def __init__(self, code: Code, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}" if self.message else self.code.name


class BrokenMessage(StatusError):  # noqa: N818
    """The peer sent something that is not the message it should be."""


class TooLarge(StatusError):  # noqa: N818
    """A message of ours does not fit the limit, and was not sent."""


def to_status(error: BaseException) -> StatusError:
    """What the caller is told about an exception that left a handler. Unknown ones keep their text to themselves."""
    if isinstance(error, StatusError):
        return error
    if isinstance(error, DeniedError) and not error.authenticated:
        return StatusError(Code.UNAUTHENTICATED, str(error))
    for kind in type(error).__mro__:
        if kind in CODES:
            return StatusError(CODES[kind], str(error))
    return StatusError(Code.INTERNAL, f"the handler failed with {type(error).__name__}; see the server's log")


def to_error(status: StatusError, doing: str) -> Error:
    """The error to raise (`from status`) when a call ended like this; `doing` names the call and the peer."""
    message = f"{doing}: {status.message or status.code.name}"
    if status.code in (
        Code.UNKNOWN,
        Code.UNIMPLEMENTED,
        Code.INTERNAL,
        Code.DATA_LOSS,
        Code.RESOURCE_EXHAUSTED,
    ):
        message += f" (gRPC status {status.code.name})"
    kind = ERRORS.get(status.code, ProtocolError)
    if status.code is Code.UNAUTHENTICATED:
        return DeniedError(message, authenticated=False)
    return kind(message)


def status_of(error: BaseException) -> StatusError | None:
    """The status behind an error that a client raised, None where there was none (a lost connection, a bad path)."""
    cause = error.__cause__
    return cause if isinstance(cause, StatusError) else None


def cut(message: str) -> str:
    """The text, short enough for a header."""
    data = message.encode("utf-8", "replace")
    if len(data) <= MESSAGE_BYTES:
        return message
    return data[: MESSAGE_BYTES - 3].decode("utf-8", "ignore") + "..."
