"""Node resources that devices bring along: a device may take CPU, memory, storage or huge pages from its node.

What a claim's devices take is added to what the pod's containers ask for, checked against what is left of the node, and
told in the pod's status, where every scheduler and the kubelet count it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

from msgspec.structs import replace

from dray.api.core.container import ResourceList
from dray.api.core.node import Node
from dray.api.core.pod import NodeAllocatableResourceClaimStatus, Pod
from dray.api.quantity import ZERO, Quantity
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import AllocationResult, DeviceRequestAllocationResult
from dray.api.resource.slice import NodeAllocatableResourceMapping
from dray.errors import InvariantError
from dray.scheduler.claims.mappings import DeviceMappings
from dray.scheduler.claims.outcome import SUCCESS, Status, failure, unresolvable, unschedulable
from dray.scheduler.claims.pod_claims import PodClaims
from dray.scheduler.claims.resolve import full_name
from dray.scheduler.claims.settings import Settings
from dray.scheduler.nodes import NodeInfo, Nodes
from dray.scheduler.requests import CPU, MEMORY, STORAGE, amounts
from dray.semantics.requests import is_pod_level, pod_requests

_FIRST: Final = (CPU, MEMORY, STORAGE)
_HUGE: Final = "hugepages-"
Told = tuple[NodeAllocatableResourceClaimStatus, ...]


class NodeRoom:
    """For one pod in one cycle: the questions of its `Filter`. Without the gate, or devices that take anything, `counts` is False."""

    def __init__(
        self, plan: PodClaims, mappings: DeviceMappings | None, nodes: Nodes | None, settings: Settings
    ) -> None:
        if settings.node_allocatable and nodes is None:
            raise InvariantError("with DRANodeAllocatableResources a filter needs the nodes with their pods")
        self._plan = plan
        self._mappings = mappings
        self._nodes = nodes
        self._old = {
            place: claim.status.allocation
            for place, claim in enumerate(plan.claims)
            if claim.status.allocation is not None
        }
        self._counts_old = not settings.quirks.allocated_uncounted
        self.counts = mappings is not None and not mappings.is_empty

    def is_shared(self, node: Node, unavailable: Container[int]) -> Status:
        """Whether one of the allocated claims that do here counts for another pod of the node already."""
        info = self._info(node)
        for place in self._old if info is not None else ():
            if info is not None and place not in unavailable:
                status = shared_on(self._plan.pod, self._plan.claims[place], info)
                if not status.is_success:
                    return status
        return SUCCESS

    def taken(self, node: Node, new: Mapping[int, AllocationResult]) -> Told | Status:
        """What the claims' devices take from the node, or why the pod has no room there with them."""
        info, mappings = self._info(node), self._mappings
        results = {**self._old, **new} if self._counts_old else new
        if info is None or mappings is None or not results:
            return ()
        told = taken_by_claims(self._plan, node.metadata.name, results, mappings)
        if isinstance(told, Status) or not told:
            return told
        status = fits(self._plan.pod, told, info)
        return told if status.is_success else status

    def _info(self, node: Node) -> NodeInfo | None:
        return self._nodes.get(node.metadata.name) if self._nodes is not None else None


def taken_by_claims(
    plan: PodClaims, node: str, results: Mapping[int, AllocationResult], mappings: DeviceMappings
) -> Told | Status:
    """What the devices of these claims, by their places, take from the node; claims by name, without those that take nothing."""
    found: dict[str, NodeAllocatableResourceClaimStatus] = {}
    for place, result in results.items():
        claim = plan.claims[place]
        taken = _taken(claim, node, result, mappings)
        if isinstance(taken, Status):
            return taken
        if not taken:
            continue
        users = _containers(plan, claim)
        if not users:
            text = "node-allocatable resource claim not referenced by any container within the pod"
            return unresolvable(f"claim {claim.metadata.name}: {text}")
        found[claim.metadata.name] = NodeAllocatableResourceClaimStatus(
            resource_claim_name=claim.metadata.name, containers=users, resources=taken
        )
    return tuple(found[name] for name in sorted(found))


def _taken(
    claim: ResourceClaim, node: str, allocation: AllocationResult, mappings: DeviceMappings
) -> ResourceList | Status:
    """By one claim. A device that no slice has any more counts only beside one that takes something: nobody knows what."""
    results = allocation.devices.results
    known = [mappings.of(node, one.driver, one.pool, one.device) for one in results]
    total: dict[str, Quantity] = {}
    if not any(known):
        return total
    for result, of_device in zip(results, known, strict=True):
        where = f"claim {full_name(claim)}, device {result.device}"
        if of_device is None:
            return failure(f"{where}: device {result.device} not found in pool {result.pool}")
        for resource in sorted(of_device):
            mapping = of_device[resource]
            if mapping.capacity_key and not result.consumed_capacity:
                key = f"capacity key {mapping.capacity_key} of the mapping for {resource}"
                return failure(f"{where}: no consumed capacity for the {key}")
            amount = _amount(mapping, result)
            if amount is not None:
                total[resource] = total[resource] + amount if resource in total else amount
    return total


def _amount(
    mapping: NodeAllocatableResourceMapping, result: DeviceRequestAllocationResult
) -> Quantity | None:
    """Of one resource by one device; None where the mapping is about a capacity that was not asked for."""
    multiplier = mapping.allocation_multiplier
    if not mapping.capacity_key:
        return multiplier if multiplier is not None else ZERO
    consumed = result.consumed_capacity.get(mapping.capacity_key)
    return consumed if consumed is None or multiplier is None else consumed.times(multiplier)


def _containers(plan: PodClaims, claim: ResourceClaim) -> tuple[str, ...]:
    """The containers that use the claim, init containers first; each once."""
    entries = {
        entry
        for entry, one in zip(plan.entries, plan.claims, strict=False)
        if one.metadata.uid == claim.metadata.uid
    }
    containers = (*plan.pod.spec.init_containers, *plan.pod.spec.containers)
    return tuple(one.name for one in containers if any(used.name in entries for used in one.resources.claims))


def fits(pod: Pod, told: Told, info: NodeInfo) -> Status:
    """Whether the node has room for the pod with what its devices take."""
    total, whole = _of_parts(pod, told), _of_whole(pod)
    for name in sorted(whole):
        if total.get(name, ZERO) > whole[name]:
            text = "insufficient to cover the aggregated container and node-allocatable DRA requests"
            return unresolvable(f"pod level request for {name} is {text}")
    return _room({**total, **whole}, info)


def _of_parts(pod: Pod, told: Told) -> dict[str, Quantity]:
    """Containers, devices and overhead, whatever the pod asks for as a whole."""
    total = pod_requests(replace(pod, spec=replace(pod.spec, resources=None)))
    for one in told:
        for name, amount in one.resources.items():
            total[name] = total[name] + amount if name in total else amount
    return total


def _of_whole(pod: Pod) -> dict[str, Quantity]:
    """Those resources that the pod asks for as a whole, with its overhead: they stand for containers and devices."""
    whole = pod.spec.resources.requests if pod.spec.resources is not None else {}
    names = {name for name in whole if is_pod_level(name)}
    return {name: amount for name, amount in pod_requests(pod).items() if name in names} if names else {}


def _room(demand: ResourceList, info: NodeInfo) -> Status:
    wanted = {
        name: amount for name, amount in amounts(demand).items() if name in _FIRST or name.startswith(_HUGE)
    }
    short = [name for name, amount in wanted.items() if amount > 0 and amount > info.free(name)]
    if not short:
        return SUCCESS
    short.sort(key=lambda name: (_FIRST.index(name) if name in _FIRST else len(_FIRST), name))
    text = ", ".join(f"Insufficient {name}" for name in short)
    is_too_small = any(wanted[name] > info.allocatable.get(name, 0) for name in short)
    return unresolvable(text) if is_too_small else unschedulable(text)


def shared_on(pod: Pod, claim: ResourceClaim, info: NodeInfo) -> Status:
    """Whether another pod on the node has such a claim already: what its devices take could not be told apart."""
    users = {
        uid
        for uid, placed in info.pods.items()
        if placed.pod.metadata.namespace == claim.metadata.namespace
        and any(
            one.resource_claim_name == claim.metadata.name
            for one in placed.pod.status.node_allocatable_resource_claim_statuses
        )
    }
    start = f"node allocatable resource claim {claim.metadata.name}"
    if len(users) > 1:
        return unresolvable(f"{start} shared by multiple pods")
    if users - {pod.metadata.uid}:
        return unresolvable(f"{start} is already used by another pod")
    return SUCCESS
