"""PodDisruptionBudgets, as far as an eviction asks them. Pure.

A budget whose status a disruption controller keeps is believed. Without such a controller the pods are counted: all
that the selector matches are expected, which is right for every workload that has its full number of pods.
"""

from __future__ import annotations

import re
from typing import Any, Final

from dray.api.codec import view
from dray.api.core.pod import Pod
from dray.api.meta import Int32, Int64, Model, ObjectMeta
from dray.api.selectors import LabelSelector, compile_label_selector
from dray.errors import InvalidError

BUDGETS: Final = "poddisruptionbudgets.policy"
_PERCENT: Final = re.compile(r"([0-9]+)%")


class BudgetSpec(Model, frozen=True, kw_only=True):
    """What must stay up."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetStatus(Model, frozen=True, kw_only=True):
    """What a disruption controller counted."""

    observed_generation: Int64 = 0
    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0


class Budget(Model, frozen=True, kw_only=True):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()

    @property
    def is_kept(self) -> bool:
        """Whether a controller has ever written the status."""
        return self.status.observed_generation > 0


def read_budget(document: Any) -> Budget | None:
    """The budget, or None where it cannot be read: such a one guards nothing, as upstream."""
    try:
        return view(document, Budget)
    except InvalidError:
        return None


def guards(budget: Budget, labels: dict[str, str]) -> bool:
    """Whether the budget is about a pod with these labels."""
    try:
        return compile_label_selector(budget.spec.selector).matches(labels)
    except InvalidError:
        return False


def is_ready(pod: Pod) -> bool:
    """Ready is what counts as healthy."""
    return any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)


def counted(budget: Budget, pods: list[Pod]) -> BudgetStatus:
    """The status a controller would write, given all pods that the budget is about."""
    healthy = sum(is_ready(pod) and pod.metadata.deletion_timestamp is None for pod in pods)
    expected = len(pods)
    if budget.spec.max_unavailable is not None:
        desired = max(expected - _amount(budget.spec.max_unavailable, expected, 0), 0)
    else:
        desired = _amount(budget.spec.min_available or 0, expected, expected)
    return BudgetStatus(
        observed_generation=budget.metadata.generation,
        disruptions_allowed=max(healthy - desired, 0) if expected else 0,
        current_healthy=healthy,
        desired_healthy=desired,
    )


def _amount(value: int | str, expected: int, otherwise: int) -> int:
    """A number, or a part of the expected pods, rounded up; `otherwise` where it is neither."""
    if isinstance(value, int):
        return value
    found = _PERCENT.fullmatch(value)
    return -(-int(found[1]) * expected // 100) if found else otherwise


def is_spared(budget: Budget, status: BudgetStatus, pod: Pod) -> bool:
    """Whether evicting this pod costs the budget nothing, because it is not healthy anyway."""
    if is_ready(pod):
        return False
    if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
        return True
    return status.current_healthy >= status.desired_healthy > 0
