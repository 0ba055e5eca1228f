"""Which nodes a pod asks for by labels and names: nodeSelector and required node affinity."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dray.allocation.budget import UNLIMITED, Spending
from dray.api.core import Node, Pod
from dray.api.selectors import (
    LabelMatcher,
    NodeMatcher,
    NodeSelector,
    NodeSelectorTerm,
    compile_node_selector,
    match_labels,
)
from dray.errors import InvalidError
from dray.scheduler.fit.rejection import NODE_AFFINITY, Rejection

_COMPILING: Final = 16
"""What a condition costs a budget to be compiled."""
_REFUSED: Final = Rejection(
    check=NODE_AFFINITY, reasons=("node(s) didn't match Pod's node affinity/selector",)
)
_CONFLICT: Final = Rejection(check=NODE_AFFINITY, reasons=("pod affinity terms conflict",))


@dataclass(frozen=True, slots=True)
class Required:
    """Compiled once for a pod. `only` are the names it is bound to, where its terms leave no others; None for any node."""

    labels: LabelMatcher
    affinity: NodeMatcher | None
    only: frozenset[str] | None = None
    weight: int = 0
    """How many conditions there are to compare a node with."""

    @staticmethod
    def of(pod: Pod, budget: Spending = UNLIMITED) -> Required:
        """A broken term counts as one that matches nothing, as the API server has let it in."""
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        required = affinity.required if affinity else None
        labels = match_labels(pod.spec.node_selector)
        if required is None:
            return Required(labels, None, None, len(labels.requirements))
        made: list[NodeMatcher] = []
        weight = len(labels.requirements)
        for term in required.node_selector_terms:
            weight += size_of(term)
            budget.charge(_COMPILING * size_of(term))
            made.append(compile_node_selector(NodeSelector(node_selector_terms=(term,)), lenient=True))
        terms = tuple([one for some in made for one in some.terms])
        return Required(labels, NodeMatcher(terms), _names(required.node_selector_terms), weight)

    @property
    def is_for_any(self) -> bool:
        """Whether the pod does not ask for particular nodes."""
        return self.affinity is None and not self.labels

    def matches(self, node: Node) -> bool:
        """Raises InvalidError where no term matches and one of them is broken."""
        labels = node.metadata.labels
        if not self.labels.matches(labels):
            return False
        return self.affinity is None or self.affinity.matches(labels, node.metadata.name)

    def refused(self, node: Node) -> Rejection | None:
        """Whether the node is not one of those asked for."""
        try:
            return None if self.matches(node) else _REFUSED
        except InvalidError:
            return _REFUSED

    def conflict(self) -> Rejection | None:
        """Whether no node can be right, because each term asks for two names at once."""
        return _CONFLICT if self.only is not None and not self.only else None


def size_of(term: NodeSelectorTerm) -> int:
    """How many conditions a term has, with their values."""
    conditions = (*term.match_expressions, *term.match_fields)
    return 1 + sum(1 + len(one.values) for one in conditions)


def _names(terms: Iterable[NodeSelectorTerm]) -> frozenset[str] | None:
    found: frozenset[str] | None = None
    for term in terms:
        names = [
            frozenset(one.values)
            for one in term.match_fields
            if one.key == "metadata.name" and one.operator == "In"
        ]
        if not names:
            return None
        found = (found or frozenset()) | names[0].intersection(*names[1:])
    return found


@dataclass(frozen=True, slots=True)
class Preferred:
    """The pod's wishes about nodes, compiled once, each with its weight."""

    terms: tuple[tuple[int, NodeMatcher], ...] = ()
    size: int = 0
    """How many conditions there are to compare a node with."""

    @staticmethod
    def of(pod: Pod, budget: Spending = UNLIMITED) -> Preferred:
        """Raises InvalidError with every fault of its terms: kube-scheduler gives such a pod up when it compares nodes."""
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        made: list[tuple[int, NodeMatcher]] = []
        weight = 0
        for one in affinity.preferred if affinity else ():
            if one.weight and (one.preference.match_expressions or one.preference.match_fields):
                weight += size_of(one.preference)
                budget.charge(_COMPILING * size_of(one.preference))
                matcher = compile_node_selector(NodeSelector(node_selector_terms=(one.preference,)))
                made.append((one.weight, matcher))
        return Preferred(tuple(made), weight)

    def weight(self, node: Node) -> int:
        """The sum of the weights of the terms that the node meets."""
        labels, name = node.metadata.labels, node.metadata.name
        return sum(weight for weight, matcher in self.terms if matcher.matches(labels, name))
