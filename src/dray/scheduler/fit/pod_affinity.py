"""Pods that must be near to others, or far from them; also what pods that are there already want to be far from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dray.api.core import Node, Pod
from dray.errors import InvalidError
from dray.scheduler.fit.rejection import INTER_POD_AFFINITY, Rejection
from dray.scheduler.fit.terms import Namespaces, PodTerm, affinity_terms, anti_affinity_terms
from dray.scheduler.nodes import NodeInfo, Nodes

_NOT_NEAR: Final = Rejection(check=INTER_POD_AFFINITY, reasons=("node(s) didn't match pod affinity rules",))
_TOO_NEAR: Final = Rejection(
    check=INTER_POD_AFFINITY, reasons=("node(s) didn't match pod anti-affinity rules",), can_resolve=True
)
_NOT_WANTED: Final = Rejection(
    check=INTER_POD_AFFINITY,
    reasons=("node(s) didn't satisfy existing pods anti-affinity rules",),
    can_resolve=True,
)

Domain = tuple[str, str]
"""A label of nodes with its value: the nodes that have it are one place."""


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
    def of(pod: Pod, nodes: Nodes, namespaces: Namespaces) -> Neighbours:
        """Looks at all pods where the pod has terms, else only at those that have some themselves."""
        try:
            near, far = affinity_terms(pod), anti_affinity_terms(pod)
        except InvalidError as error:
            return Neighbours(fault=Rejection(check=INTER_POD_AFFINITY, reasons=(f"parsing pod: {error}",)))
        friends, strangers = set[Domain](), set[Domain]()
        for info in nodes if near or far else ():
            for placed in info.pods.values():
                if _is_meant_by_all(near, placed.pod, namespaces):
                    friends.update(_domains(near, info.node))
                strangers.update(_domains(_meaning(far, placed.pod, namespaces), info.node))
        return Neighbours(
            near,
            far,
            frozenset(friends),
            frozenset(strangers),
            frozenset(_closed(pod, nodes.with_anti_affinity(), namespaces)),
            _is_meant_by_all(near, pod, namespaces),
        )

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


def _closed(pod: Pod, infos: Iterable[NodeInfo], namespaces: Namespaces) -> set[Domain]:
    found = set[Domain]()
    for info in infos:
        for placed in info.pods.values():
            terms = [term for term in placed.far if term.means(pod, namespaces)]
            found.update(_domains(terms, info.node))
    return found


def _domains(terms: Iterable[PodTerm], node: Node) -> list[Domain]:
    """One for each term whose label the node has."""
    labels = node.metadata.labels
    return [(term.topology_key, labels[term.topology_key]) for term in terms if term.topology_key in labels]


def _meaning(terms: Iterable[PodTerm], pod: Pod, namespaces: Namespaces) -> list[PodTerm]:
    return [term for term in terms if _means(term, pod, namespaces)]


def _is_meant_by_all(terms: tuple[PodTerm, ...], pod: Pod, namespaces: Namespaces) -> bool:
    return bool(terms) and all(_means(term, pod, namespaces) for term in terms)


def _means(term: PodTerm, pod: Pod, namespaces: Namespaces) -> bool:
    """As kube-scheduler does with the terms of the pod it places: what a namespace without labels would match, matches, too."""
    return term.means(pod, namespaces) or term.means(pod, {})
