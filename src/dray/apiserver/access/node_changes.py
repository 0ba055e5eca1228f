"""What a node may change of an object, where only the object can tell: the rules of Kubernetes' NodeRestriction. Pure.

Each function gives why a change is refused, in words, or nothing. `old` None: created; `new` None: deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from dray.apiserver.access.roles import Document

NOT_OWN: Final = "a node may only do this to its own"
_RESTRICTED: Final = "node-restriction.kubernetes.io"
_DOMAINS: Final = ("kubernetes.io", "k8s.io")
_KUBELET_DOMAINS: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBELET_LABELS: Final = frozenset(
    {
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "beta.kubernetes.io/os",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "kubernetes.io/arch",
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
Owns = Callable[[str, str], bool]
"""Whether a driver's pool, by their names, is the node's own."""
_SET_BY_OTHERS: Final = ("labels", "annotations", "finalizers", "ownerReferences")


def name_fault(node: str, old: Document | None, new: Document | None) -> str:
    """For objects that are called like their node: Lease, CSINode."""
    return "" if all(_meta(one).get("name") == node for one in _both(old, new)) else NOT_OWN


def node_fault(node: str, old: Document | None, new: Document | None) -> str:
    """Its own Node, through both doors: nothing by which it would draw pods, or tie itself to other objects."""
    if why := name_fault(node, old, new):
        return why
    if new is None:
        return ""
    if forbidden := _forbidden_labels(_map(old or {}, "labels"), _map(new, "labels")):
        return f"a node may not set or change these labels of itself: {', '.join(forbidden)}"
    if (source := _spec(new).get("configSource")) and source != _spec(old or {}).get("configSource"):
        return "a node may not set spec.configSource"
    if old is None:
        return ""
    if (_spec(old).get("taints") or []) != (_spec(new).get("taints") or []):
        return "a node may not change spec.taints of itself"
    return _metadata_fault(old, new, ("finalizers", "ownerReferences"))


def slice_fault(node: str, old: Document | None, new: Document | None, owns: Owns) -> str:
    """A ResourceSlice of this node, before and after; what it becomes is in a pool of this node's own."""
    if not all(_spec(one).get("nodeName") == node for one in _both(old, new)):
        return f"its spec.nodeName must be {node!r}, before and after"
    if new is None:
        return ""
    driver, pool = _spec(new).get("driver"), _object(_spec(new), "pool").get("name")
    if owns(str(driver), str(pool)):
        return ""
    return f"spec.pool.name: pool {pool!r} of driver {driver} does not belong to node {node!r}"


def pod_fault(node: str, subresource: str, old: Document | None, new: Document | None) -> str:
    """A pod on this node; of its status not the part that says which claims are the pod's."""
    if not all(_spec(one).get("nodeName") == node for one in _both(old, new)):
        return NOT_OWN
    if subresource != "status" or old is None or new is None:
        return ""
    before, after = _object(old, "status"), _object(new, "status")
    for field in ("resourceClaimStatuses", "extendedResourceClaimStatus"):
        if (before.get(field) or None) != (after.get(field) or None):
            return f"a node may not change status.{field}: it would grant itself a claim"
    return _metadata_fault(old, new, _SET_BY_OTHERS)


def claim_fault(old: Document, new: Document, owns: Owns) -> str:
    """What is changed of a claim beyond the entries for devices in this node's pools."""
    before, after = _object(old, "status"), _object(new, "status")
    for field in sorted({*before, *after} - {"devices"}):
        if before.get(field) != after.get(field):
            return f"a node may not change status.{field}"
    if _devices(before, owns) != _devices(after, owns):
        return "a node may change entries of status.devices for devices of its own pools only"
    return _metadata_fault(old, new, _SET_BY_OTHERS)


def token_fault(node: str, pod: Document | None, *, has_uid: bool, audiences: Iterable[str]) -> str:
    """A node gets tokens only for pods it runs, for those whom the pod itself wants to show them to."""
    if pod is None or _spec(pod).get("nodeName") != node:
        return "a node may only ask for tokens bound to its own pods"
    if not has_uid:
        return "spec.boundObjectRef.uid: a node must give the uid of its pod"
    wanted = tuple(audiences) or ("",)
    if len(wanted) > 1:
        return "spec.audiences: a node may ask for one audience at a time"
    if wanted[0] not in _audiences(pod):
        return f"spec.audiences: no volume of the pod has a token for audience {wanted[0]!r}"
    return ""


def _forbidden_labels(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    changed = (key for key in {*old, *new} if key not in old or key not in new or old[key] != new[key])
    return sorted(key for key in changed if not _is_free_label(key))


def _is_free_label(key: str) -> bool:
    """Whether a node may set it on itself: none of Kubernetes' own, but those that a kubelet knows."""
    domain, slash, _ = key.partition("/")
    if not slash:
        return True
    if _is_below(domain, _RESTRICTED):
        return False
    if not any(_is_below(domain, one) for one in _DOMAINS):
        return True
    return key in _KUBELET_LABELS or any(_is_below(domain, one) for one in _KUBELET_DOMAINS)


def _is_below(domain: str, parent: str) -> bool:
    return domain == parent or domain.endswith(f".{parent}")


def _metadata_fault(old: Document, new: Document, fields: Iterable[str]) -> str:
    for field in fields:
        if (_meta(old).get(field) or None) != (_meta(new).get(field) or None):
            return f"a node may not change metadata.{field}"
    return ""


def _devices(status: Mapping[str, Any], owns: Owns) -> list[Any]:
    """The entries that are not this node's."""
    return [one for one in status.get("devices") or () if not _is_owned(one, owns)]


def _is_owned(entry: Any, owns: Owns) -> bool:
    return isinstance(entry, Mapping) and owns(str(entry.get("driver")), str(entry.get("pool")))


def _audiences(pod: Document) -> set[str]:
    volumes = _spec(pod).get("volumes")
    sources = [
        source
        for one in (volumes if isinstance(volumes, list) else ())
        for source in _object(one, "projected").get("sources") or ()
    ]
    tokens = [_object(one, "serviceAccountToken") for one in sources if _has_token(one)]
    return {str(one.get("audience") or "") for one in tokens}


def _has_token(source: Any) -> bool:
    return isinstance(source, Mapping) and isinstance(source.get("serviceAccountToken"), Mapping)


def _both(old: Document | None, new: Document | None) -> list[Document]:
    return [one for one in (old, new) if one is not None]


def _map(document: Document, field: str) -> Mapping[str, Any]:
    return _object(_meta(document), field)


def _meta(document: Document) -> Mapping[str, Any]:
    return _object(document, "metadata")


def _spec(document: Document) -> Mapping[str, Any]:
    return _object(document, "spec")


def _object(parent: Any, field: str) -> Mapping[str, Any]:
    found = parent.get(field) if isinstance(parent, Mapping) else None
    return found if isinstance(found, Mapping) else {}
