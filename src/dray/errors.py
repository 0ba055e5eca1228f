"""The one error tree, split first by whose fault it is, then by what the catcher does; and our own bug beside it.

    Error                 str() is one line a user can act on; facts are attributes
    ├ InvalidError        the input is wrong; never retried
    ├ NotFoundError       kind, name
    ├ ConflictError       someone wrote first: read again, redo
    ├ DeniedError         who, what; never retried
    ├ UnavailableError    the peer is away or slow; retry_after
    ├ ProtocolError       the other side broke the contract
    └ HardwareError       device, path

    InvariantError        our own bug; no Error, so that no `except Error` meets it: it ends the process

Each boundary maps every class once: gRPC in `wire/status.py`, HTTP in `api/http_status.py`, exit codes in
`cli/exit_codes.py`. Expected outcomes are values, not errors: "does not fit" is a `Refusal`.
"""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Base of all errors Dray raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class InvalidError(Error):
    """The input is wrong and stays wrong: show it, do not retry.

    `field` names the place (a field path, a flag, `file:line:column`); `causes` holds every single fault where
    several were found at once (`dray.api.field_errors.FieldError`).
    """

    def __init__(self, message: str, *, field: str = "", causes: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.field = field
        self.causes = causes


class NotFoundError(Error):
    """The named thing does not exist (any more)."""

    def __init__(self, message: str, *, kind: str = "", name: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.name = name


class ConflictError(Error):
    """Someone else wrote first, or holds it: read again and redo."""


class DeniedError(Error):
    """The caller may not do this. `authenticated` is False where the peer did not know who asked."""

    def __init__(self, message: str, *, who: str = "", what: str = "", authenticated: bool = True) -> None:
        super().__init__(message)
        self.who = who
        self.what = what
        self.authenticated = authenticated


class UnavailableError(Error):
    """The peer is away, slow or overloaded; asking again may help, after `retry_after` seconds if it said so."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ProtocolError(Error):
    """The other side broke the contract: its answer cannot be understood or must not be there."""


class HardwareError(Error):
    """A device or the host said no. `device` is the device's id, `path` the file that was touched."""

    def __init__(self, message: str, *, device: str = "", path: str = "") -> None:
        super().__init__(message)
        self.device = device
        self.path = path


class InvariantError(Exception):
    """Dray broke its own rule: a bug. The process ends and restarts from its checkpoint."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))
