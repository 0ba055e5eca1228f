"""Pods of a kind spread evenly over zones or nodes: constraints that say DoNotSchedule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dray.allocation.budget import UNLIMITED, Spending
from dray.allocation.faults import TimeLimitError
from dray.api.codec import view
from dray.api.core import Node, Pod
from dray.api.meta import Int32, Model
from dray.api.selectors import NOTHING, LabelMatcher, LabelSelector, compile_label_selector, match_labels
from dray.errors import InvalidError
from dray.scheduler.fit import taints
from dray.scheduler.fit.rejection import POD_TOPOLOGY_SPREAD, Rejection
from dray.scheduler.fit.selectors import Required
from dray.scheduler.nodes import Nodes

_UNEVEN: Final = Rejection(
    check=POD_TOPOLOGY_SPREAD,
    reasons=("node(s) didn't match pod topology spread constraints",),
    can_resolve=True,
)
_READING: Final = 32
"""What a constraint costs a budget to be read."""
_NO_LABEL: Final = Rejection(
    check=POD_TOPOLOGY_SPREAD,
    reasons=("node(s) didn't match pod topology spread constraints (missing required label)",),
)


class _Constraint(Model, frozen=True, kw_only=True):
    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Rule:
    """One constraint with what was counted: how many pods of the kind each domain has."""

    asked: _Constraint
    selector: LabelMatcher
    means_itself: bool
    counts: Mapping[str, int]
    least: int

    def refused(self, node: Node) -> Rejection | None:
        domain = node.metadata.labels.get(self.asked.topology_key)
        if domain is None:
            return _NO_LABEL
        skew = self.counts.get(domain, 0) + self.means_itself - self.least
        return _UNEVEN if skew > self.asked.max_skew else None


@dataclass(frozen=True, slots=True)
class Spread:
    """For one try of one pod. Empty for a pod without such constraints, which is the rule."""

    rules: tuple[_Rule, ...] = ()
    fault: Rejection | None = None

    @staticmethod
    def of(
        pod: Pod,
        nodes: Nodes,
        required: Required,
        *,
        compare_numbers: bool = False,
        budget: Spending = UNLIMITED,
    ) -> Spread:
        """Counts over all nodes, if the pod has constraints."""
        if not pod.spec.topology_spread_constraints:
            return Spread()
        try:
            asked = [(one, _selector(one, pod)) for one in _hard(pod, budget)]
        except TimeLimitError:
            raise
        except InvalidError as error:
            return Spread(
                fault=Rejection(check=POD_TOPOLOGY_SPREAD, reasons=(f"get constraints from pod: {error}",))
            )
        keys = {one.topology_key for one, _ in asked}
        budget.charge(len(nodes) * (1 + len(keys) // 8))
        complete = [info for info in nodes if keys <= info.node.metadata.labels.keys()]
        rules = []
        for one, selector in asked:
            counts: dict[str, int] = {}
            matching = _matching(nodes, selector, pod.metadata.namespace, budget)
            for info in complete:
                budget.charge(1 + required.weight)
                if _counts(one, pod, info.node, required, compare_numbers):
                    domain = info.node.metadata.labels[one.topology_key]
                    counts[domain] = counts.get(domain, 0) + matching.get(info.name, 0)
            enough = 1 if one.min_domains is None else one.min_domains
            least = min(counts.values(), default=0) if len(counts) >= enough else 0
            rules.append(_Rule(one, selector, selector.matches(pod.metadata.labels), counts, least))
        return Spread(tuple(rules))

    def refused(self, node: Node) -> Rejection | None:
        """Whether the node lacks a label that a constraint goes by, or its domain has enough pods of the kind."""
        for rule in self.rules:
            found = rule.refused(node)
            if found is not None:
                return found
        return None


def _hard(pod: Pod, budget: Spending) -> Iterator[_Constraint]:
    for raw in pod.spec.topology_spread_constraints:
        budget.charge(_READING)
        one = view(raw, _Constraint)
        if one.when_unsatisfiable == "DoNotSchedule":
            yield one


def _selector(one: _Constraint, pod: Pod) -> LabelMatcher:
    selector, labels = compile_label_selector(one.label_selector), pod.metadata.labels
    same = {key: labels[key] for key in one.match_label_keys if key in labels}
    if not same or selector == NOTHING:
        return selector
    return LabelMatcher((*match_labels(same).requirements, *selector.requirements))


def _counts(one: _Constraint, pod: Pod, node: Node, required: Required, compare_numbers: bool) -> bool:
    """Whether the node's pods count. Unless told otherwise, nodes that the pod does not ask for do not, and tainted ones do."""
    if one.node_affinity_policy in (None, "Honor") and required.refused(node):
        return False
    tolerations = pod.spec.tolerations
    return one.node_taints_policy != "Honor" or not taints.refused(
        tolerations, node, compare_numbers=compare_numbers
    )


def _matching(nodes: Nodes, selector: LabelMatcher, namespace: str, budget: Spending) -> Counter[str]:
    """By node, how many pods are of the kind. Those that are going do not count, and an empty selector counts none."""
    found: Counter[str] = Counter()
    for kind, where in nodes.kinds.items() if selector else ():
        budget.charge(1 + len(selector.requirements) // 4)
        if kind.namespace == namespace and not kind.is_going and selector.matches(kind.labels):
            budget.charge(len(where))
            found.update(where)
    return found
