"""Every error as the answer that Kubernetes' clients understand: a code, a reason and a Status. Pure."""

from __future__ import annotations

import msgspec

from dray.api.http_status import to_status
from dray.api.meta import Status, StatusCause, StatusDetails
from dray.apiserver.http.paths import Place
from dray.apiserver.patching.refusal import PatchError
from dray.apiserver.store.contract import Expired, RevisionTooLargeError
from dray.apiserver.writing.faults import (
    AlreadyExistsError,
    BadRequestError,
    TerminatingError,
    TooManyRequestsError,
)
from dray.errors import Error, InvalidError

_REASONS: dict[int, str] = {
    400: "BadRequest",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    408: "Timeout",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
}


class RequestError(InvalidError):
    """What is wrong is the request itself, not an object: `code` says how."""

    def __init__(self, code: int, message: str, field: str = "") -> None:
        super().__init__(message, field=field)
        self.code = code


def failure(error: Error, place: Place | None = None) -> Status:
    """The Status; its code is the answer's."""
    status = to_status(error, **_about(error, place)) if place else to_status(error)
    found = _coded(error)
    if found is not None:
        status = msgspec.structs.replace(status, code=found[0], reason=found[1])
    if causes := _causes(error):
        details = status.details or StatusDetails()
        status = msgspec.structs.replace(status, details=msgspec.structs.replace(details, causes=causes))
    if place is not None and status.details is not None and place.served.resource.group:
        details = msgspec.structs.replace(status.details, group=place.served.resource.group)
        status = msgspec.structs.replace(status, details=details)
    return status


def _about(error: Error, place: Place) -> dict[str, str]:
    """Of an object that breaks rules its kind and its name are told: a new one's name is in the text alone."""
    if not isinstance(error, InvalidError) or not error.causes:
        return {"kind": place.served.resource.plural, "name": place.name}
    named = str(error).split('"', 2)
    return {"kind": place.served.resource.kind, "name": place.name or (named[1] if len(named) > 2 else "")}


def _coded(error: Error) -> tuple[int, str] | None:
    """What the classes of `dray.errors` cannot tell apart."""
    if isinstance(error, RequestError):
        return error.code, _REASONS[error.code]
    if isinstance(error, PatchError):
        return error.status, error.reason
    if isinstance(error, BadRequestError):
        return 400, "BadRequest"
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
    if isinstance(error, TerminatingError | TooManyRequestsError):
        return error.causes
    return ()
