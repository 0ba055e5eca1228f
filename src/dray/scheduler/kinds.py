"""Placed pods by what others can tell about them: pods of one workload are one kind, and are compared with a term once."""

from __future__ import annotations

from collections import Counter
from collections.abc import ItemsView, Iterable, Mapping
from typing import Any, NamedTuple

from dray.api.core import Pod


class Kind(NamedTuple):
    """`is_going`: they have been deleted and are ending."""

    namespace: str
    pairs: tuple[tuple[str, str], ...]
    is_going: bool

    @property
    def labels(self) -> Mapping[str, str]:
        """Of each of the pods."""
        return dict(self.pairs)


def kind_of(pod: Pod) -> Kind:
    """The pod's. It changes with its labels, and once it is deleted."""
    meta = pod.metadata
    return Kind(meta.namespace, tuple(sorted(meta.labels.items())), meta.deletion_timestamp is not None)


class Kinds:
    """By kind, how many pods are on which node."""

    def __init__(self, placed: Iterable[tuple[Pod, str]]) -> None:
        self._where: dict[Kind, Counter[str]] = {}
        for pod, node in placed:
            self.put(pod, node)

    def items(self) -> ItemsView[Kind, Mapping[str, int]]:
        """All there are."""
        found: Any = self._where.items()
        return found  # type: ignore[no-any-return]

    def put(self, pod: Pod, node: str) -> None:
        """A pod that is not counted yet."""
        self._where.setdefault(kind_of(pod), Counter())[node] += 1

    def remove(self, pod: Pod, node: str) -> None:
        """A pod that is counted, with the labels it was counted with."""
        kind = kind_of(pod)
        where = self._where[kind]
        where[node] -= 1
        if not where[node]:
            del where[node]
        if not where:
            del self._where[kind]
