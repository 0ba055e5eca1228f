"""Rules for amounts of resources: a container's requests and limits, a node's capacity."""

from __future__ import annotations

from typing import Final

from dray.api import names
from dray.api.core.container import ResourceList, ResourceRequirements
from dray.api.field_errors import FieldError, Path
from dray.api.quantity import Quantity
from dray.api.validation.faults import by_rule, forbidden, invalid, required

_CONTAINER_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
_INTEGER_RESOURCES: Final = ("pods", "services", "secrets", "configmaps")
_HUGE_PAGES: Final = "hugepages-"


def check_requirements(requirements: ResourceRequirements, path: Path) -> list[FieldError]:
    """Names and amounts. Devices and huge pages cannot be overcommitted: their limit equals the request."""
    errors = _amounts(requirements.limits, path.child("limits"))
    errors += _amounts(requirements.requests, path.child("requests"))
    for resource in sorted(requirements.requests):
        errors += _against_limit(resource, requirements, path)
    named = {*requirements.limits, *requirements.requests}
    if any(name.startswith(_HUGE_PAGES) for name in named) and not named & {"cpu", "memory"}:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    return errors


def _amounts(amounts: ResourceList, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    for resource in sorted(amounts):
        here = path.key(resource)
        errors += _container_resource(resource, here)
        errors += check_amount(resource, amounts[resource], here)
    return errors


def _container_resource(name: str, path: Path) -> list[FieldError]:
    errors = by_rule(names.label_key, name, path)
    if "/" not in name:
        known = name in _CONTAINER_RESOURCES or name.startswith(_HUGE_PAGES)
        return (
            errors if known else [*errors, invalid(path, name, "must be a standard resource for containers")]
        )
    if not names.is_native_resource(name) and not names.is_extended_resource_name(name):
        errors.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return errors


def check_amount(resource: str, amount: Quantity, path: Path) -> list[FieldError]:
    """Not negative, and whole where the resource comes in pieces, as devices do."""
    errors = []
    if amount.sign() < 0:
        errors.append(invalid(path, str(amount), "must be greater than or equal to 0"))
    whole = resource in _INTEGER_RESOURCES or names.is_extended_resource_name(resource)
    if whole and amount.milli_value() % 1000:
        errors.append(invalid(path, str(amount), "must be an integer"))
    return errors


def _against_limit(resource: str, requirements: ResourceRequirements, path: Path) -> list[FieldError]:
    request, limit = requirements.requests[resource], requirements.limits.get(resource)
    overcommit = names.is_native_resource(resource) and not resource.startswith(_HUGE_PAGES)
    here = path.child("requests")
    if limit is None:
        text = "Limit must be set for non overcommitable resources"
        return [] if overcommit else [required(path.child("limits"), text)]
    if not overcommit and request != limit:
        return [invalid(here, str(request), f"must be equal to {resource} limit of {limit}")]
    if request > limit:
        return [invalid(here, str(request), f"must be less than or equal to {resource} limit of {limit}")]
    return []
