"""What a pod's status says of its devices' health. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.core.container import ResourceHealth, ResourceStatus
from dray.kubelet.devices.grants import Grant
from dray.kubelet.devices.known import KnownDevices, Resource

HEALTHY, UNHEALTHY, UNKNOWN = "Healthy", "Unhealthy", "Unknown"


def health_of(resource: Resource | None, device: str) -> str:
    """Unknown where nobody tells: the plugin is away or has not listed yet, or lists the device no more."""
    if resource is None or resource.is_stale or device not in resource.devices:
        return UNKNOWN
    return HEALTHY if device in resource.healthy else UNHEALTHY


def allocated_status(grants: Iterable[Grant], known: KnownDevices) -> tuple[ResourceStatus, ...]:
    """Of one container: an entry a resource, its devices sorted."""
    return tuple(
        ResourceStatus(
            name=grant.resource,
            resources=tuple(
                ResourceHealth(resource_id=one, health=health_of(known.get(grant.resource), one))
                for one in sorted(grant.ids)
            ),
        )
        for grant in grants
        if grant.ids
    )
