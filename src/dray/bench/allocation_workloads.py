"""What `dray bench allocation` places: clusters and pods as JSON, the same for Dray and for the Go allocator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]

DRIVER: Final = "gpu.example.com"
FEATURES: Final = (
    "DRAAdminAccess",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus",
    "DRADeviceTaints",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
)
"""What a scheduler of Kubernetes 1.36 has on by default; its allocator is then the incubating one."""
TIER: Final = "incubating"

PROFILES: Final = (
    ("1g.10gb", 1, 1, tuple(range(7))),
    ("1g.10gb.me", 1, 1, tuple(range(7))),
    ("1g.20gb", 1, 2, (0, 2, 4, 6)),
    ("2g.20gb", 2, 2, (0, 2, 4)),
    ("3g.40gb", 3, 4, (0, 4)),
    ("4g.40gb", 4, 4, (0,)),
    ("7g.80gb", 7, 8, (0,)),
)
"""MIG of an 80 GB card: name, compute slices, memory slices, and at which memory slices a partition may begin."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the workloads are; the defaults are those of the documented figures."""

    large_nodes: int = 5000
    large_tried: int = 500
    large_pods: int = 300
    small_nodes: int = 100
    small_pods: int = 300
    mig_nodes: int = 500
    mig_tried: int = 230
    mig_pods: int = 2
    mig_more_pods: int = 38
    group: int = 18
    impossible_devices: int = 64
    warm_nodes: int = 200
    near_full_nodes: int = 50
    update_devices: int = 128
    indexed_nodes: int = 5000
    rounds: int = 3
    go_seconds: int = 90


def workload(name: str, nodes: int, slices: list[Json], pods: list[list[Json]], **fields: Any) -> Json:
    """A line for the oracle's `bench`, see its README."""
    return {
        "name": name,
        "features": list(FEATURES),
        "nodes": [{"metadata": {"name": f"node-{number}"}} for number in range(nodes)],
        "classes": [
            {
                "metadata": {"name": "gpu"},
                "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
            }
        ],
        "slices": slices,
        "pods": pods,
        "tried": fields.pop("tried", 0),
        **fields,
    }


def gpu(number: int, node: int) -> Json:
    """A device as a GPU driver publishes it; every fourth one has less memory."""
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-8c2f0d3e-0b7c-4d5e-{node:04x}-{number:012x}"},
            "productName": {"string": "NVIDIA H200"},
            "driverVersion": {"version": "580.159.4"},
            "index": {"int": number},
            "ecc": {"bool": True},
            "numa": {"int": number // 4},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number // 2:02x}"},
        },
        "capacity": {
            "memory": {"value": "80Gi" if number % 4 == 0 else "141Gi"},
            "multiprocessors": {"value": "132"},
        },
    }


def node_slice(node: int, devices: list[Json], *, part: int = 0, of: int = 1, **fields: Any) -> Json:
    """One of the slices of a node's pool."""
    return {
        "metadata": {"name": f"node-{node}-{DRIVER}-{part}"},
        "spec": {
            "driver": DRIVER,
            "nodeName": f"node-{node}",
            "pool": {"name": f"node-{node}", "generation": 1, "resourceSliceCount": of},
            **({"devices": devices} if devices else {}),
            **fields,
        },
    }


def request(name: str = "gpu", count: int = 1, *expressions: str) -> Json:
    """A request of the one class."""
    wish: Json = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    if expressions:
        wish["selectors"] = [{"cel": {"expression": one}} for one in expressions]
    return {"name": name, "exactly": wish}


def claim(name: str, *requests: Json, **fields: Any) -> Json:
    """A claim in the default namespace."""
    meta = {"name": name, "namespace": "default"}
    return {"metadata": meta, "spec": {"devices": {"requests": list(requests), **fields}}}


def memory_at_least(amount: str) -> str:
    """A selector."""
    return f'device.capacity["{DRIVER}"].memory.compareTo(quantity("{amount}")) >= 0'


def whole_gpus(name: str, nodes: int, pods: int, tried: int) -> Json:
    """Eight GPUs a node, one device a claim, with a class and a memory selector."""
    slices = [node_slice(node, [gpu(number, node) for number in range(8)]) for node in range(nodes)]
    wanted = request("gpu", 1, memory_at_least("100Gi"))
    claims = [[claim(f"claim-{number}", wanted)] for number in range(pods)]
    return workload(name, nodes, slices, claims, tried=tried)


def mig(name: str, nodes: int, pods: int, tried: int) -> Json:
    """Eight GPUs a node in all their partitions, 200 devices; pods ask for profiles in turn."""
    slices = [one for node in range(nodes) for one in _mig_slices(node)]
    profiles = ("2g.20gb", "3g.40gb", "1g.10gb", "7g.80gb")
    claims = [
        [claim(f"claim-{number}", request("mig", 1, _profile_is(profiles[number % len(profiles)])))]
        for number in range(pods)
    ]
    return workload(name, nodes, slices, claims, tried=tried)


def _profile_is(profile: str) -> str:
    return f'device.attributes["{DRIVER}"].profile == "{profile}"'


def _mig_slices(node: int) -> Iterator[Json]:
    devices = [one for card in range(8) for one in _partitions(card)]
    parts = [devices[start : start + 60] for start in range(0, len(devices), 60)]
    of = len(parts) + 1
    sets = [
        {
            "name": f"gpu-{card}",
            "counters": {
                "compute": {"value": "7"},
                "media": {"value": "1"},
                **{f"memory-slice-{number}": {"value": "1"} for number in range(8)},
            },
        }
        for card in range(8)
    ]
    yield node_slice(node, [], of=of, sharedCounters=sets)
    for number, part in enumerate(parts):
        yield node_slice(node, part, part=number + 1, of=of)


def _partitions(card: int) -> Iterator[Json]:
    for profile, compute, memory, starts in PROFILES:
        for start in starts:
            counters = {"compute": {"value": str(compute)}}
            counters |= {f"memory-slice-{number}": {"value": "1"} for number in range(start, start + memory)}
            if profile.endswith(".me"):
                counters["media"] = {"value": "1"}
            yield {
                "name": f"gpu-{card}-mig-{profile.replace('.', '-')}-{start}",
                "attributes": {
                    "type": {"string": "mig"},
                    "profile": {"string": profile},
                    "parent": {"string": f"GPU-{card}"},
                },
                "capacity": {"memory": {"value": f"{10 * memory}Gi"}},
                "consumesCounters": [{"counterSet": f"gpu-{card}", "counters": counters}],
            }


def impossible(name: str, devices: int, group: int) -> Json:
    """One node with groups of devices, and a claim for one more than a group has."""
    made = []
    for number in range(devices):
        one = gpu(number, 0)
        one["attributes"]["group"] = {"int": number // group}
        made.append(one)
    wanted = claim("claim-0", request("gpu", group + 1), constraints=[{"matchAttribute": f"{DRIVER}/group"}])
    return workload(name, 1, [node_slice(0, made)], [[wanted]])


def one_node_each(name: str, nodes: int) -> Json:
    """As `whole_gpus`, but every pod tries one node that no other does."""
    return whole_gpus(name, nodes, nodes, 1)


def near_full(name: str, nodes: int) -> Json:
    """Pods with two claims of four requests each, tied together; each tries a node of its own, which has ten devices left
    where eight are needed, and some that lead nowhere come first.
    """
    slices = [node_slice(node, [_grouped(number, node) for number in range(16)]) for node in range(nodes)]
    pods = [[_tied(f"claim-{node}-{half}") for half in "ab"] for node in range(nodes)]
    held = [f"{DRIVER}/node-{node}/gpu-{number}" for node in range(nodes) for number in (0, 1, 2, 7, 8, 13)]
    return workload(name, nodes, slices, pods, tried=1, allocatedDevices=held)


def _grouped(number: int, node: int) -> Json:
    one = gpu(number, node)
    one["attributes"]["numa"] = {"int": number // 8}
    return one


def _tied(name: str) -> Json:
    large = memory_at_least("100Gi")
    everything = ["r0", "r1", "r2", "r3"]
    return claim(
        name,
        *(request(one, 1, *((large,) if one in ("r1", "r3") else ())) for one in everything),
        constraints=[
            {"matchAttribute": f"{DRIVER}/numa", "requests": everything},
            {"distinctAttribute": f"{DRIVER}/index", "requests": everything},
            {"matchAttribute": "resource.kubernetes.io/pcieRoot", "requests": ["r0", "r1"]},
        ],
    )
