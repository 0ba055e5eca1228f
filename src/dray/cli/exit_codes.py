"""The exit-code boundary of the error tree. The codes are a contract: scripts test for them."""

from __future__ import annotations

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

DONE = 0
REFUSED = 1
BAD_INPUT = 2
UNREACHABLE = 3

EXIT_CODES: dict[type[Error | InvariantError], int] = {
    InvalidError: BAD_INPUT,
    NotFoundError: REFUSED,
    ConflictError: REFUSED,
    DeniedError: REFUSED,
    UnavailableError: UNREACHABLE,
    ProtocolError: REFUSED,
    HardwareError: REFUSED,
    InvariantError: REFUSED,
}


def exit_code(error: Error | InvariantError) -> int:
    """The process's exit code for an error that reached the command line."""
    return next(code for kind, code in EXIT_CODES.items() if isinstance(error, kind))
