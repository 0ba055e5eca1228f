"""The part of a container's `allocatedResourcesStatus` that speaks of claims. Pure."""

from __future__ import annotations

from collections.abc import Callable

from dray.api.core import Pod
from dray.api.core.container import Container, ContainerClaim, ResourceHealth, ResourceStatus
from dray.kubelet.claims.claim_info import ClaimDevice, ClaimInfo
from dray.kubelet.claims.health_record import DeviceHealth
from dray.kubelet.claims.resolve import base_request
from dray.semantics.claims import ClaimName, claim_for_entry

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
    """Of the claim that the pod's containers know by this name; "" where there is none, or none yet."""
    entry = next((one for one in pod.spec.resource_claims if one.name == name), None)
    found = claim_for_entry(pod, entry) if entry is not None else None
    return found.name if isinstance(found, ClaimName) else ""


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
