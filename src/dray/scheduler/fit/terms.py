"""Terms about other pods, as affinity and anti-affinity have them, compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from dray.api.codec import view
from dray.api.core import Pod
from dray.api.meta import Model
from dray.api.selectors import NOTHING, LabelMatcher, LabelSelector, compile_label_selector

Namespaces = Mapping[str, Mapping[str, str]]
"""The labels of each namespace, by its name."""


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

    def means(self, pod: Pod, namespaces: Namespaces) -> bool:
        """Whether the term is about this pod, seen with these labels of namespaces; one that is not known has none."""
        name = pod.metadata.namespace
        if name not in self.namespaces and not self.of_namespaces.matches(namespaces.get(name, {})):
            return False
        return self.selector.matches(pod.metadata.labels)

    def may_mean(self, pod: Pod) -> bool:
        """Whether it could be about this pod, whatever labels its namespace has."""
        if pod.metadata.namespace not in self.namespaces and self.of_namespaces == NOTHING:
            return False
        return self.selector.matches(pod.metadata.labels)


def affinity_terms(pod: Pod) -> tuple[PodTerm, ...]:
    """The pods that must be near. Raises InvalidError where a term cannot be read."""
    return _terms(pod, pod.spec.affinity.pod_affinity if pod.spec.affinity else None)


def anti_affinity_terms(pod: Pod) -> tuple[PodTerm, ...]:
    """The pods that must not be near. Raises InvalidError where a term cannot be read."""
    return _terms(pod, pod.spec.affinity.pod_anti_affinity if pod.spec.affinity else None)


def _terms(pod: Pod, raw: dict[str, Any] | None) -> tuple[PodTerm, ...]:
    if not raw:
        return ()
    return tuple(_compiled(pod, term) for term in view(raw, _PodAffinity).required)


def _compiled(pod: Pod, term: _PodAffinityTerm) -> PodTerm:
    is_own = not term.namespaces and term.namespace_selector is None
    return PodTerm(
        term.topology_key,
        compile_label_selector(term.label_selector),
        frozenset({pod.metadata.namespace} if is_own else term.namespaces),
        compile_label_selector(term.namespace_selector),
    )
