"""Refusals in the API server's words. The classes add what their parents in `dray.errors` cannot tell apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dray.api.field_errors import FieldError, to_error
from dray.api.meta import StatusCause
from dray.apiserver.served import Served
from dray.errors import ConflictError, DeniedError, InvalidError, NotFoundError, UnavailableError

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class About(NamedTuple):
    """What a refusal is about, for the details of its Status."""

    group: str
    kind: str
    name: str


def about(what: object, name: str) -> About:
    """`what` is a resource or a kind with its group, as in `pods/binding` or `ResourceClaim.resource.k8s.io`."""
    kind, _, group = str(what).partition(".")
    return About(group, kind, name)


class ObjectInvalidError(InvalidError):
    """422: rules about an object are broken; `causes` are all of them."""

    def __init__(self, kind: str, name: str, errors: Iterable[FieldError]) -> None:
        error = to_error(kind, name, errors)
        super().__init__(str(error), field=error.field, causes=error.causes)
        self.about = about(kind, name)


class ObjectConflictError(ConflictError):
    """409 about one object."""

    def __init__(self, message: str, what: About) -> None:
        super().__init__(message)
        self.about = what


class ForbiddenError(DeniedError):
    """403 about one object: an admission rule says no."""

    def __init__(self, message: str, what: About) -> None:
        super().__init__(message, what=f"{what.kind} {what.name}")
        self.about = what


class AlreadyExistsError(ObjectConflictError):
    """409 with the reason AlreadyExists: the name is taken, and reading again does not help."""


class BadRequestError(InvalidError):
    """400 with the reason BadRequest: the request itself makes no sense, before any rule about the object."""


class TooLargeError(InvalidError):
    """413 with the reason RequestEntityTooLarge: the object is larger than any may be."""


class NotAllowedError(InvalidError):
    """405 with the reason MethodNotAllowed: not while the kind is on its way out."""


class TerminatingError(ForbiddenError):
    """403 because the namespace is going away; `causes` tells clients so."""

    def __init__(self, message: str, what: About, *, namespace: str) -> None:
        super().__init__(message, what)
        self.causes = (
            StatusCause(
                reason="NamespaceTerminating",
                message=f"namespace {namespace} is being terminated",
                field="metadata.namespace",
            ),
        )


class TooManyRequestsError(UnavailableError):
    """429 with the reason TooManyRequests: a disruption budget holds the eviction up."""

    def __init__(self, message: str, *, cause: str, retry_after: float | None = None) -> None:
        super().__init__(message, retry_after=retry_after)
        self.causes = (StatusCause(reason="DisruptionBudget", message=cause),)


def not_found(served: Served, name: str) -> NotFoundError:
    """There is no such object."""
    resource = served.resource
    return NotFoundError(f'{resource} "{name}" not found', kind=resource.plural, name=name)


def already_there(served: Served, name: str, *, generated: bool = False) -> AlreadyExistsError:
    """The name is taken; `generated`: by every name that was tried."""
    more = ", the server was not able to generate a unique name for the object" if generated else ""
    text = f'{served.resource} "{name}" already exists{more}'
    return AlreadyExistsError(text, about(served.resource, name))


def conflict(what: object, name: str, why: str) -> ConflictError:
    """Somebody wrote first, or holds it. `what` is the resource, `pods/binding` included."""
    text = f'Operation cannot be fulfilled on {what} "{name}": {why}'
    return ObjectConflictError(text, about(what, name))


def failed(what: object, name: str, field: str, wanted: str, found: str) -> ConflictError:
    """A precondition does not hold; `field` is UID or ResourceVersion."""
    why = f"Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
    return conflict(what, name, why)


def denied(what: object, name: str, why: str) -> DeniedError:
    """An admission rule says no."""
    return ForbiddenError(f'{what} "{name}" is forbidden: {why}', about(what, name))


def refuse_faults(served: Served, name: str, errors: Iterable[FieldError]) -> None:
    """Raise all faults of an object as one error, if there are any."""
    if found := list(errors):
        raise ObjectInvalidError(served.group_kind, name, found)
