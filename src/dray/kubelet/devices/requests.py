"""What pods ask of device plugins: limits, because requests of extended resources equal them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.core import Pod
from dray.api.core.container import Container
from dray.kubelet.pods.plan import is_sidecar
from dray.semantics.requests import needed_at_once


def container_limits(pod: Pod, container: Container) -> dict[str, int]:
    """By resource, sorted. What a claim serves (an extended resource backed by DRA) is not a plugin's and left out."""
    claimed = pod.status.extended_resource_claim_status
    backed = {
        one.resource_name
        for one in (claimed.request_mappings if claimed else ())
        if one.container_name == container.name
    }
    limits = container.resources.limits
    return {name: limits[name].value() for name in sorted(limits) if name not in backed}


def pod_limits(pod: Pod) -> dict[str, int]:
    """What the pod needs at once, by resource, sorted: its containers and sidecars, or more for an init container."""
    total = needed_at_once(pod, lambda container: container_limits(pod, container))
    return dict(sorted(total.items()))


def handing_on(pod: Pod) -> frozenset[str]:
    """The init containers whose devices the ones after them get: all but sidecars."""
    return frozenset(one.name for one in pod.spec.init_containers if not is_sidecar(one))


def all_containers(pod: Pod) -> Iterator[Container]:
    """In the order in which they are admitted."""
    yield from pod.spec.init_containers
    yield from pod.spec.containers
