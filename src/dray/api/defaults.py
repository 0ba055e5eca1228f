"""Defaulting as the API server does it on every write and read: absent values that mean something are filled in.

It works on plain documents, because a server keeps documents and not views. What is not of the expected type is left
alone; decoding reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Final

from dray.api.kinds import Resource
from dray.api.meta import format_time
from dray.api.resource.claim import EXACT_COUNT

Document = dict[str, Any]
_DEFAULT_MODE: Final = 0o644


def set_defaults(resource: Resource[Any], document: Document, now: datetime) -> None:
    """Fill in the defaults of a document, in place. Doing it again changes nothing; `now` dates new taints."""
    fill = _BY_KIND.get(resource.kind)
    if fill is not None:
        fill(document, now)


def _child(parent: Document, *keys: str) -> Document:
    """The object below, or an unconnected empty one, which takes any write without effect."""
    for key in keys:
        value = parent.get(key)
        parent = value if isinstance(value, dict) else {}
    return parent


def _children(parent: Document, key: str) -> Iterator[Document]:
    items = parent.get(key)
    return (item for item in items if isinstance(item, dict)) if isinstance(items, list) else iter(())


def _default(parent: Document, key: str, value: object) -> None:
    if parent.get(key) in (None, ""):
        parent[key] = value


def _slice(document: Document, now: datetime) -> None:
    for device in _children(_child(document, "spec"), "devices"):
        for mapping in _child(device, "nodeAllocatableResourceMappings").values():
            if isinstance(mapping, dict):
                _default(mapping, "allocationMultiplier", "1")
        for taint in _children(device, "taints"):
            _default(taint, "timeAdded", format_time(now))


def _taint_rule(document: Document, now: datetime) -> None:
    spec = document.setdefault("spec", {})
    if isinstance(spec, dict) and isinstance(spec.setdefault("taint", {}), dict):
        _default(spec["taint"], "timeAdded", format_time(now))


def _claim(document: Document, now: datetime) -> None:
    _requests(_child(document, "spec", "devices"))
    for result in _children(_child(document, "status", "allocation", "devices"), "results"):
        _tolerations(result)


def _template(document: Document, now: datetime) -> None:
    _requests(_child(document, "spec", "spec", "devices"))


def _requests(devices: Document) -> None:
    for request in _children(devices, "requests"):
        if isinstance(exactly := request.get("exactly"), dict):
            _request(exactly)
        for alternative in _children(request, "firstAvailable"):
            _request(alternative)


def _request(request: Document) -> None:
    _default(request, "allocationMode", EXACT_COUNT)
    if request["allocationMode"] == EXACT_COUNT and not request.get("count"):
        request["count"] = 1
    _tolerations(request)


def _tolerations(parent: Document) -> None:
    for toleration in _children(parent, "tolerations"):
        _default(toleration, "operator", "Equal")


def _pod(document: Document, now: datetime) -> None:
    spec = _child(document, "spec")
    for key, value in (
        ("dnsPolicy", "ClusterFirst"),
        ("restartPolicy", "Always"),
        ("securityContext", {}),
        ("terminationGracePeriodSeconds", 30),
        ("schedulerName", "default-scheduler"),
        ("enableServiceLinks", True),
    ):
        _default(spec, key, value)
    for key in ("containers", "initContainers", "ephemeralContainers"):
        for container in _children(spec, key):
            _container(container, host_network=spec.get("hostNetwork") is True)
    for volume in _children(spec, "volumes"):
        _volume(volume)


def _container(container: Document, *, host_network: bool) -> None:
    policy = "Always" if is_latest(container.get("image")) else "IfNotPresent"
    _default(container, "imagePullPolicy", policy)
    _default(container, "terminationMessagePath", "/dev/termination-log")
    _default(container, "terminationMessagePolicy", "File")
    for port in _children(container, "ports"):
        _default(port, "protocol", "TCP")
        if host_network and port.get("containerPort") and not port.get("hostPort"):
            port["hostPort"] = port["containerPort"]
    resources = _child(container, "resources")
    if limits := _child(resources, "limits"):
        _default(resources, "requests", {})
        if isinstance(requests := resources["requests"], dict):
            resources["requests"] = {**limits, **requests}


def is_latest(image: object) -> bool:
    """Whether an image is pulled every time: no digest, and the tag `latest` or none."""
    if not isinstance(image, str) or "@" in image or not image:
        return False
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return not colon or tag == "latest"


def _volume(volume: Document) -> None:
    if not any(value is not None for key, value in volume.items() if key != "name"):
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if isinstance(volume.get(source), dict):
            _default(volume[source], "defaultMode", _DEFAULT_MODE)
    if isinstance(volume.get("hostPath"), dict) and volume["hostPath"].get("type") is None:
        volume["hostPath"]["type"] = ""


def _node(document: Document, now: datetime) -> None:
    status = _child(document, "status")
    if status.get("allocatable") is None and isinstance(capacity := status.get("capacity"), dict):
        status["allocatable"] = dict(capacity)


def _namespace(document: Document, now: datetime) -> None:
    metadata = _child(document, "metadata")
    if name := metadata.get("name"):
        _default(metadata, "labels", {})
        if isinstance(metadata["labels"], dict):
            metadata["labels"]["kubernetes.io/metadata.name"] = name


_BY_KIND: Final[dict[str, Callable[[Document, datetime], None]]] = {
    "ResourceSlice": _slice,
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _template,
    "DeviceTaintRule": _taint_rule,
    "Pod": _pod,
    "Node": _node,
    "Namespace": _namespace,
}
