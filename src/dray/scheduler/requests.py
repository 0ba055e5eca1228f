"""What a pod takes from its node, as integers: thousandths of a CPU, and whole units of all else."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec.structs import replace

from dray.api.core import Pod
from dray.api.core.container import Container, ResourceList
from dray.api.names import is_extended_resource_name
from dray.api.quantity import ZERO, Quantity
from dray.semantics.requests import is_pod_level, pod_requests

CPU: Final = "cpu"
MEMORY: Final = "memory"
STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
_ASSUMED: Final = {CPU: Quantity.from_milli(100), MEMORY: Quantity.from_int(200 << 20)}
"""What a container is taken to use when scores are made, where it asks for nothing."""

Amounts = Mapping[str, int]


class ScoredUse(NamedTuple):
    """CPU and memory as scores count them: a container that asks for nothing is taken to use something."""

    cpu: int
    memory: int


NOTHING: Final = ScoredUse(0, 0)


@lru_cache(maxsize=4096)
def is_scalar(name: str) -> bool:
    """Whether nodes are asked for this resource beside CPU, memory, storage and pods; others are nobody's business."""
    if name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name:
        return True
    return is_extended_resource_name(name)


def amounts(resources: ResourceList) -> dict[str, int]:
    """Those resources that nodes are asked for, as integers, by name."""
    found = {}
    for name in sorted(resources):
        if name == CPU:
            found[name] = resources[name].milli_value()
        elif name in (MEMORY, STORAGE, PODS) or is_scalar(name):
            found[name] = resources[name].value()
    return found


def wanted(pod: Pod) -> dict[str, int]:
    """What a pod that waits needs on a node."""
    found = {name: max(amount, 0) for name, amount in amounts(pod_requests(pod)).items()}
    found.pop(PODS, None)
    return found


def taken(pod: Pod) -> dict[str, int]:
    """What a pod has on its node: while it is resized, the most of what it had, has and shall have."""
    found = amounts(taken_quantities(pod))
    found.pop(PODS, None)
    return found


def taken_quantities(pod: Pod) -> ResourceList:
    """The same in exact amounts, and of every resource. What its devices take from the node counts, too."""
    total = pod_requests(_resized(pod))
    whole = pod.spec.resources.requests if pod.spec.resources is not None else {}
    for one in pod.status.node_allocatable_resource_claim_statuses:
        for name, amount in one.resources.items():
            if name not in whole:  # requests of the pod as a whole cover its devices
                total[name] = total[name] + amount if name in total else amount
    return total


def resizing(pod: Pod) -> object:
    """What of a pod's status changes how much it takes; equal where it takes the same, as long as its spec is the same."""
    status = pod.status
    statuses = (*status.container_statuses, *status.init_container_statuses)
    sizes = [
        (one.name, one.resources, one.allocated_resources) for one in statuses if one.resources is not None
    ]
    told = status.node_allocatable_resource_claim_statuses
    if not sizes and status.resources is None and not told:
        return None
    return sizes, status.resources, status.allocated_resources, told, _is_infeasible(pod)


def scored_use(pod: Pod) -> ScoredUse:
    """What scores count for a pod on its node."""
    pod = _resized(pod)
    total = pod_requests(pod)
    has_own = _has_pod_level(pod)
    assumed = {name: amount for name, amount in _ASSUMED.items() if not has_own or name not in total}
    return _use(pod_requests(_filled(pod, assumed)))


def scored_wish(pod: Pod) -> ScoredUse:
    """What LeastAllocated counts for a pod that waits: never its pod-level resources, as in kube-scheduler."""
    if pod.spec.resources is not None:
        pod = replace(pod, spec=replace(pod.spec, resources=None))
    return _use(pod_requests(_filled(pod, _ASSUMED)))


def _use(resources: ResourceList) -> ScoredUse:
    cpu, memory = resources.get(CPU), resources.get(MEMORY)
    return ScoredUse(cpu.milli_value() if cpu else 0, memory.value() if memory else 0)


def _has_pod_level(pod: Pod) -> bool:
    return pod.spec.resources is not None and any(is_pod_level(name) for name in pod.spec.resources.requests)


def _filled(pod: Pod, assumed: ResourceList) -> Pod:
    """The pod with containers that ask for these amounts where they ask for nothing."""

    def full(container: Container) -> Container:
        return _asking(container, {**assumed, **container.resources.requests})

    spec = pod.spec
    containers = tuple(map(full, spec.containers))
    return replace(
        pod, spec=replace(spec, containers=containers, init_containers=tuple(map(full, spec.init_containers)))
    )


def _resized(pod: Pod) -> Pod:
    """The pod with the requests that count while the kubelet changes what its containers have."""
    status = pod.status
    known = {
        one.name: one
        for one in (*status.container_statuses, *status.init_container_statuses)
        if one.resources is not None
    }
    if not known and status.resources is None:
        return pod
    is_refused = _is_infeasible(pod)

    def actual(container: Container, *, counts: bool) -> Container:
        now = known.get(container.name) if counts else None
        if now is None or now.resources is None:
            return container
        spec = container.resources.requests
        return _asking(container, _most(is_refused, spec, now.resources.requests, now.allocated_resources))

    spec = pod.spec
    first = tuple(actual(one, counts=one.restart_policy == "Always") for one in spec.init_containers)
    spec = replace(
        spec, init_containers=first, containers=tuple(actual(one, counts=True) for one in spec.containers)
    )
    if spec.resources is not None and status.resources is not None:
        whole = spec.resources.requests
        most = _most(is_refused, whole, status.resources.requests, status.allocated_resources)
        whole = {name: most.get(name, ZERO) for name in whole}
        spec = replace(spec, resources=replace(spec.resources, requests=whole))
    return replace(pod, spec=spec)


def _is_infeasible(pod: Pod) -> bool:
    pending = [one.reason for one in pod.status.conditions if one.type == "PodResizePending"]
    return bool(pending) and pending[0] == "Infeasible"


def _most(is_refused: bool, spec: ResourceList, has: ResourceList, allocated: ResourceList) -> ResourceList:
    """The largest of each; what was asked for last does not count where the node has refused it."""
    found: ResourceList = {} if is_refused else dict(spec)
    for name, amount in (*has.items(), *allocated.items()):
        found[name] = max(found.get(name, amount), amount)
    return found


def _asking(container: Container, requests: ResourceList) -> Container:
    return replace(container, resources=replace(container.resources, requests=requests))
