"""Refusals in the API server's words. The classes add what their parents in `dray.errors` cannot tell apart."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.field_errors import FieldError, to_error
from dray.api.meta import StatusCause
from dray.apiserver.served import Served
from dray.errors import ConflictError, DeniedError, InvalidError, NotFoundError, UnavailableError

MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class AlreadyExistsError(ConflictError):
    """409 with the reason AlreadyExists: the name is taken, and reading again does not help."""


class BadRequestError(InvalidError):
    """400 with the reason BadRequest: the request itself makes no sense, before any rule about the object."""


class TerminatingError(DeniedError):
    """403 because the namespace is going away; `causes` tells clients so."""

    def __init__(self, message: str, *, namespace: str) -> None:
        super().__init__(message, what=f"namespaces {namespace}")
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
    return AlreadyExistsError(f'{served.resource} "{name}" already exists{more}')


def conflict(what: object, name: str, why: str) -> ConflictError:
    """Somebody wrote first, or holds it. `what` is the resource, `pods/binding` included."""
    return ConflictError(f'Operation cannot be fulfilled on {what} "{name}": {why}')


def failed(what: object, name: str, field: str, wanted: str, found: str) -> ConflictError:
    """A precondition does not hold; `field` is UID or ResourceVersion."""
    why = f"Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
    return conflict(what, name, why)


def denied(what: object, name: str, why: str) -> DeniedError:
    """An admission rule says no."""
    return DeniedError(f'{what} "{name}" is forbidden: {why}', what=f"{what} {name}")


def refuse_faults(served: Served, name: str, errors: Iterable[FieldError]) -> None:
    """Raise all faults of an object as one error, if there are any."""
    if found := list(errors):
        raise to_error(served.group_kind, name, found)
