"""Every error as the answer that Kubernetes' clients understand: a code, a reason and a Status. Pure."""

from __future__ import annotations

import msgspec

from dray.api.http_status import status_for, to_status
from dray.api.meta import Status, StatusCause, StatusDetails
from dray.apiserver.http.paths import Place
from dray.apiserver.patching.apply.conflicts import ApplyConflictError
from dray.apiserver.patching.refusal import PatchError
from dray.apiserver.store.contract import Expired, RevisionTooLargeError
from dray.apiserver.writing.faults import (
    About,
    AlreadyExistsError,
    BadRequestError,
    NotAllowedError,
    TerminatingError,
    TooLargeError,
    TooManyRequestsError,
)
from dray.errors import Error, NotFoundError
from dray.runtime.http_server import RequestError

_REASONS: dict[int, str] = {
    400: "BadRequest",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    408: "Timeout",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
}


_WITH_OBJECT = ("NotFound", "Forbidden")
_WITH_CAUSES = ("Invalid", "Conflict", "Forbidden", "TooManyRequests", "Timeout", "InternalError")
_NOTHING = About("", "", "")


def failure(error: Error, place: Place | None = None) -> Status:
    """The Status; its code is the answer's. The details name what each reason names in Kubernetes, nothing more."""
    found = _coded(error) or status_for(error)
    status = to_status(error)
    given = status.details or StatusDetails()
    about = _about(error, found[1], place)
    details = StatusDetails(
        name=about.name,
        group=about.group,
        kind=about.kind,
        causes=_causes(error) or given.causes if found[1] in _WITH_CAUSES else (),
        retry_after_seconds=given.retry_after_seconds,
    )
    return msgspec.structs.replace(
        status,
        code=found[0],
        reason=found[1],
        message=_message(error, found[0]),
        details=None if details == StatusDetails() else details,
    )


def _about(error: Error, reason: str, place: Place | None) -> About:
    """A new object's name is known to the error alone."""
    known = getattr(error, "about", None)
    if isinstance(known, About):
        return known
    if isinstance(error, NotFoundError) and not error.name:
        return _NOTHING
    if reason not in _WITH_OBJECT or place is None:
        return About("", error.kind, error.name) if isinstance(error, NotFoundError) else _NOTHING
    resource = place.served.resource
    if isinstance(error, NotFoundError) and error.kind:
        group = resource.group if error.kind == resource.plural else ""
        return About(group, error.kind, error.name)
    return About(resource.group, resource.plural, place.name)


def _message(error: Error, code: int) -> str:
    if isinstance(error, ApplyConflictError):
        return error.message  # one line for each owner, which a plain text has not
    if code == 401:
        return "Unauthorized"
    return f"Internal error occurred: {error}" if code == 500 else str(error)


def _coded(error: Error) -> tuple[int, str] | None:
    """What the classes of `dray.errors` cannot tell apart."""
    if isinstance(error, RequestError):
        return error.code, _REASONS[error.code]
    if isinstance(error, PatchError):
        return error.status, error.reason
    if isinstance(error, BadRequestError):
        return 400, "BadRequest"
    if isinstance(error, NotAllowedError):
        return 405, "MethodNotAllowed"
    if isinstance(error, TooLargeError):
        return 413, "RequestEntityTooLarge"
    if isinstance(error, AlreadyExistsError):
        return 409, "AlreadyExists"
    if isinstance(error, Expired):
        return 410, "Expired"
    if isinstance(error, TooManyRequestsError):
        return 429, "TooManyRequests"
    if isinstance(error, RevisionTooLargeError):
        return 504, "Timeout"
    return None


def _causes(error: Error) -> tuple[StatusCause, ...]:
    if isinstance(error, RevisionTooLargeError):
        return (StatusCause(reason="ResourceVersionTooLarge", message="Too large resource version"),)
    if isinstance(error, TerminatingError | TooManyRequestsError | ApplyConflictError):
        return error.causes
    if status_for(error)[0] == 500:
        return (StatusCause(message=str(error)),)
    return ()
