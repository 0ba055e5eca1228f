"""Pods that must be near to others, or far from them; also what pods that are there already want to be far from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from dray.allocation.budget import UNLIMITED, Spending
from dray.allocation.faults import TimeLimitError
from dray.api.core import Node, Pod
from dray.errors import InvalidError
from dray.scheduler.fit.rejection import INTER_POD_AFFINITY, Rejection
from dray.scheduler.fit.terms import Domain, Namespaces, PodTerm, affinity_terms, anti_affinity_terms
from dray.scheduler.nodes import Nodes

_NOT_NEAR: Final = Rejection(check=INTER_POD_AFFINITY, reasons=("node(s) didn't match pod affinity rules",))
_TOO_NEAR: Final = Rejection(
    check=INTER_POD_AFFINITY, reasons=("node(s) didn't match pod anti-affinity rules",), can_resolve=True
)
_NOT_WANTED: Final = Rejection(
    check=INTER_POD_AFFINITY,
    reasons=("node(s) didn't satisfy existing pods anti-affinity rules",),
    can_resolve=True,
)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """For one try of one pod: where the pods are that its terms mean, and where pods are that mean it."""

    near: tuple[PodTerm, ...] = ()
    far: tuple[PodTerm, ...] = ()
    friends: frozenset[Domain] = frozenset()
    strangers: frozenset[Domain] = frozenset()
    closed: frozenset[Domain] = frozenset()
    means_itself: bool = False
    fault: Rejection | None = None

    @staticmethod
    def of(pod: Pod, nodes: Nodes, namespaces: Namespaces, budget: Spending = UNLIMITED) -> Neighbours:
        """Looks at all kinds of pods where the pod has terms, else only at terms of others that may be about it."""
        try:
            near, far = affinity_terms(pod, budget), anti_affinity_terms(pod, budget)
        except TimeLimitError:
            raise
        except InvalidError as error:
            return Neighbours(fault=Rejection(check=INTER_POD_AFFINITY, reasons=(f"parsing pod: {error}",)))
        friends, strangers = set[Domain](), set[Domain]()
        meta = pod.metadata
        for kind, where in nodes.kinds.items() if near or far else ():
            name, labels = kind.namespace, kind.labels
            if near and all(_means(one, name, labels, namespaces, budget) for one in near):
                friends.update(_domains_of(near, where, nodes, budget))
            meant = [one for one in far if _means(one, name, labels, namespaces, budget)]
            strangers.update(_domains_of(meant, where, nodes, budget))
        return Neighbours(
            near,
            far,
            frozenset(friends),
            frozenset(strangers),
            nodes.existing_terms.closed(pod, namespaces, budget),
            bool(near) and all(_means(one, meta.namespace, meta.labels, namespaces, budget) for one in near),
        )

    @property
    def weight(self) -> int:
        """How much there is to compare a node with."""
        return len(self.near) + len(self.far)

    @property
    def has_nothing_to_say(self) -> bool:
        """Whether neither the pod nor any that is there minds."""
        return not (self.near or self.far or self.closed)

    def refused(self, node: Node) -> Rejection | None:
        """The first of: the pod is not near its friends, it is near those it must avoid, others there avoid it."""
        labels = node.metadata.labels
        if not self._is_near(node):
            return _NOT_NEAR
        if not self.strangers.isdisjoint(_domains(self.far, node)):
            return _TOO_NEAR
        if self.closed and not self.closed.isdisjoint(labels.items()):
            return _NOT_WANTED
        return None

    def _is_near(self, node: Node) -> bool:
        domains = _domains(self.near, node)
        if len(domains) < len(self.near):
            return False
        # The first pod of a group that wants to be together has nobody to be near to.
        return self.friends.issuperset(domains) or (not self.friends and self.means_itself)


def _domains(terms: Iterable[PodTerm], node: Node) -> list[Domain]:
    """One for each term whose label the node has."""
    labels = node.metadata.labels
    return [(term.topology_key, labels[term.topology_key]) for term in terms if term.topology_key in labels]


def _domains_of(
    terms: Sequence[PodTerm], where: Collection[str], nodes: Nodes, budget: Spending
) -> Iterator[Domain]:
    budget.charge(len(where) * len(terms))
    for name in where if terms else ():
        if (info := nodes.get(name)) is not None:
            yield from _domains(terms, info.node)


def _means(
    term: PodTerm, namespace: str, labels: Mapping[str, str], namespaces: Namespaces, budget: Spending
) -> bool:
    """As kube-scheduler does with the terms of the pod it places: what a namespace without labels would match, matches, too."""
    budget.charge(1 + len(term.selector.requirements))
    return term.covers(namespace, labels, namespaces) or term.covers(namespace, labels, {})
