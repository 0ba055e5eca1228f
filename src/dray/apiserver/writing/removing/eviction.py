"""POST to `pods/NAME/eviction`: a deletion that asks the disruption budgets first."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import msgspec

from dray.api.codec import decode, view
from dray.api.core import Pod
from dray.api.meta import Model, ObjectMeta, format_time
from dray.apiserver.store.contract import Stored, Transaction
from dray.apiserver.writing import faults
from dray.apiserver.writing.faults import BadRequestError, TooManyRequestsError
from dray.apiserver.writing.kinds.pods import set_condition
from dray.apiserver.writing.removing import budgets
from dray.apiserver.writing.removing.budgets import BUDGETS, Budget, BudgetStatus
from dray.apiserver.writing.removing.delete import check_preconditions, delete
from dray.apiserver.writing.removing.grace import DeleteOptions
from dray.apiserver.writing.request import Write, Written, document_of, existing, replace
from dray.errors import Error, InvalidError

_UNGUARDED: Final = ("Succeeded", "Failed", "Pending")
_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_TOO_MANY: Final = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
)
_RETRY_AFTER: Final = 10.0
_CONDITION: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


class Eviction(Model, frozen=True, kw_only=True):
    """The request."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    delete_options: DeleteOptions | None = None


def evict(transaction: Transaction, write: Write, document: Any) -> Written:
    """Delete a pod if its budget has room. The caller answers with a Status, not with the pod."""
    eviction = _read(write, document)
    options = eviction.delete_options or DeleteOptions()
    if options.dry_run:
        write = dataclasses.replace(write, dry_run=True)
    stored = existing(transaction, write)
    check_preconditions(write, stored, options)
    pod = decode(stored.raw, Pod)
    if pod.status.phase not in _UNGUARDED and pod.metadata.deletion_timestamp is None:
        _ask_budget(transaction, write, pod)
    marked = document_of(stored)
    set_condition(marked, _CONDITION, write.now)
    replace(transaction, write, stored, marked)
    # The condition just written is a new version; the one that was asked for has been checked.
    return delete(transaction, write, msgspec.structs.replace(options, preconditions=None))


def _read(write: Write, document: Any) -> Eviction:
    try:
        eviction = view(document, Eviction)
    except InvalidError as error:
        text = f'Eviction in version "v1" cannot be handled as a Eviction: {error}'
        raise BadRequestError(text, field=error.field) from None
    if (eviction.metadata.name or write.name) != write.name:
        raise BadRequestError("name in URL does not match name in Eviction object", field="metadata.name")
    return eviction


def _ask_budget(transaction: Transaction, write: Write, pod: Pod) -> None:
    """Refuse, or take one disruption out of the budget that guards the pod."""
    guarding: list[tuple[Stored, Budget]] = []
    for stored in transaction.list(BUDGETS, write.namespace):
        budget = budgets.read_budget(document_of(stored))
        if budget is not None and budgets.guards(budget, pod.metadata.labels):
            guarding.append((stored, budget))
    if len(guarding) > 1:
        raise Error(_TOO_MANY)
    for stored, budget in guarding:
        status = budget.status if budget.is_kept else _count(transaction, write, budget)
        if budgets.is_spared(budget, status, pod):
            return
        _check(budget, status)
        if budget.is_kept:
            _charge(transaction, write, stored)


def _count(transaction: Transaction, write: Write, budget: Budget) -> BudgetStatus:
    pods = [
        decode(stored.raw, Pod) for stored in transaction.list(str(write.served.resource), write.namespace)
    ]
    return budgets.counted(budget, [pod for pod in pods if budgets.guards(budget, pod.metadata.labels)])


def _check(budget: Budget, status: BudgetStatus) -> None:
    name = budget.metadata.name
    if status.observed_generation < budget.metadata.generation:
        cause = f"The disruption budget {name} is still being processed by the server."
        raise TooManyRequestsError(_REFUSED, cause=cause, retry_after=_RETRY_AFTER)
    if status.disruptions_allowed < 0:
        raise faults.denied("poddisruptionbudget.policy", name, "pdb disruptions allowed is negative")
    if status.disruptions_allowed == 0:
        cause = f"The disruption budget {name} does not allow evicting pods currently"
        if status.current_healthy <= status.desired_healthy:
            cause = f"The disruption budget {name} needs {status.desired_healthy} healthy pods and has {status.current_healthy} currently"
        raise TooManyRequestsError(_REFUSED, cause=cause)


def _charge(transaction: Transaction, write: Write, stored: Stored) -> None:
    """Tell the controller that keeps the budget, so that two evictions do not use the same disruption."""
    document = document_of(stored)
    status = document["status"]
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = (status.get("disruptedPods") or {}) | {write.name: format_time(write.now)}
    replace(transaction, write, stored, document)
