"""What the server adds to a pod: priority, tolerations, quality of service, conditions."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from dray.api.codec import view
from dray.api.core import Pod
from dray.api.core.container import ResourceList
from dray.api.core.pod import PodSpec
from dray.api.meta import Int32, Model, ObjectMeta, format_time
from dray.api.quantity import Quantity
from dray.apiserver.served import Document
from dray.apiserver.store.contract import Key, Stored, Transaction
from dray.apiserver.writing import faults
from dray.apiserver.writing.names import shown_name
from dray.apiserver.writing.request import document_of
from dray.errors import InvalidError

_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
_SYSTEM: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_PREEMPTS: Final = "PreemptLowerPriority"
_GUARANTEED: Final = ("cpu", "memory")
_WAITS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_WAIT_SECONDS: Final = 300
_ZERO: Final = Quantity("0")


class _PriorityClass(Model, frozen=True, kw_only=True):
    """A priority with a name."""

    metadata: ObjectMeta = ObjectMeta()
    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str = _PREEMPTS


def admit_pod(transaction: Transaction, document: Document, now: datetime) -> None:
    """Complete a pod about to be created; it has been defaulted. Refuses a priority that is not its class's."""
    spec = document["spec"]
    _set_priority(transaction, document, spec)
    _add_tolerations(spec)
    status = document["status"]
    status["qosClass"] = qos_class(view(document, Pod).spec)
    if spec.get("schedulingGates"):
        text = "Scheduling is blocked due to non-empty scheduling gates"
        condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": text}
        set_condition(document, condition, now)


def complete_update(new: Document, old: Document) -> None:
    """An update that leaves out what the server had put in keeps it."""
    before, after = old.get("spec") or {}, new.get("spec")
    if not isinstance(after, dict):
        return
    for key in ("priority", "preemptionPolicy"):
        if after.get(key) is None and key in before:
            after[key] = before[key]
    _add_tolerations(after)


def keep_pod_status(new: Document, old: Document) -> None:
    """A status without the quality of service or the observed generation keeps those the server knows."""
    before, after = old.get("status") or {}, new.get("status")
    for key in ("qosClass", "observedGeneration"):
        if isinstance(after, dict) and not after.get(key) and key in before:
            after[key] = before[key]


def _set_priority(transaction: Transaction, document: Document, spec: Document) -> None:
    name = spec.get("priorityClassName") or ""
    found = _named_class(transaction, name) if name else _default_class(transaction)
    shown = shown_name(document["metadata"])
    if found is None:
        raise faults.denied("pods", shown, f"no PriorityClass with name {name} was found")
    given = spec.get("priority")
    if given is not None and given != found.value:
        why = f"the integer value of priority ({given}) must not be provided in pod spec; "
        why += f"priority admission controller computed {found.value} from the given PriorityClass name"
        raise faults.denied("pods", shown, why)
    given = spec.get("preemptionPolicy")
    if given is not None and given != found.preemption_policy:
        why = f"the string value of PreemptionPolicy ({given}) must not be provided in pod spec; "
        why += f"priority admission controller computed {found.preemption_policy} from the given PriorityClass name"
        raise faults.denied("pods", shown, why)
    if found.metadata.name:
        spec["priorityClassName"] = found.metadata.name
    spec |= {"priority": found.value, "preemptionPolicy": found.preemption_policy}


def _named_class(transaction: Transaction, name: str) -> _PriorityClass | None:
    stored = transaction.get(Key(_CLASSES, "", name))
    if stored is not None:
        return _read_class(stored)
    value = _SYSTEM.get(name)
    return None if value is None else _PriorityClass(metadata=ObjectMeta(name=name), value=value)


def _default_class(transaction: Transaction) -> _PriorityClass:
    """The lowest of the classes that are the default, or none at all, which counts as 0."""
    classes = [_read_class(stored) for stored in transaction.list(_CLASSES)]
    marked = [one for one in classes if one is not None and one.global_default]
    return min(marked, key=lambda one: one.value, default=_PriorityClass())


def _read_class(stored: Stored) -> _PriorityClass | None:
    """None where it makes no sense: classes are kept as they come, and one bad one must not stop all pods."""
    try:
        return view(document_of(stored), _PriorityClass)
    except InvalidError:
        return None


def _add_tolerations(spec: Document) -> None:
    """A pod stays five minutes on a node that fell ill, unless it says otherwise."""
    tolerations = list(spec.get("tolerations") or ())
    for key in _WAITS:
        if not any(_speaks_of(toleration, key) for toleration in tolerations):
            wait = {"key": key, "operator": "Exists", "effect": "NoExecute"}
            tolerations.append({**wait, "tolerationSeconds": _WAIT_SECONDS})
    spec["tolerations"] = tolerations


def _speaks_of(toleration: Document, key: str) -> bool:
    return toleration.get("key") in (None, "", key) and toleration.get("effect") in (None, "", "NoExecute")


def qos_class(spec: PodSpec) -> str:
    """How well a pod's resources are reserved: Guaranteed, Burstable or BestEffort."""
    if spec.resources is not None:
        lists = [(spec.resources.requests, spec.resources.limits)]
    else:
        containers = (*spec.containers, *spec.init_containers)
        lists = [(one.resources.requests, one.resources.limits) for one in containers]
    requests, limits = _sum([one[0] for one in lists]), _sum([one[1] for one in lists])
    if not requests and not limits:
        return "BestEffort"
    limited = all(
        {*_counted(limit)} == {*_GUARANTEED} for _, limit in lists if limit or spec.resources is None
    )
    return "Guaranteed" if limited and requests == limits else "Burstable"


def _counted(amounts: ResourceList) -> ResourceList:
    return {name: amounts[name] for name in _GUARANTEED if amounts.get(name, _ZERO) > _ZERO}


def _sum(lists: list[ResourceList]) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for amounts in lists:
        for name, amount in _counted(amounts).items():
            total[name] = total[name] + amount if name in total else amount
    return total


def set_condition(document: Document, condition: Document, now: datetime) -> None:
    """Put a condition into a pod's status; its time stays while its status does."""
    status: dict[str, Any] = document.setdefault("status", {})
    conditions: list[Document] = list(status.get("conditions") or ())
    new = {"lastTransitionTime": format_time(now), **condition}
    for position, old in enumerate(conditions):
        if old.get("type") == condition["type"]:
            if old.get("status") == condition["status"] and old.get("lastTransitionTime"):
                new["lastTransitionTime"] = old["lastTransitionTime"]
            conditions[position] = new
            break
    else:
        conditions.append(new)
    status["conditions"] = conditions
