"""Whether a cluster that has come to rest is in order: every pod bound or explained, no device twice, nothing orphaned.

Written apart from the allocator and the scheduler, as plain sums over what is stored, so that it can judge them.
"""

from __future__ import annotations

from collections import Counter as Count
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dray.api.core.node import Node
from dray.api.core.pod import Pod
from dray.api.quantity import ZERO, Quantity
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import DeviceRequestAllocationResult
from dray.api.resource.slice import Device, ResourceSlice
from dray.api.selectors.nodes import compile_node_selector
from dray.semantics.claims import claim_names, is_reserved_for_pod, owning_pod
from dray.semantics.pools import current

DeviceKey = tuple[str, str, str]
"""Driver, pool, device."""


@dataclass(frozen=True, slots=True)
class Picture:
    """All objects of the cluster, read when nothing changes any more."""

    pods: tuple[Pod, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    nodes: tuple[Node, ...] = ()


def disorder(picture: Picture) -> list[str]:
    """Everything that is wrong, a line each; empty when all is well."""
    found = [*_devices(picture), *_counters(picture), *_claims(picture), *_pods(picture)]
    return sorted(found)


def _results(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    return () if claim.status.allocation is None else claim.status.allocation.devices.results


def _name(one: Pod | ResourceClaim) -> str:
    return f"{one.metadata.namespace}/{one.metadata.name}"


def _held(picture: Picture) -> dict[DeviceKey, list[tuple[str, DeviceRequestAllocationResult]]]:
    """Who holds each device; access for administrators holds nothing."""
    held: dict[DeviceKey, list[tuple[str, DeviceRequestAllocationResult]]] = defaultdict(list)
    for claim in picture.claims:
        for result in _results(claim):
            if not result.admin_access:
                held[result.driver, result.pool, result.device].append((_name(claim), result))
    return held


def _published(slices: Iterable[ResourceSlice]) -> dict[DeviceKey, Device]:
    return {
        (one.spec.driver, one.spec.pool.name, device.name): device
        for one in current(slices)
        for device in one.spec.devices or ()
    }


def _devices(picture: Picture) -> Iterator[str]:
    published = _published(picture.slices)
    for key, holders in _held(picture).items():
        label = "/".join(key)
        device = published.get(key)
        if device is None:
            yield from (f"claim {claim} holds {label}, which no slice has" for claim, _ in holders)
            continue
        shares = Count(result.share_id for _, result in holders)
        if shares[None] and len(holders) > 1:
            yield f"{label} is held by {', '.join(sorted(claim for claim, _ in holders))}"
        yield from (
            f"{label}: share {share} is given twice" for share in shares if share and shares[share] > 1
        )
        yield from _overdrawn(label, device, [result for _, result in holders])


def _overdrawn(label: str, device: Device, results: Iterable[DeviceRequestAllocationResult]) -> Iterator[str]:
    used: dict[str, Quantity] = {}
    for result in results:
        for name, amount in result.consumed_capacity.items():
            used[name] = used.get(name, ZERO) + amount
    for name, amount in used.items():
        if name not in device.capacity or device.capacity[name].value < amount:
            yield f"{label}: {amount} of capacity {name} is given, more than there is"


def _counters(picture: Picture) -> Iterator[str]:
    """A device draws on its counters once, however many shares of it are held."""
    published = _published(picture.slices)
    left: dict[tuple[str, str, str, str], Quantity] = {
        (one.spec.driver, one.spec.pool.name, counters.name, name): counter.value
        for one in current(picture.slices)
        for counters in one.spec.shared_counters or ()
        for name, counter in counters.counters.items()
    }
    for driver, pool, name in _held(picture):
        device = published.get((driver, pool, name))
        for drawn in device.consumes_counters if device else ():
            for counter, taken in drawn.counters.items():
                key = driver, pool, drawn.counter_set, counter
                left[key] = left.get(key, ZERO) - taken.value
    for key, amount in left.items():
        if amount < ZERO:
            yield f"counter {'/'.join(key)} is overdrawn: {amount} are left"


def _claims(picture: Picture) -> Iterator[str]:
    pods = {pod.metadata.uid: pod for pod in picture.pods}
    for claim in picture.claims:
        name = _name(claim)
        owner = owning_pod(claim)
        if owner is not None and owner.uid not in pods:
            yield f"claim {name} is an orphan of pod {owner.name}"
        if claim.metadata.deletion_timestamp is not None:
            yield f"claim {name} is still being deleted"
        for consumer in claim.status.reserved_for:
            if consumer.resource == "pods" and (pod := pods.get(consumer.uid)) is None:
                yield f"claim {name} is reserved for pod {consumer.name}, which is gone"
            elif consumer.resource == "pods" and pod is not None and _is_over(pod):
                yield f"claim {name} is reserved for pod {consumer.name}, which has ended"
        if claim.status.allocation is None and claim.status.reserved_for:
            yield f"claim {name} is reserved and not allocated"
        if claim.status.allocation is not None and not claim.status.reserved_for:
            yield f"claim {name} is allocated and nobody uses it"
    yield from _twins(picture)


def _twins(picture: Picture) -> Iterator[str]:
    """Two claims made for the same entry of the same pod."""
    made: Count[tuple[str, str]] = Count()
    for claim in picture.claims:
        entry = claim.metadata.annotations.get("resource.kubernetes.io/pod-claim-name")
        owner = owning_pod(claim)
        if entry is not None and owner is not None:
            made[f"{claim.metadata.namespace}/{owner.name}", entry] += 1
    yield from (
        f"pod {pod} has {count} claims for {entry}" for (pod, entry), count in made.items() if count > 1
    )


def _is_over(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def _pods(picture: Picture) -> Iterator[str]:
    claims = {_name(claim): claim for claim in picture.claims}
    nodes = {node.metadata.name: node for node in picture.nodes}
    for pod in picture.pods:
        if _is_over(pod):
            continue
        if not pod.spec.node_name:
            yield from _unexplained(pod)
            continue
        if pod.spec.node_name not in nodes:
            yield f"pod {_name(pod)} is on node {pod.spec.node_name}, which does not exist"
            continue
        for claim in claim_names(pod):
            full = f"{pod.metadata.namespace}/{claim}"
            yield from _unusable(pod, nodes[pod.spec.node_name], full, claims)


def _unexplained(pod: Pod) -> Iterator[str]:
    told = [one for one in pod.status.conditions if one.type == "PodScheduled" and one.status == "False"]
    if not pod.spec.scheduling_gates and not (told and told[0].message):
        yield f"pod {_name(pod)} is neither bound nor explained"


def _unusable(pod: Pod, node: Node, name: str, claims: Mapping[str, ResourceClaim]) -> Iterator[str]:
    claim = claims.get(name)
    if claim is None or claim.status.allocation is None:
        yield f"pod {_name(pod)} is bound, but its claim {name} is {'missing' if claim is None else 'not allocated'}"
        return
    if not is_reserved_for_pod(claim, pod):
        yield f"pod {_name(pod)} is bound, but its claim {name} is not reserved for it"
    selector = claim.status.allocation.node_selector
    if selector is not None and not compile_node_selector(selector).matches(
        node.metadata.labels, node.metadata.name
    ):
        yield f"pod {_name(pod)} is on {node.metadata.name}, where the devices of its claim {name} cannot be used"
