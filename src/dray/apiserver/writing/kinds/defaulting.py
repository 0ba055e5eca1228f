"""Absent values that mean something, filled in on every write: the typed kinds' by `dray.api`, here those of kinds kept as raw JSON.

Only what a user of a device stack creates and reads back: workloads, services, secrets. What has another form than it
should is left alone.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any, Final

from dray.api.defaults import set_defaults
from dray.api.kinds import EVENTS, NODES, PODS, RESOURCE_CLAIM_TEMPLATES
from dray.apiserver.custom.definition import DEFINITIONS
from dray.apiserver.patching.apply.schema import filled
from dray.apiserver.served import Document
from dray.apiserver.writing.request import Write

_CONTAINERS: Final = ("containers", "initContainers")
_WITH_EMPTY_PARTS: Final = (EVENTS, NODES, RESOURCE_CLAIM_TEMPLATES)
"""Kinds that are answered with parts that nobody sent, such as `eventTime: null`."""
_RBAC: Final = "rbac.authorization.k8s.io"
_NO_LIMIT: Final = 2**31 - 1


def fill(write: Write, document: Document) -> None:
    """Fill in the defaults, in place. Doing it again changes nothing."""
    resource = write.served.resource
    if write.served.typed:
        set_defaults(resource, document, write.now)
        if resource in _WITH_EMPTY_PARTS:
            document |= filled(resource, document)
        if resource == NODES:
            _fill_ranges(_below(document, "spec"))
        if resource == PODS:
            _fill_resources(_below(document, "spec"))
        return
    known = _BY_RESOURCE.get(str(resource))
    if known is not None:
        known(write, document)
    elif write.served.fill is not None:
        write.served.fill(document)


def _below(parent: Document, key: str) -> Document:
    """The object below, made where it is absent; an unconnected one where something else is there."""
    found = parent.setdefault(key, {})
    return found if isinstance(found, dict) else {}


def _items(parent: Document, key: str) -> Iterator[Document]:
    found = parent.get(key)
    return (one for one in found if isinstance(one, dict)) if isinstance(found, list) else iter(())


def _set(parent: Document, **values: Any) -> None:
    for key, value in values.items():
        if parent.get(key) in (None, ""):
            parent[key] = value


def _fill_ranges(spec: Document) -> None:
    """A node's first range of addresses is told twice."""
    if first := spec.get("podCIDR"):
        _set(spec, podCIDRs=[first])


def _fill_resources(spec: Document) -> None:
    for key in _CONTAINERS:
        for container in _items(spec, key):
            container.setdefault("resources", {})


def _template(write: Write, spec: Document) -> None:
    """A pod template is defaulted like a pod, but for what Kubernetes leaves to the pod: requests, service links."""
    template = _below(spec, "template")
    inside = _below(template, "spec")
    containers = [one for key in _CONTAINERS for one in _items(inside, key)]
    kept = [one.pop("resources", {}) for one in containers]
    links = inside.get("enableServiceLinks")
    set_defaults(PODS, template, write.now)
    if links is None:
        inside.pop("enableServiceLinks", None)
    for container, resources in zip(containers, kept, strict=True):
        container["resources"] = resources


def _deployment(write: Write, document: Document) -> None:
    spec = _below(document, "spec")
    strategy = _below(spec, "strategy")
    _set(strategy, type="RollingUpdate")
    if strategy.get("type") == "RollingUpdate":
        _set(_below(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")
    _set(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    _template(write, spec)


def _replica_set(write: Write, document: Document) -> None:
    spec = _below(document, "spec")
    _set(spec, replicas=1)
    _template(write, spec)


def _daemon_set(write: Write, document: Document) -> None:
    spec = _below(document, "spec")
    strategy = _below(spec, "updateStrategy")
    _set(strategy, type="RollingUpdate")
    if strategy.get("type") == "RollingUpdate":
        _set(_below(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)
    _set(spec, revisionHistoryLimit=10)
    _template(write, spec)


def _stateful_set(write: Write, document: Document) -> None:
    spec = _below(document, "spec")
    strategy = _below(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy |= {"type": "RollingUpdate", "rollingUpdate": strategy.get("rollingUpdate") or {}}
    if strategy["type"] == "RollingUpdate" and isinstance(strategy.get("rollingUpdate"), dict):
        _set(strategy["rollingUpdate"], partition=0)
    _set(_below(spec, "persistentVolumeClaimRetentionPolicy"), whenDeleted="Retain", whenScaled="Retain")
    _set(spec, podManagementPolicy="OrderedReady", replicas=1, revisionHistoryLimit=10)
    _template(write, spec)


def _job(write: Write, document: Document) -> None:
    spec = _below(document, "spec")
    _fill_job(spec)
    _template(write, spec)
    labels = _below(_below(spec, "template"), "metadata").get("labels")
    if labels and isinstance(labels, dict):
        _set(_below(document, "metadata"), labels=dict(labels))


def _fill_job(spec: Document) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    replaced = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    limit = 6 if spec.get("backoffLimitPerIndex") is None else _NO_LIMIT
    _set(spec, parallelism=1, backoffLimit=limit, completionMode="NonIndexed", suspend=False)
    _set(spec, podReplacementPolicy=replaced, manualSelector=False)


def _cron_job(write: Write, document: Document) -> None:
    spec = _below(document, "spec")
    _set(
        spec, concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1
    )
    _template(write, _below(_below(spec, "jobTemplate"), "spec"))


def _service(write: Write, document: Document) -> None:
    spec = _below(document, "spec")
    _set(spec, sessionAffinity="None", type="ClusterIP")
    for port in _items(spec, "ports"):
        _set(port, protocol="TCP")
        if port.get("targetPort") in (None, "", 0) and "port" in port:
            port["targetPort"] = port["port"]
    if spec.get("type") in ("ClusterIP", "NodePort", "LoadBalancer"):
        _set(spec, internalTrafficPolicy="Cluster")
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        _set(spec, externalTrafficPolicy="Cluster")
    if spec.get("type") == "LoadBalancer":
        _set(spec, allocateLoadBalancerNodePorts=True)


def _secret(write: Write, document: Document) -> None:
    """`stringData` is only a way to write: it ends up in `data`."""
    _set(document, type="Opaque")
    given = document.get("stringData")
    if isinstance(given, dict) and all(isinstance(text, str) for text in given.values()):
        del document["stringData"]
        data = _below(document, "data")
        data |= {key: base64.b64encode(text.encode()).decode() for key, text in given.items()}


def _role_binding(write: Write, document: Document) -> None:
    _set(_below(document, "roleRef"), apiGroup=_RBAC)
    for subject in _items(document, "subjects"):
        if subject.get("kind") in ("User", "Group"):
            _set(subject, apiGroup=_RBAC)


def _definition(write: Write, document: Document) -> None:
    spec = _below(document, "spec")
    _set(spec, conversion={"strategy": "None"})
    called = _below(spec, "names")
    if isinstance(kind := called.get("kind"), str):
        _set(called, singular=kind.lower(), listKind=f"{kind}List")


def _volume_claim(write: Write, document: Document) -> None:
    _set(_below(document, "spec"), volumeMode="Filesystem")


_BY_RESOURCE: Final[dict[str, Callable[[Write, Document], None]]] = {
    DEFINITIONS: _definition,
    "deployments.apps": _deployment,
    "replicasets.apps": _replica_set,
    "daemonsets.apps": _daemon_set,
    "statefulsets.apps": _stateful_set,
    "jobs.batch": _job,
    "cronjobs.batch": _cron_job,
    "services": _service,
    "secrets": _secret,
    "persistentvolumeclaims": _volume_claim,
    f"rolebindings.{_RBAC}": _role_binding,
    f"clusterrolebindings.{_RBAC}": _role_binding,
}
