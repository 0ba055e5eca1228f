"""Objects of a small fleet, as drivers, users and kubelets would write them: GPUs with partitions, pods that run, one that never will."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
DRIVER = "sim.dray.internal"
NS = "team-a"
MODELS = {"a": "NVIDIA H200", "b": "NVIDIA A100-SXM4-80GB"}
_PROFILES = (("3g", 3), ("3g", 3), ("1g", 1))


def node(name: str, *, ready: bool = True, hollow: bool = False, plugin: int = 0) -> tuple[Json, Json]:
    """The object, and its status."""
    labels = {"kubernetes.io/hostname": name, **({"dray.internal/hollow": "true"} if hollow else {})}
    has = {"cpu": "64", "memory": "512Gi", "pods": "110", **({"dray.internal/fpga": str(plugin)} if plugin else {})}  # fmt: skip
    allocatable = has | ({"dray.internal/fpga": str(plugin - 1)} if plugin else {})
    condition = {"type": "Ready", "status": "True" if ready else "False", "reason": "KubeletReady"}
    status = {"capacity": has, "allocatable": allocatable, "conditions": [condition]}
    return {"metadata": {"name": name, "labels": labels}}, {"status": status}


def gpu(number: int, *, model: str = MODELS["a"]) -> Json:
    """One of eight: four on each NUMA node, two below each PCIe root."""
    attributes: Json = {
        "type": {"string": "gpu"},
        "shape": {"string": "gpu"},
        "model": {"string": model},
        "uuid": {"string": f"GPU-{model[7:11].lower()}-{number:04d}"},
        "driverVersion": {"version": "580.65.6"},
        "resource.kubernetes.io/numaNode": {"int": number // 4},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number // 2 * 16:02x}"},
        "resource.kubernetes.io/pciBusID": {"string": f"0000:{number * 16 + 1:02x}:00.0"},
    }
    return {
        "name": f"gpu-{number}",
        "attributes": attributes,
        "capacity": {"memory": {"value": "141Gi"}},
    }


def partitioned(number: int) -> Iterator[Json]:
    """A GPU that draws on seven slices, and the partitions that draw on some of them."""
    whole = gpu(number)
    yield whole | {"consumesCounters": [_consumes(number, 7)]}
    for index, (profile, slices) in enumerate(_PROFILES):
        own = {
            "parent": {"string": f"gpu-{number}"},
            "profile": {"string": f"{profile}.20gb"},
            "type": {"string": "partition"},
        }
        yield whole | {
            "name": f"gpu-{number}-{profile}-{index}",
            "attributes": whole["attributes"] | own,
            "capacity": {"memory": {"value": f"{slices * 20}Gi"}},
            "consumesCounters": [_consumes(number, slices)],
        }


def _consumes(number: int, slices: int) -> Json:
    return {"counterSet": f"gpu-{number}", "counters": {"slices": {"value": str(slices)}}}


def counters(node_name: str, count: int) -> Json:
    sets = [{"name": f"gpu-{one}", "counters": {"slices": {"value": "7"}}} for one in range(count)]
    return _slice(f"{node_name}-counters", node_name, {"sharedCounters": sets}, slices=2)


def slice_of(node_name: str, devices: list[Json], slices: int = 1) -> Json:
    return _slice(f"{node_name}-devices", node_name, {"devices": devices}, slices)


def _slice(name: str, node_name: str, part: Json, slices: int) -> Json:
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": slices}
    return {
        "metadata": {"name": name},
        "spec": {"driver": DRIVER, "nodeName": node_name, "pool": pool, **part},
    }


def everywhere() -> Json:
    """Devices in the network, for all nodes."""
    device = {"name": "tape-0", "attributes": {"model": {"string": "LTO-9"}}}
    pool = {"name": "library", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "tape.example.com", "allNodes": True, "pool": pool, "devices": [device]}
    return {"metadata": {"name": "library-0"}, "spec": spec}


def device_class(name: str = DRIVER, driver: str = DRIVER) -> Json:
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    return {"metadata": {"name": name}, "spec": {"selectors": [selector]}}


def request(expression: str = "", count: int = 1) -> Json:
    exactly: Json = {"deviceClassName": DRIVER, "count": count}
    if expression:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


WHOLE = f'device.attributes["{DRIVER}"].type == "gpu"'
PARTITION = f'device.attributes["{DRIVER}"].type == "partition"'
IMPOSSIBLE = f'device.attributes["{DRIVER}"].model == "NVIDIA B300" && device.capacity["{DRIVER}"].memory.compareTo(quantity("200Gi")) >= 0'


def claim(name: str, spec: Json, namespace: str = NS) -> Json:
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def template(name: str, spec: Json) -> Json:
    return {"metadata": {"name": name, "namespace": NS}, "spec": {"spec": spec}}


def pod(name: str, *, claims: dict[str, str] | None = None, templates: dict[str, str] | None = None, fpga: int = 0) -> Json:  # fmt: skip
    entries = [{"name": key, "resourceClaimName": value} for key, value in (claims or {}).items()]
    entries += [{"name": key, "resourceClaimTemplateName": value} for key, value in (templates or {}).items()]
    limits = {"dray.internal/fpga": str(fpga)} if fpga else {}
    uses = {"limits": limits, "requests": {"cpu": "1", **limits}, "claims": [{"name": one["name"]} for one in entries]}  # fmt: skip
    container = {"name": "main", "image": "registry.example.com/trainer:1", "resources": uses}
    spec = {"schedulerName": "dray", "resourceClaims": entries, "containers": [container]}
    return {"metadata": {"name": name, "namespace": NS}, "spec": spec}


def rule(name: str, node_name: str, device: str) -> Json:
    selector = {"driver": DRIVER, "pool": node_name, "device": device}
    taint = {"key": "example.com/maintenance", "value": "fan", "effect": "NoSchedule"}
    return {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}
