"""The HTTP boundary: every error class has a status code and a Kubernetes reason, and every answer becomes an error.

The embedded API server answers with `to_status`; the client turns what any server answered into `error_from_status`.
"""

from __future__ import annotations

from typing import Any, Final

from dray.api.codec.json_codec import loads, view
from dray.api.field_errors import FieldError, Reason
from dray.api.meta import Status, StatusCause, StatusDetails
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

HTTP_STATUS: Final[dict[type[Error | InvariantError], tuple[int, str]]] = {
    Error: (500, "InternalError"),
    InvalidError: (422, "Invalid"),
    NotFoundError: (404, "NotFound"),
    ConflictError: (409, "Conflict"),
    DeniedError: (403, "Forbidden"),
    UnavailableError: (503, "ServiceUnavailable"),
    ProtocolError: (502, "InternalError"),
    HardwareError: (500, "InternalError"),
    InvariantError: (500, "InternalError"),
}

# Gone and Expired say "your copy is too old: read again", which is what a conflict asks for as well.
_CLASS_OF_REASON: Final[dict[str, type[Error]]] = {
    "Unauthorized": DeniedError,
    "Forbidden": DeniedError,
    "NotFound": NotFoundError,
    "AlreadyExists": ConflictError,
    "Conflict": ConflictError,
    "Gone": ConflictError,
    "Expired": ConflictError,
    "Invalid": InvalidError,
    "BadRequest": InvalidError,
    "MethodNotAllowed": InvalidError,
    "NotAcceptable": InvalidError,
    "RequestEntityTooLarge": InvalidError,
    "UnsupportedMediaType": InvalidError,
    "ServerTimeout": UnavailableError,
    "Timeout": UnavailableError,
    "TooManyRequests": UnavailableError,
    "ServiceUnavailable": UnavailableError,
    "StorageReadError": UnavailableError,
    "InternalError": UnavailableError,
}
_REASON_OF_CODE: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_MAX_TEXT: Final = 1000


def status_for(error: Error) -> tuple[int, str]:
    """The status code and the reason an error is answered with."""
    if isinstance(error, DeniedError) and not error.authenticated:
        return 401, "Unauthorized"
    return next(HTTP_STATUS[kind] for kind in type(error).__mro__ if kind in HTTP_STATUS)


def to_status(error: Error, *, kind: str = "", name: str = "") -> Status:
    """The body of the answer. `kind` and `name` say what the request was about, where the error does not."""
    code, reason = status_for(error)
    causes: tuple[StatusCause, ...] = ()
    retry_after = 0
    if isinstance(error, InvalidError):
        causes = tuple(_cause(cause) for cause in error.causes)
    elif isinstance(error, NotFoundError):
        kind, name = error.kind or kind, error.name or name
    elif isinstance(error, UnavailableError) and error.retry_after is not None:
        retry_after = min(max(round(error.retry_after), 1), 2**31 - 1)
    details = StatusDetails(kind=kind, name=name, causes=causes, retry_after_seconds=retry_after)
    empty = details == StatusDetails()
    return Status(
        status="Failure", message=str(error), reason=reason, details=None if empty else details, code=code
    )


def _cause(cause: Any) -> StatusCause:
    if isinstance(cause, FieldError):
        return StatusCause(reason=str(cause.reason), message=cause.message, field=cause.field)
    return StatusCause(message=str(cause))


def error_from_status(code: int, body: object, *, what: str = "", retry_after: float | None = None) -> Error:
    """The error an answer stands for. `body` is the answer, as bytes or decoded; a Kubernetes Status says most.

    `what` says what was asked and starts the message. `retry_after` is the Retry-After header in seconds; the Status'
    own value wins. A code that is no error, or that Kubernetes never sends, is a ProtocolError.
    """
    body = _decoded(body)
    status = _status(body)
    reason = status.reason or _REASON_OF_CODE.get(code, "InternalError" if 500 <= code < 600 else "")
    details = status.details or StatusDetails()
    message = status.message or f"the server answered {code} {reason}".strip() + _excerpt(body)
    message = f"{what}: {message}" if what else message
    kind = _CLASS_OF_REASON.get(reason) or _CLASS_OF_REASON.get(_REASON_OF_CODE.get(code, ""), ProtocolError)
    if kind is InvalidError:
        causes = tuple(_field_error(cause) for cause in details.causes)
        return InvalidError(message, field=causes[0].field if causes else "", causes=causes)
    if kind is NotFoundError:
        return NotFoundError(message, kind=details.kind, name=details.name)
    if kind is DeniedError:
        what = f"{details.kind} {details.name}".strip()
        return DeniedError(message, what=what, authenticated=reason != "Unauthorized")
    if kind is UnavailableError:
        return UnavailableError(message, retry_after=float(details.retry_after_seconds) or retry_after)
    return kind(message)


def _decoded(body: object) -> object:
    if not isinstance(body, bytes):
        return body
    try:
        return loads(body)
    except InvalidError:
        return body.decode(errors="replace")


def is_expired(code: int, body: object) -> bool:
    """Whether an answer (or the object of an ERROR watch event) says that a resourceVersion is too old: list again."""
    status = _status(_decoded(body))
    return code == 410 or status.code == 410 or status.reason in ("Gone", "Expired")


def is_already_there(code: int, body: object) -> bool:
    """Whether a create was refused because the name is taken, rather than because someone wrote in between."""
    return code == 409 and _status(_decoded(body)).reason == "AlreadyExists"


def _status(body: object) -> Status:
    if not isinstance(body, dict) or body.get("kind") != "Status":
        return Status()
    try:
        return view(body, Status)
    except InvalidError:
        message, reason = body.get("message"), body.get("reason")
        return Status(
            message=message if isinstance(message, str) else "",
            reason=reason if isinstance(reason, str) else "",
        )


def _excerpt(body: object) -> str:
    """The start of a plain text answer: proxies explain themselves that way."""
    text = " ".join(body.split())[:_MAX_TEXT] if isinstance(body, str) else ""
    return f": {text}" if text else ""


def _field_error(cause: StatusCause) -> FieldError:
    try:
        reason = Reason(cause.reason)
    except ValueError:
        reason = Reason.INTERNAL
    return FieldError(cause.field, reason, cause.message)
