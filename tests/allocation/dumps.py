"""Clusters for tests of explanations, from the short words of `world`; read and checked like files."""

from __future__ import annotations

from typing import Any

from dray.allocation.cases import Case, device_id
from dray.allocation.cluster.cluster_dump import Cluster, read_cluster
from dray.allocation.cluster.situation import Situation
from dray.allocation.features import features_for
from dray.allocation.profiles import CORRECT, Profile
from dray.allocation.selector import check_selector
from dray.api.codec import Manifest, view
from dray.api.resource.claim import ResourceClaim
from dray.semantics.features import parse_feature_gates
from tests.allocation.world import CLASSES, Json

RESOURCE = "resource.k8s.io/v1"
HOLDS = "aaaaaaaa-aaaa-4aaa-aaaa-aaaaaaaaaaaa"


def as_object(kind: str, raw: Json, api_version: str = RESOURCE) -> Manifest:
    return Manifest.of({"apiVersion": api_version, "kind": kind, **raw}, f"{kind}.yaml:1")


def classes() -> list[Manifest]:
    return [as_object("DeviceClass", one) for one in CLASSES]


def slices(*raw: Json) -> list[Manifest]:
    return [as_object("ResourceSlice", one) for one in raw]


def claims(*raw: Json) -> list[Manifest]:
    return [as_object("ResourceClaim", one) for one in raw]


def node(name: str, **labels: str) -> Manifest:
    return as_object("Node", {"metadata": {"name": name, "labels": labels}}, "v1")


def pod(name: str, *claims: Json, **spec: Any) -> Manifest:
    container = {
        "name": "c",
        "image": "i",
        "resources": {"claims": [{"name": one["name"]} for one in claims]},
    }
    spec = {"containers": [container], "resourceClaims": list(claims), **spec}
    return as_object("Pod", {"metadata": {"name": name}, "spec": spec}, "v1")


def holding(name: str, *devices: str, pods: tuple[str, ...] = (), **fields: Any) -> Json:
    """A claim that has devices of driver-a's pool-1 on node-1 already."""
    return {
        "metadata": {"name": name},
        "spec": {
            "devices": {
                "requests": [{"name": "r", "exactly": {"deviceClassName": "class-a", "count": len(devices)}}]
            }
        },
        "status": {
            "allocation": {
                "devices": {
                    "results": [
                        {"request": "r", "driver": "driver-a", "pool": "pool-1", "device": one, **fields}
                        for one in devices
                    ]
                }
            },
            "reservedFor": [{"resource": "pods", "name": one, "uid": one} for one in pods],
        },
    }


def cluster(*manifests: list[Manifest] | Manifest) -> Cluster:
    every = [one for many in manifests for one in (many if isinstance(many, list) else [many])]
    return read_cluster([*classes(), *every], check_selector)


def situation(
    *manifests: list[Manifest] | Manifest, profile: Profile = CORRECT, gates: str = ""
) -> Situation:
    return Situation.of(cluster(*manifests), profile, features_for(profile, parse_feature_gates(gates)))


def held_claims(case: Case) -> list[ResourceClaim]:
    """A claim for each device of the case that is in use."""
    shares = {text.rpartition("/")[0] for text in case.allocated_shared_device_ids}
    found = []
    for number, text in enumerate([*case.allocated_devices, *sorted(shares)]):
        device = device_id(text)
        result: Json = {"request": "r", **device._asdict()}
        if text in shares:
            amounts = case.allocated_capacity.get(text, {})
            result |= {
                "shareID": HOLDS,
                "consumedCapacity": {name: str(amount) for name, amount in amounts.items()},
            }
        raw = {
            "metadata": {"name": f"held-{number}"},
            "status": {"allocation": {"devices": {"results": [result]}}},
        }
        found.append(view(raw, ResourceClaim))
    return found
