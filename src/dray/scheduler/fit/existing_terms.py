"""The required anti-affinity of pods that are placed, found by the pods it is about.

Every decision has to ask whether somebody who is there already wants to be far from the pod, so whoever writes such terms
makes all decisions dearer. Each term is therefore parsed once, equal terms of many pods are one, and a pod is only compared
with terms that name its namespace and one of its labels.

What one pod and one namespace may have of this is limited (`POD_WEIGHT`, `NAMESPACE_WEIGHT`). Terms beyond that are not
compared with anybody: they count as if they were about every pod, so that they refuse too much rather than too little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from dray.allocation.budget import Spending
from dray.api.core import Pod
from dray.api.selectors import NOTHING, Operator
from dray.scheduler.fit.terms import Domain, Namespaces, PodTerm

POD_WEIGHT: Final = 256
"""Requirements that are told apart in the required anti-affinity terms of one pod: terms and their conditions, all together."""
NAMESPACE_WEIGHT: Final = 1024
"""The same for all different terms of one namespace that are about pods of others. Terms about its own pods cost it alone."""
_NAMED: Final = 16
"""A term that names more namespaces than this is looked at for every pod."""

_ANY: Final = ""
_Place = tuple[str, str, str]
"""Where a term is found: a namespace, a label's name and its value; each may be left open (`_ANY`)."""
Labels = Mapping[str, str]


class ExistingTerms:
    """Belongs to one `Nodes`, which tells it which pods are there and what labels a node has."""

    def __init__(self, labels_of: Callable[[str], Labels]) -> None:
        self._labels_of = labels_of
        self._pods: dict[str, tuple[str, tuple[PodTerm, ...], tuple[str, ...]]] = {}
        self._where: dict[PodTerm, Counter[str]] = {}
        self._found_at: dict[_Place, dict[PodTerm, None]] = {}
        self._foreign: dict[str, Counter[PodTerm]] = {}
        self._weights: Counter[str] = Counter()
        self._coarse: dict[str, Counter[str]] = {}
        self._closed_for_all: frozenset[Domain] | None = frozenset()

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._pods)

    def put(self, pod: Pod, node: str, terms: Iterable[PodTerm]) -> None:
        """A pod that has terms came to the node; it is not counted yet."""
        namespace = pod.metadata.namespace
        kept: list[PodTerm] = []
        coarse: list[str] = []
        weight = 0
        for term in terms:
            weight += term.weight
            if weight > POD_WEIGHT or not self._is_let_in(namespace, term):
                coarse.append(term.topology_key)
                continue
            kept.append(term)
            self._add(namespace, term, node)
        self._pods[pod.metadata.uid] = node, tuple(kept), tuple(coarse)
        if coarse:
            self._coarse.setdefault(node, Counter()).update(coarse)
            self._closed_for_all = None

    def remove(self, pod: Pod) -> None:
        """It is gone. A no-op for one that had no terms."""
        node, kept, coarse = self._pods.pop(pod.metadata.uid, ("", (), ()))
        for term in kept:
            self._discard(pod.metadata.namespace, term, node)
        if coarse:
            keys = self._coarse[node]
            keys.subtract(coarse)
            self._coarse[node] = +keys
            if not self._coarse[node]:
                del self._coarse[node]
            self._closed_for_all = None

    def relabelled(self) -> None:
        """A node came, went or has other labels."""
        if self._coarse:
            self._closed_for_all = None

    def is_about(self, pod: Pod, namespaces: Namespaces, budget: Spending) -> bool:
        """Whether any of them is about this pod."""
        if not self._pods:
            return False
        return bool(self._of_all()) or any(True for _ in self._about(pod, namespaces, budget))

    def closed(self, pod: Pod, namespaces: Namespaces, budget: Spending) -> frozenset[Domain]:
        """The places that are closed to the pod, because somebody there wants to be far from it."""
        if not self._pods:
            return frozenset()
        found = set(self._of_all())
        for term in self._about(pod, namespaces, budget):
            key, where = term.topology_key, self._where[term]
            budget.charge(len(where))
            for node in where:
                if (value := self._labels_of(node).get(key)) is not None:
                    found.add((key, value))
        return frozenset(found)

    def _about(self, pod: Pod, namespaces: Namespaces, budget: Spending) -> Iterator[PodTerm]:
        meta = pod.metadata
        labels = [(_ANY, _ANY), *((name, _ANY) for name in meta.labels), *meta.labels.items()]
        for namespace in (meta.namespace, _ANY):
            for label in dict.fromkeys(labels):
                for term in self._found_at.get((namespace, *label), ()):
                    budget.charge(term.weight)
                    if term.means(pod, namespaces):
                        yield term

    def _of_all(self) -> frozenset[Domain]:
        """Those that are closed to everybody by terms beyond the limits."""
        if self._closed_for_all is None:
            self._closed_for_all = frozenset(
                (key, value)
                for node, keys in self._coarse.items()
                for key, value in self._labels_of(node).items()
                if key in keys
            )
        return self._closed_for_all

    def _is_let_in(self, namespace: str, term: PodTerm) -> bool:
        if not _is_foreign(namespace, term) or term in self._foreign.get(namespace, ()):
            return True
        return self._weights[namespace] + term.weight <= NAMESPACE_WEIGHT

    def _add(self, namespace: str, term: PodTerm, node: str) -> None:
        if _is_foreign(namespace, term):
            foreign = self._foreign.setdefault(namespace, Counter())
            if not foreign[term]:
                self._weights[namespace] += term.weight
            foreign[term] += 1
        where = self._where.get(term)
        if where is None:
            where = self._where[term] = Counter()
            for place in _places(term):
                self._found_at.setdefault(place, {})[term] = None
        where[node] += 1

    def _discard(self, namespace: str, term: PodTerm, node: str) -> None:
        if _is_foreign(namespace, term):
            foreign = self._foreign[namespace]
            foreign[term] -= 1
            if not foreign[term]:
                del foreign[term]
                self._weights[namespace] -= term.weight
                if not foreign:
                    del self._foreign[namespace], self._weights[namespace]
        where = self._where[term]
        where[node] -= 1
        if not where[node]:
            del where[node]
        if not where:
            del self._where[term]
            for place in _places(term):
                found = self._found_at[place]
                del found[term]
                if not found:
                    del self._found_at[place]


def _is_foreign(namespace: str, term: PodTerm) -> bool:
    """Whether pods of other namespaces may be meant."""
    return term.of_namespaces != NOTHING or term.namespaces != {namespace}


def _places(term: PodTerm) -> list[_Place]:
    """All under which a pod that is meant looks: it must be in one of the namespaces, and have this label."""
    is_open = term.of_namespaces != NOTHING or len(term.namespaces) > _NAMED
    namespaces = [_ANY] if is_open else sorted(term.namespaces)
    labels = [(_ANY, _ANY)]
    for one in term.selector.requirements:
        if one.operator in (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN) and one.key:
            labels = (
                [(one.key, value) for value in set(one.values)]
                if len(one.values) <= _NAMED
                else [(one.key, _ANY)]
            )
            break
        if one.operator is Operator.EXISTS:
            labels = [(one.key, _ANY)]
    return [(namespace, *label) for namespace in namespaces for label in labels]
