"""Claims and pods as they count for devices: who asks, who waits, how they are. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dray.allocation.cluster.cluster_dump import is_device_resource
from dray.allocation.cluster.workloads import has_ended, keeps_ending
from dray.api.core import Pod
from dray.api.resource import ResourceClaim
from dray.client.store import Key
from dray.semantics.claims import claim_names

_PHASES: Final = {"Running": "running", "Succeeded": "succeeded", "Failed": "failed"}


def text_of(key: Key) -> str:
    """NAMESPACE/NAME."""
    return f"{key[0]}/{key[1]}"


def key_of(text: str) -> Key:
    """The other way round than `text_of`."""
    namespace, _, name = text.partition("/")
    return namespace, name


def claim_state(claim: ResourceClaim) -> str:
    """deleting, reserved, allocated or pending."""
    if claim.metadata.deletion_timestamp is not None:
        return "deleting"
    if claim.status.allocation is None:
        return "pending"
    return "reserved" if claim.status.reserved_for else "allocated"


def is_waiting_claim(claim: ResourceClaim) -> bool:
    """Whether it still has to get its devices."""
    return claim_state(claim) == "pending"


def pod_state(pod: Pod) -> str:
    """deleting, crashing (a container ends again and again), running, succeeded, failed, scheduled (it has a node, its
    containers do not run yet) or pending."""
    if pod.metadata.deletion_timestamp is not None and not has_ended(pod):
        return "deleting"
    if keeps_ending(pod):
        return "crashing"
    known = _PHASES.get(pod.status.phase)
    return known or ("scheduled" if pod.spec.node_name else "pending")


def is_waiting_pod(pod: Pod) -> bool:
    """Whether it still has to get its node."""
    return pod_state(pod) == "pending"


def wants_devices(pod: Pod) -> bool:
    """Whether it has claims, or asks for resources that device plugins or classes serve."""
    return bool(pod.spec.resource_claims) or any(True for _ in resources_of(pod))


def resources_of(pod: Pod) -> Iterator[str]:
    """The resources that it asks for and that devices serve, as often as containers do."""
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        yield from filter(is_device_resource, container.resources.requests)


def claims_of(pod: Pod) -> Iterator[Key]:
    """The claims that stand for its own, also the one that the scheduler made for its resources."""
    for name in claim_names(pod):
        yield pod.metadata.namespace, name
