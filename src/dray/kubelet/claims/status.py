"""The part of a container's `allocatedResourcesStatus` that speaks of claims. Pure."""

from __future__ import annotations

from collections.abc import Callable

from dray.api.core import Pod
from dray.api.core.container import Container, ContainerClaim, ResourceHealth, ResourceStatus
from dray.errors import InvalidError, UnavailableError
from dray.kubelet.claims.claim_info import ClaimDevice, ClaimInfo
from dray.kubelet.claims.health_record import DeviceHealth
from dray.kubelet.claims.resolve import base_request, resolve

HealthOf = Callable[[str, str, str], DeviceHealth]
"""Driver, pool, device."""
Find = Callable[[str, str], ClaimInfo | None]
"""Namespace, name."""


def allocated_status(
    pod: Pod, container: Container, find: Find, health: HealthOf
) -> tuple[ResourceStatus, ...]:
    """One entry for each claim the container names, without those that have no device. App containers only."""
    if all(own.name != container.name for own in pod.spec.containers):
        return ()
    found: dict[str, ResourceStatus] = {}
    for used in container.resources.claims:
        name = _actual_name(pod, used.name)
        claim = find(pod.metadata.namespace, name) if name else None
        if claim is not None:
            shown = f"claim:{used.name}" + (f"/{used.request}" if used.request else "")
            found[shown] = ResourceStatus(name=shown, resources=_devices(claim, used, health))
    return tuple(status for status in found.values() if status.resources)


def _actual_name(pod: Pod, name: str) -> str:
    """The pod's status first; while it is not written yet, its spec."""
    for status in pod.status.resource_claim_statuses:
        if status.name == name and status.resource_claim_name:
            return status.resource_claim_name
    for claim in pod.spec.resource_claims:
        if claim.name == name:
            try:
                resolved = resolve(pod, claim)
            except (InvalidError, UnavailableError):
                return ""
            return "" if resolved is None else resolved.name
    return ""


def _devices(claim: ClaimInfo, used: ContainerClaim, health: HealthOf) -> tuple[ResourceHealth, ...]:
    """Each resource id once: several devices may share one CDI id."""
    found: dict[str, ResourceHealth] = {}
    for driver, device in claim.devices():
        if used.request and device.requests and base_request(used.request) not in device.requests:
            continue
        said = health(driver, device.pool, device.name)
        shown = _resource_id(driver, device)
        found.setdefault(
            shown, ResourceHealth(resource_id=shown, health=said.health, message=said.message or None)
        )
    return tuple(found.values())


def _resource_id(driver: str, device: ClaimDevice) -> str:
    return device.cdi_ids[0] if device.cdi_ids else f"{driver}/{device.pool}/{device.name}"
