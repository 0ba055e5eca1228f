"""Which happening may help which pod: each check names what it listens to, and looks whether its own verdict could change.

A hint must say yes when in doubt: a pod that is not woken waits for minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dray.api.core import Node, Pod
from dray.api.taints import is_tolerated
from dray.errors import InvalidError
from dray.scheduler.fit import ports, resources, taints
from dray.scheduler.fit.rejection import (
    INTER_POD_AFFINITY,
    NODE_AFFINITY,
    NODE_NAME,
    NODE_PORTS,
    NODE_RESOURCES_FIT,
    NODE_UNSCHEDULABLE,
    POD_TOPOLOGY_SPREAD,
    SCHEDULING_GATES,
    TAINT_TOLERATION,
)
from dray.scheduler.fit.selectors import Required
from dray.scheduler.fit.terms import affinity_terms, anti_affinity_terms
from dray.scheduler.nodes import NodeInfo
from dray.scheduler.queue.happenings import ANY, NODE, POD, Action, Happening
from dray.scheduler.requests import PODS, amounts, taken, wanted

MOST_TERMS: Final = 64
"""A pod with more terms than this is woken without a look at them: hints are asked at every change of the cluster."""

Hint = Callable[[Pod, Happening], bool]


@dataclass(frozen=True, slots=True)
class Interest:
    """What a check listens to. Without a hint every such happening helps."""

    kind: str
    actions: Action
    hint: Hint | None = None

    def concerns(self, happening: Happening) -> bool:
        """Whether it is about this."""
        return self.kind == happening.kind and bool(self.actions & happening.action)

    def helps(self, pod: Pod, happening: Happening) -> bool:
        """Whether the pod may be better off now. Objects that cannot be read are no reason to sleep on."""
        try:
            return self.concerns(happening) and (self.hint is None or self.hint(pod, happening))
        except InvalidError:
            return True


Hints = Mapping[str, Sequence[Interest]]
"""By the name of the check, as in `Rejection.check`."""


def listeners(hints: Hints, happening: Happening) -> Iterator[str]:
    """The checks that want to hear of it at all."""
    for check, interests in hints.items():
        if any(interest.concerns(happening) for interest in interests):
            yield check


def helped(hints: Hints, checks: Iterable[str], pod: Pod, happening: Happening) -> Iterator[str]:
    """Those of the checks whose verdict on the pod may have changed."""
    for check in checks:
        if any(interest.helps(pod, happening) for interest in hints.get(check, ())):
            yield check


def is_for_all(happening: Happening) -> bool:
    """Whether nobody is asked and every pod moves."""
    return happening.kind == ANY


def fit_hints(*, compare_numbers: bool = False, served: Callable[[], frozenset[str]] = frozenset) -> Hints:
    """What the checks of this room listen to. `served` tells the extended resources of device classes, as they are now."""

    def tainted(pod: Pod, happening: Happening) -> bool:
        old, new = _nodes(happening)
        was = old is None or bool(taints.refused(pod.spec.tolerations, old, compare_numbers=compare_numbers))
        return was and not taints.refused(pod.spec.tolerations, new, compare_numbers=compare_numbers)

    def tolerates_closed(pod: Pod, happening: Happening) -> bool:
        new = _pod(happening.new)
        if new is None or not _is_own(pod, happening):
            return False
        return is_tolerated(taints.CLOSED, new.spec.tolerations, compare_numbers=compare_numbers)

    def grown(pod: Pod, happening: Happening) -> bool:
        return _has_grown(pod, happening, served())

    return {
        SCHEDULING_GATES: (Interest(POD, Action.POD_GATES_GONE, _is_own),),
        NODE_UNSCHEDULABLE: (
            Interest(NODE, Action.ADD | Action.NODE_TAINT, _is_open),
            Interest(POD, Action.POD_TOLERATION, tolerates_closed),
        ),
        NODE_NAME: (Interest(NODE, Action.ADD),),
        TAINT_TOLERATION: (
            Interest(NODE, Action.ADD | Action.NODE_TAINT, tainted),
            Interest(POD, Action.POD_TOLERATION, _is_own),
        ),
        NODE_AFFINITY: (Interest(NODE, Action.ADD | Action.NODE_LABEL, _is_asked_for),),
        NODE_PORTS: (Interest(NODE, Action.ADD), Interest(POD, Action.DELETE, _frees_ports)),
        NODE_RESOURCES_FIT: (
            Interest(NODE, Action.ADD | Action.NODE_ALLOCATABLE, grown),
            Interest(POD, Action.DELETE | Action.POD_SCALE_DOWN, _frees_resources),
        ),
        INTER_POD_AFFINITY: (
            Interest(NODE, Action.ADD | Action.NODE_LABEL),
            Interest(POD, Action.ADD | Action.POD_LABEL | Action.DELETE, _changes_company),
        ),
        POD_TOPOLOGY_SPREAD: (
            Interest(NODE, Action.ADD | Action.DELETE | Action.NODE_LABEL | Action.NODE_TAINT),
            Interest(
                POD,
                Action.ADD | Action.DELETE | Action.POD_LABEL | Action.POD_TOLERATION,
                _changes_count,
            ),
        ),
    }


def _nodes(happening: Happening) -> tuple[Node | None, Node]:
    old, new = happening.old, happening.new
    if not isinstance(new, Node):
        raise InvalidError(
            f"a happening of kind {happening.kind} with action {happening.action} has no new node"
        )
    return (old if isinstance(old, Node) else None), new


def _pod(found: object) -> Pod | None:
    return found if isinstance(found, Pod) else None


def _is_own(pod: Pod, happening: Happening) -> bool:
    new = _pod(happening.new)
    return new is not None and new.metadata.uid == pod.metadata.uid


def _is_open(_: Pod, happening: Happening) -> bool:
    old, new = _nodes(happening)
    return not new.spec.unschedulable and (old is None or old.spec.unschedulable)


def _is_asked_for(pod: Pod, happening: Happening) -> bool:
    old, new = _nodes(happening)
    if _has_many_terms(pod):
        return True
    required = Required.of(pod)
    return required.matches(new) and (old is None or not required.matches(old))


def _has_many_terms(pod: Pod) -> bool:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    return (
        affinity is not None
        and affinity.required is not None
        and len(affinity.required.node_selector_terms) > MOST_TERMS
    )


def _has_left(pod: Pod) -> bool:
    return bool(pod.spec.node_name or pod.status.nominated_node_name)


def _frees_ports(pod: Pod, happening: Happening) -> bool:
    old = _pod(happening.old)
    if old is None or not _has_left(old):
        return False
    return bool(ports.refused(ports.host_ports(pod), ports.UsedPorts(ports.host_ports(old))))


def _frees_resources(pod: Pod, happening: Happening) -> bool:
    old, new = _pod(happening.old), _pod(happening.new)
    if old is None:
        return False
    if new is None:
        return _has_left(old)
    if new.metadata.uid == pod.metadata.uid:
        return True
    if not new.spec.node_name:
        return False
    before, after = taken(old), taken(new)
    return any(amount and before.get(name, 0) > after.get(name, 0) for name, amount in taken(pod).items())


def _changes_company(pod: Pod, happening: Happening) -> bool:
    """Whether another pod came, went or changed its labels that one of the two has terms about.

    Wider than kube-scheduler's hint, which misses pods of selected namespaces and some of several terms.
    """
    old, new = _pod(happening.old), _pod(happening.new)
    other = new or old
    if other is None or _is_own(pod, happening):
        return other is not None
    if not _has_left(other):
        return False
    near, far = affinity_terms(pod), anti_affinity_terms(pod)
    if len(near) + len(far) > MOST_TERMS:
        return True
    if new is None:
        return any(term.may_mean(other) for term in (*near, *far)) or any(
            term.may_mean(pod) for term in anti_affinity_terms(other)
        )
    if old is None or Action.ADD in happening.action:
        return any(term.may_mean(new) for term in near)
    return any(term.may_mean(old) != term.may_mean(new) for term in (*near, *far))


def _changes_count(pod: Pod, happening: Happening) -> bool:
    """Whether it is about a pod on a node that the constraints may count, or the pod itself."""
    other = _pod(happening.new) or _pod(happening.old)
    if other is None or _is_own(pod, happening):
        return other is not None
    return _has_left(other) and other.metadata.namespace == pod.metadata.namespace


def _has_grown(pod: Pod, happening: Happening, served: frozenset[str]) -> bool:
    """Whether the pod would fit on the node if it were empty, and the node has more of something than before."""
    old, new = _nodes(happening)
    asked, info = wanted(pod), NodeInfo.of(new)
    if resources.refused(asked, info, served):
        return False
    if old is None:
        return True
    before, after = amounts(old.status.allocatable), info.allocatable
    return any(
        after.get(name, 0) > before.get(name, 0) or (name in served and not after.get(name, 0))
        for name, amount in (*asked.items(), (PODS, 1))
        if amount
    )
