"""What a node may: read what its pods use; write its own Node, Lease, slices, Events, its pods' status and its drivers' part of claims.

As Kubernetes' node authorizer and NodeRestriction together, for the kinds that matter here. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from dray.api.codec import view
from dray.api.core import Pod
from dray.apiserver.access.identity import Identity
from dray.apiserver.access.node_changes import (
    NOT_OWN,
    claim_fault,
    name_fault,
    node_fault,
    pod_fault,
    slice_fault,
    token_fault,
)
from dray.apiserver.access.roles import Asked, Cluster, Document, denied
from dray.semantics.claims import claim_names

LEASE_NAMESPACE = "kube-node-lease"
PODS, NODES, EVENTS, LEASES = "pods", "nodes", "events", "leases.coordination.k8s.io"
CSI_NODES = "csinodes.storage.k8s.io"
SLICES, CLAIMS = "resourceslices.resource.k8s.io", "resourceclaims.resource.k8s.io"
TOKENS = "serviceaccounts/token"
_REVIEWS = (
    "tokenreviews.authentication.k8s.io",
    "subjectaccessreviews.authorization.k8s.io",
    "localsubjectaccessreviews.authorization.k8s.io",
)
_FREE = (
    "services",
    "runtimeclasses.node.k8s.io",
    "csidrivers.storage.k8s.io",
    "deviceclasses.resource.k8s.io",
)
_MIRROR = "kubernetes.io/config.mirror"
_UNRELATED = "no relationship found between this node and the object"
_WRITES = ("create", "update", "patch", "delete")
_EVENT_VERBS = ("create", "update", "patch")


def check_request(identity: Identity, asked: Asked, cluster: Cluster) -> None:
    """By name and selector; what only the object can tell is left for `check_change`."""
    node = identity.node
    if asked.verb in ("get", "list", "watch"):
        if not _may_read(node, asked, cluster):
            raise denied(identity, asked, _UNRELATED)
    elif not _may_write(node, asked, cluster):
        raise denied(identity, asked, NOT_OWN)


def _may_read(node: str, asked: Asked, cluster: Cluster) -> bool:
    fields = asked.fields or {}
    if asked.subresource and asked.door != f"{CLAIMS}/status":
        return False
    if asked.resource in _FREE:
        return True
    if asked.resource in (NODES, CSI_NODES):
        return node in (asked.name, fields.get("metadata.name"))
    if asked.resource == LEASES:
        return asked.namespace == LEASE_NAMESPACE and asked.name == node
    if asked.resource == PODS:
        return fields.get("spec.nodeName") == node or _is_own_pod(node, asked, cluster)
    if asked.resource == SLICES:
        return fields.get("spec.nodeName") == node or _is_own_slice(node, asked, cluster)
    name = asked.name or fields.get("metadata.name", "")
    return bool(name) and (asked.resource, asked.namespace, name) in _used(cluster.pods_of(node))


def _may_write(node: str, asked: Asked, cluster: Cluster) -> bool:
    verb, door, fields = asked.verb, asked.door, asked.fields or {}
    if door == EVENTS:
        return verb in _EVENT_VERBS
    if door in _REVIEWS:
        return verb == "create"
    if door == TOKENS:
        is_used = (asked.resource, asked.namespace, asked.name) in _used(cluster.pods_of(node))
        return verb == "create" and is_used
    if door in (NODES, f"{NODES}/status", CSI_NODES):
        # The name of a new object is in its body.
        return verb in ("create", "update", "patch") and asked.name in (node, *([""] * (verb == "create")))
    if door == LEASES:
        is_own = asked.name == node or (verb == "create" and not asked.name)
        return verb in _WRITES and asked.namespace == LEASE_NAMESPACE and is_own
    if door == SLICES:
        if verb == "deletecollection":
            return fields.get("spec.nodeName") == node
        return verb in _WRITES
    if door == PODS:
        return verb == "delete" and _is_own_or_gone(node, asked, cluster)
    if door in (f"{PODS}/status", f"{PODS}/eviction"):
        return verb in ("create", "update", "patch") and _is_own_or_gone(node, asked, cluster)
    if door == f"{CLAIMS}/status":
        is_used = (CLAIMS, asked.namespace, asked.name) in _used(cluster.pods_of(node))
        return verb in ("update", "patch") and is_used
    return False


def _is_own_pod(node: str, asked: Asked, cluster: Cluster) -> bool:
    found = cluster.get(PODS, asked.namespace, asked.name) if asked.name else None
    return found is not None and _spec(found).get("nodeName") == node


def _is_own_or_gone(node: str, asked: Asked, cluster: Cluster) -> bool:
    """A kubelet that writes about a pod which was just deleted is told that it is not found, as by Kubernetes."""
    is_gone = bool(asked.name) and cluster.get(PODS, asked.namespace, asked.name) is None
    return is_gone or _is_own_pod(node, asked, cluster)


def _is_own_slice(node: str, asked: Asked, cluster: Cluster) -> bool:
    found = cluster.get(SLICES, "", asked.name) if asked.name else None
    return found is not None and _spec(found).get("nodeName") == node


def check_change(
    identity: Identity, asked: Asked, old: Document | None, new: Document | None, cluster: Cluster
) -> None:
    """See `authorize.check_change`."""
    if why := _fault(identity.node, asked, old, new, cluster):
        raise denied(identity, asked, why)


def check_token(
    identity: Identity,
    asked: Asked,
    pod: Document | None,
    *,
    has_uid: bool = True,
    audiences: Iterable[str] = (),
) -> None:
    """A node gets tokens only for pods it runs: `pod` is the one that the token is to be bound to."""
    if why := token_fault(identity.node, pod, has_uid=has_uid, audiences=audiences):
        raise denied(identity, asked, why)


def _fault(node: str, asked: Asked, old: Document | None, new: Document | None, cluster: Cluster) -> str:
    match asked.resource:
        case "nodes":
            return node_fault(node, old, new)
        case "csinodes.storage.k8s.io" | "leases.coordination.k8s.io":
            return name_fault(node, old, new)
        case "resourceslices.resource.k8s.io":
            return slice_fault(node, old, new, partial(_may_publish, cluster, node))
        case "pods":
            return pod_fault(node, asked.subresource, old, new)
        case "resourceclaims.resource.k8s.io":
            return claim_fault(old or {}, new or {}, partial(_has_pool, cluster, node))
    return ""


def _may_publish(cluster: Cluster, node: str, driver: str, pool: str) -> bool:
    """The pool that is named like the node always, whoever was there first; another one where it is nobody else's.

    Kubernetes recommends the node's name for the pool of its devices and demands nothing: a driver may have several.
    """
    if pool == node:
        return True
    return cluster.get(NODES, "", pool) is None and {*cluster.publishers_of(driver, pool)} <= {node}


def _has_pool(cluster: Cluster, node: str, driver: str, pool: str) -> bool:
    """Whether there are slices of it, which this node might have published, and nobody else's."""
    return node in cluster.publishers_of(driver, pool) and _may_publish(cluster, node, driver, pool)


def _used(pods: Iterable[Document]) -> set[tuple[str, str, str]]:
    """What these pods use, as (resource, namespace, name). A mirror pod gives no right to anything."""
    return {
        (resource, str(_meta(pod).get("namespace", "")), name)
        for pod in pods
        if _MIRROR not in _object(_meta(pod), "annotations")
        for resource, name in (*_claims_of(pod), *_volumes_of(pod), *_variables_of(pod))
        if name
    }


def _claims_of(pod: Document) -> Iterator[tuple[str, str]]:
    """A name in the status counts only for an entry of the spec that has a template, which nobody can change."""
    status, entries = _object(pod, "status"), list(_list(_spec(pod), "resourceClaims"))
    extended = _object(status, "extendedResourceClaimStatus")
    if entries or extended:
        told = {
            "resourceClaimStatuses": list(_list(status, "resourceClaimStatuses")),
            "extendedResourceClaimStatus": extended,
        }
        known = view({"spec": {"resourceClaims": entries}, "status": told}, Pod)
        yield from ((CLAIMS, name) for name in claim_names(known))


def _volumes_of(pod: Document) -> Iterator[tuple[str, str]]:
    volumes = list(_list(_spec(pod), "volumes"))
    volumes += [source for one in volumes for source in _list(_object(one, "projected"), "sources")]
    for one in volumes:
        yield "configmaps", str(_object(one, "configMap").get("name") or "")
        secret = _object(one, "secret")
        yield "secrets", str(secret.get("secretName") or secret.get("name") or "")
        yield "persistentvolumeclaims", str(_object(one, "persistentVolumeClaim").get("claimName") or "")
    yield "serviceaccounts", str(_spec(pod).get("serviceAccountName") or "")
    for one in _list(_spec(pod), "imagePullSecrets"):
        yield "secrets", str(one.get("name") or "")


def _variables_of(pod: Document) -> Iterator[tuple[str, str]]:
    spec = _spec(pod)
    for container in (*_list(spec, "initContainers"), *_list(spec, "containers")):
        sources = [_object(one, "valueFrom") for one in _list(container, "env")]
        for one in sources:
            yield "configmaps", str(_object(one, "configMapKeyRef").get("name") or "")
            yield "secrets", str(_object(one, "secretKeyRef").get("name") or "")
        for one in _list(container, "envFrom"):
            yield "configmaps", str(_object(one, "configMapRef").get("name") or "")
            yield "secrets", str(_object(one, "secretRef").get("name") or "")


def _meta(document: Document) -> Mapping[str, Any]:
    return _object(document, "metadata")


def _spec(document: Document) -> Mapping[str, Any]:
    return _object(document, "spec")


def _object(parent: Document, field: str) -> Mapping[str, Any]:
    found = parent.get(field)
    return found if isinstance(found, Mapping) else {}


def _list(parent: Document, field: str) -> Iterator[Mapping[str, Any]]:
    found = parent.get(field)
    yield from (one for one in found if isinstance(one, Mapping)) if isinstance(found, list) else ()
