"""What `dray bench scheduler` lets the schedulers place: nodes, slices, claims and pods as documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]

DRIVER: Final = "gpu.example.com"
NAMESPACE: Final = "default"
_COUNTERS: Final = 8
_WIDTHS: Final = (1, 2, 4, 8)
_WANTED: Final = (1, 2, 1, 4)
"""The sizes of partitions that pods ask for, in turn: on average two of eight."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One cluster and its pods; pod number N waits for claim number N. `fair` is how many of the pods Kubernetes gets."""

    name: str
    nodes: tuple[Json, ...]
    slices: tuple[Json, ...]
    claims: tuple[Json, ...]
    fair: int

    @property
    def device_class(self) -> Json:
        """The one class."""
        expression = f'device.driver == "{DRIVER}"'
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        }

    def pods(self, scheduler: str, count: int) -> Iterator[Json]:
        """The first `count` pods, for one scheduler."""
        for claim in self.claims[:count]:
            yield _pod(claim["metadata"]["name"], scheduler)


def whole_devices(nodes: int, devices: int, pods: int, fair: int | None = None) -> Workload:
    """Pods with one claim for one device each."""
    slices = tuple(_slice(node, [_device(number) for number in range(devices)]) for node in range(nodes))
    claims = tuple(_claim(number, _request()) for number in range(pods))
    name = f"{nodes} nodes x {devices} devices"
    return Workload(name, tuple(_node(node) for node in range(nodes)), slices, claims, fair or pods)


def partitions(nodes: int, pods: int, fair: int | None = None) -> Workload:
    """One card a node in 15 overlapping partitions over eight counters; pods ask for sizes in turn."""
    slices = tuple(one for node in range(nodes) for one in _partitioned(node))
    claims = tuple(
        _claim(number, _request(f'device.attributes["{DRIVER}"].width == {_WANTED[number % len(_WANTED)]}'))
        for number in range(pods)
    )
    name = f"{nodes} nodes x 15 partitions over 8 counters"
    return Workload(name, tuple(_node(node) for node in range(nodes)), slices, claims, fair or pods)


def _node(number: int) -> Json:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "250"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number}", "labels": {"kubernetes.io/hostname": f"node-{number}"}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "Bench", "message": "for a benchmark"}
            ],
        },
    }


def _slice(node: int, devices: list[Json], *, part: int = 0, of: int = 1, **fields: Any) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"node-{node}-{part}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": f"node-{node}",
            "pool": {"name": f"node-{node}", "generation": 1, "resourceSliceCount": of},
            **({"devices": devices} if devices else {}),
            **fields,
        },
    }


def _device(number: int, **fields: Any) -> Json:
    attributes = {"index": {"int": number}, "model": {"string": "bench"}}
    return {"name": f"gpu-{number}", "attributes": attributes, **fields}


def _partitioned(node: int) -> Iterator[Json]:
    counters = {f"part-{number}": {"value": "1"} for number in range(_COUNTERS)}
    yield _slice(node, [], of=2, sharedCounters=[{"name": "card", "counters": counters}])
    places = [(width, start) for width in _WIDTHS for start in range(0, _COUNTERS, width)]
    devices = [_partition(number, *place) for number, place in enumerate(places)]
    yield _slice(node, devices, part=1, of=2)


def _partition(number: int, width: int, start: int) -> Json:
    drawn = {f"part-{place}": {"value": "1"} for place in range(start, start + width)}
    device = _device(number, consumesCounters=[{"counterSet": "card", "counters": drawn}])
    device["attributes"]["width"] = {"int": width}
    return device


def _request(*expressions: str) -> Json:
    wish: Json = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    if expressions:
        wish["selectors"] = [{"cel": {"expression": one}} for one in expressions]
    return {"name": "gpu", "exactly": wish}


def _claim(number: int, request: Json) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"bench-{number}", "namespace": NAMESPACE},
        "spec": {"devices": {"requests": [request]}},
    }


def _pod(name: str, scheduler: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "schedulerName": scheduler,
            "containers": [
                {
                    "name": "main",
                    "image": "busybox",
                    "resources": {"requests": {"cpu": "100m"}, "claims": [{"name": "gpu"}]},
                }
            ],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
        },
    }
