"""Short words for allocator cases: devices, slices, claims, and the answer as a list of `request=device`."""

from __future__ import annotations

from typing import Any

from dray.allocation.allocator import Allocator
from dray.allocation.cases import Case, allocator_of, read_case, run_case
from dray.allocation.features import NAMES, Features
from dray.allocation.profiles import profile_named
from tests.allocation.stand_in import EXPRESSIONS, Predicate, StandIn

Json = dict[str, Any]

ADMIN = NAMES["admin_access"]
LIST = NAMES["prioritized_list"]
PARTITIONS = NAMES["partitionable_devices"]
TAINTS = NAMES["device_taints"]
BINDING = NAMES["device_binding_and_status"]
CAPACITY = NAMES["consumable_capacity"]
LISTS = NAMES["list_type_attributes"]

CLASSES = [
    {
        "metadata": {"name": f"class-{letter}"},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "driver-{letter}"'}}]},
    }
    for letter in "ab"
]


def device(name: str, **fields: Any) -> Json:
    return {"name": name, **fields}


def devices(*names: str, **fields: Any) -> list[Json]:
    return [device(name, **fields) for name in names]


def piece(*devices: Json, name: str = "slice-1", of: int = 1, **fields: Any) -> Json:
    """A slice; `of` says how many the pool has. Node-1 is its node unless another way to select is given."""
    pool = {
        "name": fields.pop("pool", "pool-1"),
        "generation": fields.pop("generation", 1),
        "resourceSliceCount": of,
    }
    spec: Json = {"driver": fields.pop("driver", "driver-a"), "pool": pool, **fields}
    if not {"nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection"} & fields.keys():
        spec["nodeName"] = "node-1"
    if devices:
        spec["devices"] = list(devices)
    return {"metadata": {"name": name}, "spec": spec}


def counters(of: int = 2, name: str = "slice-counters", **sets: dict[str, str]) -> Json:
    """A slice with counter sets: `counters(set_1={"mem": "8Gi"})`."""
    shared = [
        {
            "name": key.replace("_", "-"),
            "counters": {one: {"value": amount} for one, amount in values.items()},
        }
        for key, values in sets.items()
    ]
    return piece(name=name, of=of, sharedCounters=shared)


def uses(amount: str, counter: str = "mem", of: str = "set-1") -> list[Json]:
    return [{"counterSet": of, "counters": {counter: {"value": amount}}}]


def wish(count: int = 1, *selectors: str, **fields: Any) -> Json:
    found: Json = {"deviceClassName": "class-a", "allocationMode": "ExactCount", "count": count, **fields}
    if selectors:
        found["selectors"] = [{"cel": {"expression": one}} for one in selectors]
    return found


def request(count: int = 1, *selectors: str, name: str = "req-0", **fields: Any) -> Json:
    return {"name": name, "exactly": wish(count, *selectors, **fields)}


def every(*selectors: str, name: str = "req-0", **fields: Any) -> Json:
    return request(0, *selectors, name=name, allocationMode="All", **fields)


def first(*wishes: Json, name: str = "req-0") -> Json:
    subs = [{"name": f"sub-{number}", **one} for number, one in enumerate(wishes)]
    return {"name": name, "firstAvailable": subs}


def claim(*requests: Json, name: str = "claim-0", **fields: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": list(requests), **fields}}}


def case(slices: list[Json], *claims: Json, features: tuple[str, ...] = (), **fields: Any) -> Json:
    node = {"metadata": {"name": "node-1", "labels": {"region": "west"}}}
    return {
        "name": "case",
        "tier": "experimental",
        "features": list(features),
        "node": node,
        "classes": CLASSES,
        "slices": slices,
        "claims": list(claims),
        **fields,
    }


def answer(given: Json, profile: str = "k8s-1.36", expressions: dict[str, Predicate] | None = None) -> Json:
    return run_case(given, selectors(expressions), profile_named(profile))


def selectors(expressions: dict[str, Predicate] | None = None) -> Any:
    return lambda features: StandIn(features, EXPRESSIONS | (expressions or {}))


def picks(given: Json, profile: str = "k8s-1.36") -> list[str] | None:
    """The devices of all claims in order, `request=device`; None where nothing fits. An error fails the test."""
    got = answer(given, profile)
    assert got["error"] == ""
    if got["results"] is None:
        return None
    return [
        f"{one['request']}={one['device']}"
        for result in got["results"]
        for one in result["devices"].get("results", ())
    ]


def fault(given: Json, profile: str = "k8s-1.36") -> str:
    """The error's text; where there is none the test fails."""
    got = answer(given, profile)
    assert got["error"], got["results"]
    return str(got["error"])


def typed(given: Json, profile: str = "k8s-1.36") -> tuple[Case, Allocator, StandIn]:
    """The case, its allocator, and the selectors it uses (they count evaluations)."""
    read = read_case(given)
    made = StandIn(Features.named(read.features))
    return read, allocator_of(read, lambda features: made, profile_named(profile)), made
