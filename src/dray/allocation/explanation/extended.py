"""Resources that pods ask for by name and number: what each node has of them, who uses it, and what is short.

Device plugins serve them. Where a node's plugin has none and a DeviceClass takes the name, the scheduler makes a claim
for the pod instead; so such a pod is one workload on some nodes and another on the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from dray.allocation.cluster.cluster_dump import CLASS_PREFIX, Cluster
from dray.allocation.cluster.situation import Situation
from dray.allocation.cluster.workloads import Workload, full_name, has_ended
from dray.allocation.explanation.explain import (
    Difference,
    Explanation,
    Reasons,
    Verdict,
    explain_workload,
)
from dray.api.core import Node, Pod
from dray.api.core.container import Container
from dray.api.meta import ObjectMeta
from dray.api.quantity import ZERO, Quantity
from dray.api.resource import DeviceClass, ResourceClaim
from dray.api.resource.claim import (
    EXACT_COUNT,
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaimSpec,
)
from dray.semantics.requests import pod_requests

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_WAYS: Final = 3
_ORDINARY: Final = ("cpu", "memory", "ephemeral-storage")
Use = Mapping[str, Sequence[tuple[str, Mapping[str, Quantity]]]]
"""By node: its pods, and what each takes."""


@dataclass(frozen=True, slots=True)
class NodeResource:
    """One resource of one node. `allocatable` is None where the node never had it, and less than `capacity` while
    devices are not healthy. `device_class` is set where devices of that class serve it here."""

    node: str
    name: str
    wanted: Quantity
    allocatable: Quantity | None = None
    capacity: Quantity = ZERO
    users: tuple[tuple[str, Quantity], ...] = ()
    device_class: str = ""

    @property
    def used(self) -> Quantity:
        """What pods on the node take."""
        return sum((amount for _, amount in self.users), ZERO)

    @property
    def free(self) -> Quantity:
        """What is left; below zero where pods took more than there is by now."""
        return (self.allocatable or ZERO) - self.used

    @property
    def short(self) -> Quantity:
        """How many more are needed; zero where it suffices, or where a class serves it."""
        return max(self.wanted - self.free, ZERO) if not self.device_class else ZERO

    @property
    def unhealthy(self) -> Quantity:
        """What the node has and cannot give."""
        return max(self.capacity - (self.allocatable or ZERO), ZERO)

    def enough(self) -> tuple[str, ...]:
        """Few pods, the biggest users first, without which it would suffice; none where even that does not help."""
        missing, found = self.short, list[str]()
        for name, amount in sorted(self.users, key=lambda one: (-one[1].value(), one[0])):
            if not missing:
                break
            found.append(name)
            missing = max(missing - amount, ZERO)
        return () if missing else tuple(found)

    def __str__(self) -> str:
        if self.allocatable is None:
            return f"has no {self.name}"
        return f"short of {self.short} {self.name}: {self.allocatable} allocatable, {self.used} in use"


@dataclass(frozen=True, slots=True)
class Explained:
    """An explanation with the resources of every node that was asked; `classes` are those that serve one by name.

    `ways` says by node what would end a shortage that is all there is against it.
    """

    explanation: Explanation
    resources: tuple[NodeResource, ...] = ()
    classes: Mapping[str, str] = field(default_factory=dict)
    ways: tuple[tuple[str, str], ...] = ()


def use_of(pods: Iterable[Pod]) -> Use:
    """What pods that are bound and have not ended take from their nodes."""
    found: dict[str, list[tuple[str, Mapping[str, Quantity]]]] = {}
    for pod in pods:
        if pod.spec.node_name and not has_ended(pod):
            found.setdefault(pod.spec.node_name, []).append((full_name(pod), pod_requests(pod)))
    return found


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Which class serves a resource. Of several with one name the newest does, then the first by name."""
    found: dict[str, str] = {}
    for one in sorted(classes, key=lambda one: one.metadata.name, reverse=True):
        found[CLASS_PREFIX + one.metadata.name] = one.metadata.name
    named = [one for one in classes if one.spec.extended_resource_name]
    named.sort(key=lambda one: one.metadata.name, reverse=True)
    for one in sorted(named, key=lambda one: one.metadata.creation_timestamp or _LONG_AGO):
        found[one.spec.extended_resource_name or ""] = one.metadata.name
    return found


def explain_pod(
    situation: Situation,
    workload: Workload,
    nodes: Sequence[Node],
    use: Use,
    other: Situation | None = None,
) -> Explained:
    """As `explain_workload`, with what device plugins serve. A pod that was not admitted is not asked for again."""
    cluster = situation.cluster
    served = classes_by_resource(cluster.classes)
    classes = {name: served[name] for name in workload.resources if name in served}
    if workload.not_admitted:
        here = [node for node in nodes if node.metadata.name == workload.node_name]
        found = tuple(one for node in here for one in resources_on(node, workload, use, classes))
        tier = situation.allocator.tier
        return Explained(Explanation(workload, situation.profile.name, tier, 0, Verdict()), found, classes)
    resources = tuple(one for node in nodes for one in resources_on(node, workload, use, classes))
    parts = [
        explain_workload(situation, variant, its_nodes, other)
        for variant, its_nodes in variants(workload, cluster, nodes, use)
    ]
    merged = _merged(parts, [node.metadata.name for node in nodes])
    if not workload.waits:
        return Explained(merged, (), classes)
    ways = () if merged.verdict.fits_on or merged.verdict.error else _ways(merged.workload, nodes, resources)
    return Explained(merged, resources, classes, ways)


def _ways(
    workload: Workload, nodes: Sequence[Node], resources: Sequence[NodeResource]
) -> tuple[tuple[str, str], ...]:
    """For the nodes that are short of least. Not for pods with claims, which may be short of devices as well."""
    by_name = {node.metadata.name: node for node in nodes}
    alone = [
        one
        for one in resources
        if one.short and workload.barred_from(by_name[one.node]) == str(one) and not workload.pending
    ]
    alone.sort(key=lambda one: (one.short, one.node))
    return tuple((one.node, text) for one in alone[:_MOST_WAYS] for text in _ways_of(one))


def _ways_of(one: NodeResource) -> Iterable[str]:
    if pods := one.enough():
        yield f"free {one.short} {one.name}: end {' and '.join(f'pod {name}' for name in pods)}"
    if one.unhealthy >= one.short:
        yield f"repair devices: of {one.capacity} {one.name} {one.unhealthy} cannot be given"
    if one.free > ZERO:
        yield f"ask for {one.free} {one.name} instead of {one.wanted}"


def resources_on(
    node: Node, workload: Workload, use: Use, classes: Mapping[str, str]
) -> tuple[NodeResource, ...]:
    """The resources the workload asks for by name, on one node."""
    return tuple(
        _resource(node, name, amount, workload, use, classes) for name, amount in workload.resources.items()
    )


def _resource(
    node: Node, name: str, wanted: Quantity, workload: Workload, use: Use, classes: Mapping[str, str]
) -> NodeResource:
    allocatable = node.status.allocatable.get(name)
    users = tuple(
        (pod, amounts[name])
        for pod, amounts in use.get(node.metadata.name, ())
        if amounts.get(name) and pod != workload.name
    )
    capacity = node.status.capacity.get(name, ZERO)
    by_class = classes.get(name, "") if not allocatable else ""
    return NodeResource(node.metadata.name, name, wanted, allocatable, capacity, users, by_class)


def variants(
    workload: Workload, cluster: Cluster, nodes: Sequence[Node], use: Use
) -> list[tuple[Workload, tuple[Node, ...]]]:
    """The workload as each node sees it, nodes that see the same together: what they are short of, and the claim for
    resources that a class serves there."""
    if workload.pod is None:
        return [(workload, tuple(nodes))]
    classes = classes_by_resource(cluster.classes)
    barred: dict[str, str] = {}
    groups: dict[frozenset[str], list[Node]] = {}
    wanted = pod_requests(workload.pod)
    for node in nodes:
        found = resources_on(node, workload, use, classes)
        ordinary = (
            _resource(node, name, wanted[name], workload, use, {})
            for name in _ORDINARY
            if wanted.get(name) and name in node.status.allocatable
        )
        short = [str(one) for one in (*found, *ordinary) if one.short]
        most = node.status.allocatable.get("pods")
        if most is not None and len(use.get(node.metadata.name, ())) >= most.value():
            short.append(f"takes no more than {most} pods")
        if short and not workload.node_name:
            barred[node.metadata.name] = "; ".join(short)
        groups.setdefault(frozenset(one.name for one in found if one.device_class), []).append(node)
    workload = replace(workload, barred=barred)
    return [
        (_with_claim(workload, names, classes), tuple(its_nodes)) for names, its_nodes in groups.items()
    ] or [(workload, ())]


def _with_claim(workload: Workload, names: frozenset[str], classes: Mapping[str, str]) -> Workload:
    """With the claim the scheduler makes. A pod that is bound got its own, or waits for no scheduler."""
    if not names or workload.node_name or workload.pod is None:
        return workload
    requests = [one for name in sorted(names) for one in _requests(workload.pod, name, classes[name])]
    meta = ObjectMeta(
        name=f"{workload.pod.metadata.name}-extended-resources", namespace=workload.pod.metadata.namespace
    )
    devices = DeviceClaim(requests=tuple(sorted(requests, key=lambda one: one.name)))
    claim = ResourceClaim(metadata=meta, spec=ResourceClaimSpec(devices=devices))
    return replace(workload, pending=(*workload.pending, claim))


def _requests(pod: Pod, resource: str, device_class: str) -> list[DeviceRequest]:
    """One for each container that stays. Init containers use those; the largest adds what it needs beyond."""
    found, stays, largest = list[DeviceRequest](), ZERO, (ZERO, "")
    for index, container in enumerate((*pod.spec.init_containers, *pod.spec.containers)):
        amount = container.resources.requests.get(resource, ZERO)
        if not amount:
            continue
        name = f"container-{index}-request-{sorted(container.resources.requests).index(resource)}"
        if _is_passing(container, index, pod):
            largest = max(largest, (amount, name), key=lambda one: one[0])
        else:
            stays += amount
            found.append(_request(name, device_class, amount))
    more = pod_requests(pod)[resource] - stays
    return [*found, _request(largest[1], device_class, more)] if more > ZERO else found


def _is_passing(container: Container, index: int, pod: Pod) -> bool:
    return index < len(pod.spec.init_containers) and container.restart_policy != "Always"


def _request(name: str, device_class: str, amount: Quantity) -> DeviceRequest:
    exactly = ExactDeviceRequest(
        device_class_name=device_class, allocation_mode=EXACT_COUNT, count=amount.value()
    )
    return DeviceRequest(name=name, exactly=exactly)


def _merged(parts: Sequence[Explanation], order: Sequence[str]) -> Explanation:
    """One explanation from those of groups of nodes. An error ends the attempt on all of them."""
    if len(parts) == 1:
        return parts[0]
    verdict = _verdict([one.verdict for one in parts], order)
    groups = tuple(group for one in parts for group in one.reasons.groups)
    reasons = Reasons(groups)
    if verdict.error:
        reasons = Reasons()
    elif not verdict.fits_on:
        misses = next((one.reasons.misses for one in parts if one.reasons.misses), ())
        changes = tuple(change for one in parts for change in one.reasons.changes)
        reasons = Reasons(groups, misses, changes, any(one.reasons.is_cut_off for one in parts))
    difference = next((one.difference for one in parts if one.difference), None)
    if difference is not None:
        others = [one.difference.verdict if one.difference else one.verdict for one in parts]
        difference = Difference(difference.profile, _verdict(others, order))
    most = max(parts, key=lambda one: len(one.workload.pending))
    tried = sum(one.tried for one in parts)
    return replace(most, tried=tried, verdict=verdict, reasons=reasons, difference=difference)


def _verdict(verdicts: Sequence[Verdict], order: Sequence[str]) -> Verdict:
    for one in verdicts:
        if one.error:
            return Verdict(error=one.error)
    fits = {name for one in verdicts for name in one.fits_on}
    stopped = {name for one in verdicts for name in one.stopped_on}
    return Verdict(
        tuple(name for name in order if name in fits),
        stopped_on=tuple(name for name in order if name in stopped),
    )
