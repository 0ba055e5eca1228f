"""Rows of tables for kinds that are kept as raw JSON: workloads, services, secrets. A field of another form counts as absent. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from dray.apiserver.forms import EVENTS
from dray.apiserver.http.showing.ages import UNKNOWN, age
from dray.apiserver.writing.kinds.scale import selector_text

Document = Mapping[str, Any]
Cells = Callable[[Document, datetime], list[object]]
NONE: Final = "<none>"
_BOUND: Final = ("+Users", "+Groups", "+ServiceAccounts")
_WIDE: Final = ("+Containers", "+Images", "+Selector")


def _below(document: Document, *keys: str) -> Document:
    for key in keys:
        found = document.get(key)
        document = found if isinstance(found, Mapping) else {}
    return document


def _list(document: Document, key: str) -> list[Any]:
    found = document.get(key)
    return found if isinstance(found, list) else []


def moment(text: Any) -> datetime | None:
    """A time out of a document; None where it is none."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo is not None else None


def _born(document: Document, now: datetime) -> str:
    return age(moment(_below(document, "metadata").get("creationTimestamp")), now)


def _name(document: Document) -> str:
    return str(_below(document, "metadata").get("name", ""))


def _wide(document: Document) -> list[object]:
    """The containers, their images and the selector."""
    inside = _below(document, "spec", "template", "spec")
    containers = [one for one in _list(inside, "containers") if isinstance(one, Mapping)]
    joined = (",".join(str(one.get(key, "")) for one in containers) for key in ("name", "image"))
    return [*joined, selector_text(_below(document, "spec").get("selector")) or NONE]


def _deployment(document: Document, now: datetime) -> list[object]:
    spec, status = _below(document, "spec"), _below(document, "status")
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    counts = [status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]
    return [_name(document), ready, *counts, _born(document, now), *_wide(document)]


def _replica_set(document: Document, now: datetime) -> list[object]:
    spec, status = _below(document, "spec"), _below(document, "status")
    counts = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [_name(document), *counts, _born(document, now), *_wide(document)]


def _stateful_set(document: Document, now: datetime) -> list[object]:
    spec, status = _below(document, "spec"), _below(document, "status")
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [_name(document), ready, _born(document, now), *_wide(document)[:2]]


def _daemon_set(document: Document, now: datetime) -> list[object]:
    status = _below(document, "status")
    words = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    counts = [status.get(word, 0) for word in (*words, "numberAvailable")]
    chosen = _below(document, "spec", "template", "spec", "nodeSelector")
    shown = ",".join(f"{key}={value}" for key, value in sorted(chosen.items())) or NONE
    return [_name(document), *counts, shown, _born(document, now), *_wide(document)]


def _job(document: Document, now: datetime) -> list[object]:
    spec, status = _below(document, "spec"), _below(document, "status")
    done, wanted = status.get("succeeded", 0), spec.get("completions")
    if wanted is None:
        parallel = spec.get("parallelism", 1)
        is_many = isinstance(parallel, int) and parallel > 1
        completions = f"{done}/1 of {parallel}" if is_many else f"{done}/1"
    else:
        completions = f"{done}/{wanted}"
    began, ended = moment(status.get("startTime")), moment(status.get("completionTime"))
    took = age(began, ended or now) if began is not None else ""
    return [
        _name(document),
        _job_state(document),
        completions,
        took,
        _born(document, now),
        *_wide(document),
    ]


def _job_state(document: Document) -> str:
    found = {
        one.get("type")
        for one in _list(_below(document, "status"), "conditions")
        if isinstance(one, Mapping) and one.get("status") == "True"
    }
    if "Complete" in found or "Failed" in found:
        return "Complete" if "Complete" in found else "Failed"
    if _below(document, "metadata").get("deletionTimestamp"):
        return "Terminating"
    named = (("Suspended", "Suspended"), ("FailureTarget", "FailureTarget"), ("SuccessCriteriaMet",) * 2)
    return next((word for kind, word in named if kind in found), "Running")


def _service(document: Document, now: datetime) -> list[object]:
    spec = _below(document, "spec")
    kind, address = str(spec.get("type", "")), str(spec.get("clusterIP") or NONE)
    ports = [_port(one) for one in _list(spec, "ports") if isinstance(one, Mapping)]
    chosen = _below(spec, "selector")
    shown = ",".join(f"{key}={value}" for key, value in sorted(chosen.items())) or NONE
    outside = _outside(document, kind)
    return [
        _name(document),
        kind,
        address,
        outside,
        ",".join(ports) or NONE,
        _born(document, now),
        shown,
    ]


def _port(port: Document) -> str:
    outer = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', 0)}{outer}/{port.get('protocol', 'TCP')}"


def _outside(document: Document, kind: str) -> str:
    spec = _below(document, "spec")
    given = [str(one) for one in _list(spec, "externalIPs")]
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    if kind != "LoadBalancer":
        return ",".join(given) or NONE
    ingress = _list(_below(document, "status", "loadBalancer"), "ingress")
    found = [str(one.get("ip") or one.get("hostname")) for one in ingress if isinstance(one, Mapping)]
    return ",".join((*found, *given)) or "<pending>"


def _secret(document: Document, now: datetime) -> list[object]:
    count = len(_below(document, "data"))
    return [_name(document), str(document.get("type", "")), count, _born(document, now)]


def _service_account(document: Document, now: datetime) -> list[object]:
    return [_name(document), _born(document, now)]


def _priority_class(document: Document, now: datetime) -> list[object]:
    told = [document.get("value", 0), document.get("globalDefault") is True]
    return [_name(document), *told, _born(document, now), str(document.get("preemptionPolicy", ""))]


def _binding(document: Document, now: datetime) -> list[object]:
    role = _below(document, "roleRef")
    bound = [one for one in _list(document, "subjects") if isinstance(one, Mapping)]
    named = (_subjects(bound, kind) for kind in ("User", "Group", "ServiceAccount"))
    return [_name(document), f"{role.get('kind', '')}/{role.get('name', '')}", _born(document, now), *named]


def _subjects(bound: list[Document], kind: str) -> str:
    found = [one for one in bound if one.get("kind") == kind]
    spaces = ((f"{one.get('namespace', '')}/" if kind == "ServiceAccount" else "") for one in found)
    return ", ".join(f"{space}{one.get('name', '')}" for space, one in zip(spaces, found, strict=True))


def _definition(document: Document, now: datetime) -> list[object]:
    return [_name(document), str(_below(document, "metadata").get("creationTimestamp", UNKNOWN))]


RAW_CELLS: Final[Mapping[str, tuple[tuple[str, ...], Cells]]] = {
    "deployments.apps": (("Name", "Ready", "Up-to-date", "Available", "Age", *_WIDE), _deployment),
    "replicasets.apps": (("Name", "Desired", "Current", "Ready", "Age", *_WIDE), _replica_set),
    "statefulsets.apps": (("Name", "Ready", "Age", *_WIDE[:2]), _stateful_set),
    "daemonsets.apps": (
        (
            *("Name", "Desired", "Current", "Ready", "Up-to-date", "Available", "Node Selector", "Age"),
            *_WIDE,
        ),
        _daemon_set,
    ),
    "jobs.batch": (("Name", "Status", "Completions", "Duration", "Age", *_WIDE), _job),
    "services": (("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "+Selector"), _service),
    "secrets": (("Name", "Type", "Data", "Age"), _secret),
    "serviceaccounts": (("Name", "Age"), _service_account),
    "priorityclasses.scheduling.k8s.io": (
        ("Name", "Value", "Global-Default", "Age", "PreemptionPolicy"),
        _priority_class,
    ),
    "roles.rbac.authorization.k8s.io": (("Name", "Created At"), _definition),
    "clusterroles.rbac.authorization.k8s.io": (("Name", "Created At"), _definition),
    "rolebindings.rbac.authorization.k8s.io": (("Name", "Role", "Age", *_BOUND), _binding),
    "clusterrolebindings.rbac.authorization.k8s.io": (("Name", "Role", "Age", *_BOUND), _binding),
    "customresourcedefinitions.apiextensions.k8s.io": (("Name", "Created At"), _definition),
}
"""By resource: the columns, those only shown when wide with a `+`, and what fills them."""


def as_core_event(document: Document) -> Any:
    """An Event of events.k8s.io, for the columns that both groups share."""
    return EVENTS.inward(dict(document))
