"""All checks of a node for one pod, in kube-scheduler's order: what a pod asks for is worked out once, then each node is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from dray.allocation.budget import UNLIMITED, Spending
from dray.api.core import Pod
from dray.scheduler.fit import names, ports, resources, taints, unsupported
from dray.scheduler.fit.pod_affinity import Neighbours
from dray.scheduler.fit.rejection import SCHEDULING_GATES, Rejection
from dray.scheduler.fit.selectors import Required
from dray.scheduler.fit.spread import Spread
from dray.scheduler.fit.terms import Namespaces
from dray.scheduler.fit.volume_objects import Volumes
from dray.scheduler.fit.volumes import Mounts
from dray.scheduler.nodes import NodeInfo, Nodes
from dray.scheduler.requests import wanted

Check = Callable[[NodeInfo], Rejection | None]


class FitOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`served` are the extended resources that device classes stand for; `compare_numbers` is an alpha gate of taints.

    `namespaces` has the labels of each namespace, for terms about pods of other namespaces. Without `volumes` pods that
    need to know them are refused.
    """

    served: frozenset[str] = frozenset()
    compare_numbers: bool = False
    namespaces: Namespaces = msgspec.field(default_factory=dict)
    volumes: Volumes | None = None


@dataclass(frozen=True, slots=True)
class Fit:
    """One pod's questions to nodes. Good for one try: it knows where other pods are."""

    pod: Pod
    required: Required
    neighbours: Neighbours
    spread: Spread
    mounts: Mounts
    unsupported: Rejection | None
    checks: tuple[Check, ...]
    weight: int = 0
    """What it costs a budget to ask one node, beyond the little that every pod costs."""

    @staticmethod
    def of(pod: Pod, nodes: Nodes, options: FitOptions | None = None, budget: Spending = UNLIMITED) -> Fit:
        """`nodes` are looked at here only if the pod, or one that is there, minds where other pods are. Raises
        TimeLimitError: a pod may have a megabyte of terms."""
        options = options or FitOptions()
        required = Required.of(pod, budget)
        neighbours = Neighbours.of(pod, nodes, options.namespaces, budget)
        spread = Spread.of(pod, nodes, required, compare_numbers=options.compare_numbers, budget=budget)
        volumes = options.volumes
        mounts = Mounts.of(pod, nodes, volumes) if volumes is not None else Mounts()
        checks = tuple(_checks(pod, required, neighbours, spread, mounts, options))
        cannot = unsupported.refused(pod, knows_volumes=volumes is not None)
        weight = required.weight + neighbours.weight + len(spread.rules) + _own_weight(pod)
        return Fit(pod, required, neighbours, spread, mounts, cannot, checks, weight)

    def barred(self) -> Rejection | None:
        """What is against the pod on every node, so that none need be asked."""
        return (
            self.unsupported
            or self.required.conflict()
            or self.mounts.fault
            or self.spread.fault
            or self.neighbours.fault
        )

    def refused(self, info: NodeInfo) -> Rejection | None:
        """The first check that is against this node."""
        for check in self.checks:
            found = check(info)
            if found is not None:
                return found
        return None

    def refusals(self, info: NodeInfo) -> tuple[Rejection, ...]:
        """Every check that is against this node, in order."""
        return tuple(found for check in self.checks if (found := check(info)) is not None)


def _own_weight(pod: Pod) -> int:
    spec = pod.spec
    resources = sum(
        len(one.resources.requests) + len(one.resources.limits) + len(one.ports)
        for one in (*spec.containers, *spec.init_containers)
    )
    return len(spec.tolerations) + len(spec.volumes) + resources


def _checks(
    pod: Pod,
    required: Required,
    neighbours: Neighbours,
    spread: Spread,
    mounts: Mounts,
    options: FitOptions,
) -> Iterator[Check]:
    """Those that have something to say about this pod: it is asked about thousands of nodes."""
    tolerations, compare, served = pod.spec.tolerations, options.compare_numbers, options.served
    amounts, host_ports = wanted(pod), ports.host_ports(pod)
    yield lambda info: taints.closed(tolerations, info.node, compare_numbers=compare)
    if pod.spec.node_name:
        yield lambda info: names.refused(pod, info.node)
    yield lambda info: taints.refused(tolerations, info.node, compare_numbers=compare)
    if not required.is_for_any:
        yield lambda info: required.refused(info.node)
    if host_ports:
        yield lambda info: ports.refused(host_ports, info.ports)
    yield lambda info: resources.refused(amounts, info, served)
    if not mounts.has_nothing_to_say:
        yield mounts.refused
    if spread.rules:
        yield lambda info: spread.refused(info.node)
    if not neighbours.has_nothing_to_say:
        yield lambda info: neighbours.refused(info.node)


def gated(pod: Pod) -> Rejection | None:
    """Whether gates keep the pod out of the queue."""
    gates = pod.spec.scheduling_gates
    if not gates:
        return None
    listed = " ".join(gate.name for gate in gates)
    return Rejection(check=SCHEDULING_GATES, reasons=(f"waiting for scheduling gates: [{listed}]",))
