"""Terms about other pods, as affinity and anti-affinity have them, compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from dray.allocation.budget import UNLIMITED, Spending
from dray.api.codec import encode, view
from dray.api.core import Pod
from dray.api.meta import Model
from dray.api.selectors import NOTHING, LabelMatcher, LabelSelector, compile_label_selector
from dray.cel.memo import Memo

Namespaces = Mapping[str, Mapping[str, str]]
"""The labels of each namespace, by its name."""
Domain = tuple[str, str]
"""A label of nodes with its value: the nodes that have it are one place."""

_COMPILING: Final = 16
"""What a condition costs a budget to be compiled."""
_KEPT: Final = 16 << 20
"""Bytes of terms that are remembered. Who looks at a pod once mostly does again."""
_GROWTH: Final = 12
"""So many bytes are kept for each byte that is written."""


class _PodAffinityTerm(Model, frozen=True, kw_only=True):
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None


class _PodAffinity(Model, frozen=True, kw_only=True):
    required: tuple[_PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Which pods are meant, and which label of their nodes says how near is near.

    Keys to match (matchLabelKeys) were put into the selector by the API server.
    """

    topology_key: str
    selector: LabelMatcher
    namespaces: frozenset[str]
    of_namespaces: LabelMatcher

    @property
    def weight(self) -> int:
        """How much there is to compare with a pod, at most."""
        of_namespaces = 0 if self.of_namespaces == NOTHING else len(self.of_namespaces.requirements)
        return 1 + len(self.selector.requirements) + of_namespaces

    def means(self, pod: Pod, namespaces: Namespaces) -> bool:
        """Whether the term is about this pod, seen with these labels of namespaces; one that is not known has none."""
        return self.covers(pod.metadata.namespace, pod.metadata.labels, namespaces)

    def covers(self, namespace: str, labels: Mapping[str, str], namespaces: Namespaces) -> bool:
        """The same for all pods of the namespace that have these labels."""
        if namespace not in self.namespaces and not self.of_namespaces.matches(namespaces.get(namespace, {})):
            return False
        return self.selector.matches(labels)

    def may_mean(self, pod: Pod) -> bool:
        """Whether it could be about this pod, whatever labels its namespace has."""
        if pod.metadata.namespace not in self.namespaces and self.of_namespaces == NOTHING:
            return False
        return self.selector.matches(pod.metadata.labels)


def affinity_terms(pod: Pod, budget: Spending = UNLIMITED) -> tuple[PodTerm, ...]:
    """The pods that must be near. Raises InvalidError where a term cannot be read."""
    return _terms(pod, pod.spec.affinity.pod_affinity if pod.spec.affinity else None, budget)


def anti_affinity_terms(pod: Pod, budget: Spending = UNLIMITED) -> tuple[PodTerm, ...]:
    """The pods that must not be near. Raises InvalidError where a term cannot be read."""
    return _terms(pod, pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None, budget)


def _terms(pod: Pod, raw: dict[str, Any] | None, budget: Spending) -> tuple[PodTerm, ...]:
    if not raw:
        return ()
    key = id(raw), pod.metadata.namespace
    known = _KNOWN.get(key)
    if known is not None and known[0] is raw:
        return known[1]
    made = []
    for term in view(raw, _PodAffinity).required:
        budget.charge(_COMPILING * _size(term))
        made.append(_compiled(pod, term))
    terms = tuple(made)
    _KNOWN.put(key, (raw, terms), _GROWTH * len(encode(raw)))
    return terms


_KNOWN: Final[Memo[tuple[int, str], tuple[dict[str, Any], tuple[PodTerm, ...]]]] = Memo(_KEPT)
"""By the identity of what was decoded: it is kept, so that nothing else gets it."""


def _size(term: _PodAffinityTerm) -> int:
    selectors = [one for one in (term.label_selector, term.namespace_selector) if one is not None]
    return 1 + sum(
        len(one.match_labels) + sum(1 + len(each.values) for each in one.match_expressions)
        for one in selectors
    )


def _compiled(pod: Pod, term: _PodAffinityTerm) -> PodTerm:
    is_own = not term.namespaces and term.namespace_selector is None
    return PodTerm(
        term.topology_key,
        compile_label_selector(term.label_selector),
        frozenset({pod.metadata.namespace} if is_own else term.namespaces),
        compile_label_selector(term.namespace_selector),
    )
