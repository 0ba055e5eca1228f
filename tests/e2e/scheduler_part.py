"""kube-scheduler beside an API server that has neither it nor controllers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dray.testing.kubernetes import commands
from dray.testing.kubernetes.control_plane import ControlPlane
from dray.testing.kubernetes.part import Part


@contextmanager
def kube_scheduler(plane: ControlPlane) -> Iterator[Part]:
    """With its default profile, for all pods of the server."""
    part = Part("kube-scheduler", commands.scheduler(plane.settings, plane.identities), plane.directory)
    part.start()
    try:
        yield part
    finally:
        part.stop()


def delete_claims(plane: ControlPlane, pod: str = "") -> None:
    """All of the default namespace, or those of one pod, named like it or made for it, as a controller would."""
    path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    for claim in plane.request("GET", path)["items"]:
        meta = claim["metadata"]
        if pod and pod not in (meta["name"], *(one["name"] for one in meta.get("ownerReferences", []))):
            continue
        stored = plane.request("PUT", f"{path}/{meta['name']}/status", {**claim, "status": {}})
        stored["metadata"]["finalizers"] = []
        plane.request("PUT", f"{path}/{meta['name']}", stored)
        plane.request("DELETE", f"{path}/{meta['name']}")
