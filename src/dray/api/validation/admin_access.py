"""Admin access: devices that others hold may be had for monitoring, from namespaces an administrator has marked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dray.api.field_errors import FieldError, Path
from dray.api.limits import ADMIN_ACCESS_LABEL
from dray.api.resource.claim import ResourceClaim, ResourceClaimTemplate
from dray.api.validation.faults import forbidden

_TEXT: Final = (
    f"admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
)


def check_admin_access(
    new: ResourceClaim | ResourceClaimTemplate, namespace_labels: Mapping[str, str]
) -> list[FieldError]:
    """For a claim or template about to be created. A spec cannot change, so updates need not ask.

    The API server names the first such request only, and by the place the field had in older versions.
    """
    if namespace_labels.get(ADMIN_ACCESS_LABEL) == "true":
        return []
    spec = new.spec.spec if isinstance(new, ResourceClaimTemplate) else new.spec
    for position, request in enumerate(spec.devices.requests):
        if request.exactly is not None and request.exactly.admin_access:
            path = Path("spec").child("devices", "requests").index(position).child("adminAccess")
            return [forbidden(path, _TEXT)]
    return []


def check_admin_access_status(
    new: ResourceClaim, old: ResourceClaim, namespace_labels: Mapping[str, str]
) -> list[FieldError]:
    """For a status about to be written: an allocation may not bring admin access that was not there before."""
    if namespace_labels.get(ADMIN_ACCESS_LABEL) == "true" or _granted(old) is not None:
        return []
    position = _granted(new)
    if position is None:
        return []
    path = Path("status").child("allocation", "devices", "results").index(position).child("adminAccess")
    return [forbidden(path, _TEXT)]


def _granted(claim: ResourceClaim) -> int | None:
    """The first result with admin access."""
    if claim.status.allocation is None:
        return None
    results = claim.status.allocation.devices.results
    return next((position for position, result in enumerate(results) if result.admin_access), None)
