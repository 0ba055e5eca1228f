"""Storage for tests, as short as the test allows."""

from __future__ import annotations

from typing import Any

from dray.api.codec import view
from dray.api.core import Pod
from dray.scheduler.fit.filters import Fit, FitOptions
from dray.scheduler.fit.rejection import Rejection
from dray.scheduler.fit.volume_objects import PersistentVolume, PersistentVolumeClaim, StorageClass, Volumes
from dray.scheduler.nodes import Nodes
from tests.scheduler.objects import make_pod

Json = dict[str, Any]


def make_claim(
    name: str = "data", volume: str = "pv", *, is_bound: bool = True, status: str = "Bound", **meta: Any
) -> PersistentVolumeClaim:
    """In namespace default. `modes` and `storage_class` go into its spec, the rest is metadata."""
    spec = {
        "volumeName": volume,
        "accessModes": meta.pop("modes", []),
        "storageClassName": meta.pop("storage_class", None),
    }
    metadata: Json = {"name": name, "namespace": "default", **meta}
    if is_bound:
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    return view({"metadata": metadata, "spec": spec, "status": {"phase": status}}, PersistentVolumeClaim)


def make_volume(
    name: str = "pv", *, disk: str = "", labels: dict[str, str] | None = None
) -> PersistentVolume:
    """With `disk` only nodes whose label `disk` has that value reach it."""
    spec: Json = {}
    if disk:
        term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": [disk]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return view({"metadata": {"name": name, "labels": labels or {}}, "spec": spec}, PersistentVolume)


def make_class(name: str, mode: str) -> StorageClass:
    return view({"metadata": {"name": name}, "volumeBindingMode": mode}, StorageClass)


def with_claims(*names: str, pod: str = "pod", **spec: Any) -> Pod:
    """A pod that uses these claims."""
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return make_pod(pod, volumes=volumes, **spec)


def fit_with(pod: Pod, *objects: PersistentVolumeClaim | PersistentVolume, nodes: Nodes | None = None) -> Fit:
    claims = [one for one in objects if isinstance(one, PersistentVolumeClaim)]
    volumes = [one for one in objects if isinstance(one, PersistentVolume)]
    classes = [make_class("later", "WaitForFirstConsumer"), make_class("at-once", "Immediate")]
    known = Volumes.of(claims, volumes, classes)
    return Fit.of(pod, nodes or Nodes(), FitOptions(volumes=known))


def barred(pod: Pod, *objects: PersistentVolumeClaim | PersistentVolume) -> tuple[str, str]:
    """The check, and its word."""
    found = fit_with(pod, *objects).barred()
    assert isinstance(found, Rejection) and not found.can_resolve
    return found.check, str(found)
