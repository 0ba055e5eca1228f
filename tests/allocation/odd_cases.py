"""Random cases made odd: invalid or rare objects, such as an API server would refuse or nobody writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tests.allocation.random_cases import random_case

Json = dict[str, Any]


def odd_case(seed: int) -> Json:
    """The random case of the seed with one to three oddities."""
    random = Random(-1 - seed)
    case = random_case(seed)
    chosen = set(random.sample(range(len(CHANGES)), random.choice((1, 1, 2, 3))))
    for number in sorted(chosen):
        CHANGES[number](random, case)
    case["name"] = f"odd-{seed}"
    return case


def _wishes(case: Json) -> Iterator[Json]:
    for claim in case["claims"]:
        for request in claim["spec"]["devices"].get("requests", ()):
            if "exactly" in request:
                yield request["exactly"]
            yield from request.get("firstAvailable", ())


def _devices(case: Json) -> Iterator[Json]:
    for one in case["slices"]:
        yield from one["spec"].get("devices", ())


def _capacities(case: Json) -> Iterator[Json]:
    for device in _devices(case):
        yield from device.get("capacity", {}).values()


def _large_counts(random: Random, case: Json) -> None:
    for wish in _wishes(case):
        if wish["allocationMode"] == "ExactCount":
            wish["count"] = random.choice((1, 2, 12, 20, 31, 32, 33))


def _many_devices(random: Random, case: Json) -> None:
    for one in case["slices"]:
        devices = one["spec"].get("devices")
        if devices:
            total = random.choice((20, 34))
            one["spec"]["devices"] = [
                devices[index % len(devices)] | {"name": f"{devices[0]['name']}-{index}"}
                for index in range(total)
            ]
    for wish in _wishes(case):
        if random.random() < 0.5 and wish["allocationMode"] == "ExactCount":
            wish["count"] = random.choice((1, 8, 16, 20, 30))


def _zero_counts(random: Random, case: Json) -> None:
    for wish in _wishes(case):
        if random.random() < 0.5:
            wish["count"] = random.choice((0, -1))


def _no_features(random: Random, case: Json) -> None:
    case["features"] = random.sample(case["features"], len(case["features"]) // 2)


def _odd_modes(random: Random, case: Json) -> None:
    wish = random.choice(list(_wishes(case)))
    wish["allocationMode"] = random.choice(("", "Some"))


def _no_class(random: Random, case: Json) -> None:
    random.choice(list(_wishes(case)))["deviceClassName"] = ""


def _empty_selector(random: Random, case: Json) -> None:
    random.choice(list(_wishes(case)))["selectors"] = [{}]


def _broken_selector(random: Random, case: Json) -> None:
    random.choice(list(_wishes(case)))["selectors"] = [{"cel": {"expression": "noSuchVar"}}]


def _odd_constraints(random: Random, case: Json) -> None:
    for claim in case["claims"]:
        claim["spec"]["devices"]["constraints"] = [
            random.choice(
                (
                    {},
                    {"matchAttribute": "type"},
                    {"matchAttribute": "driver-a/type", "requests": ["nobody"]},
                    {"distinctAttribute": "example.com/root"},
                    {"matchAttribute": "driver-a/numa", "distinctAttribute": "example.com/root"},
                )
            )
        ]


def _odd_node_selectors(random: Random, case: Json) -> None:
    terms = [
        {"matchExpressions": [{"key": "region", "operator": "In", "values": ["west"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},
        {"matchExpressions": [{"key": "region", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "region", "operator": "NotIn", "values": ["east"]}]},
        {"matchExpressions": [{"key": "region", "operator": "Like", "values": ["w"]}]},
        {},
    ]
    for one in case["slices"]:
        spec = one["spec"]
        if random.random() < 0.7 and not spec.get("perDeviceNodeSelection"):
            for name in ("nodeName", "allNodes", "nodeSelector"):
                spec.pop(name, None)
            chosen = random.sample(terms, random.choice((0, 1, 1, 1, 2)))
            spec["nodeSelector"] = {"nodeSelectorTerms": chosen}


def _no_node_selection(random: Random, case: Json) -> None:
    spec = random.choice(case["slices"] or [{"spec": {}}])["spec"]
    for name in ("nodeName", "allNodes", "nodeSelector", "perDeviceNodeSelection"):
        spec.pop(name, None)


def _false_selection(random: Random, case: Json) -> None:
    for one in case["slices"]:
        one["spec"].setdefault("perDeviceNodeSelection", False)


def _odd_amounts(random: Random, case: Json) -> None:
    for capacity in _capacities(case):
        capacity["value"] = random.choice(("-1", "0", "8Ei", "100E", "1500m", "1e30", "6Gi"))
    for wish in _wishes(case):
        if "capacity" in wish:
            wish["capacity"]["requests"] = {
                "memory": random.choice(("-1Gi", "0", "8Ei", "20E", "1500m", "1e25", "1n"))
            }


def _odd_policies(random: Random, case: Json) -> None:
    policies = [
        {"default": "1Gi", "validValues": ["2Gi", "3Gi"]},
        {"default": "1Gi"},
        {"validRange": {"min": "1Gi", "step": "1Gi"}},
        {"default": "3Gi", "validRange": {"min": "1Gi", "step": "1Gi", "max": "2Gi"}},
        {"default": "1", "validRange": {"min": "500m", "step": "300m"}},
        {"default": "1Gi", "validRange": {"max": "2Gi"}},
        {"default": "1Gi", "validRange": {"min": "-5Gi", "step": "3Gi"}},
        {},
    ]
    for capacity in _capacities(case):
        capacity["requestPolicy"] = random.choice(policies)
    for wish in _wishes(case):
        if "capacity" in wish:
            wish["capacity"]["requests"] = {
                "memory": random.choice(("900m", "1", "1024Mi", "1Gi", "2Gi", "-4Gi"))
            }


def _odd_counters(random: Random, case: Json) -> None:
    for device in _devices(case):
        for consumption in device.get("consumesCounters", ()):
            amount = random.choice(("0", "-1Gi", "500m", "3Gi"))
            consumption["counters"] = {"mem": {"value": amount}, "cpu": {"value": "1"}}


def _overdrawn(random: Random, case: Json) -> None:
    """More is in use than the counters hold."""
    for one in case["slices"]:
        for counter_set in one["spec"].get("sharedCounters", ()):
            counter_set["counters"]["mem"]["value"] = random.choice(("0", "1Gi", "2Gi"))
    for one in case["slices"]:
        spec = one["spec"]
        for device in spec.get("devices", ()):
            if random.random() < 0.3:
                case["allocatedDevices"].append(f"{spec['driver']}/{spec['pool']['name']}/{device['name']}")


def _bare_shares(random: Random, case: Json) -> None:
    """Shared devices without any capacity."""
    for one in case["slices"]:
        spec = one["spec"]
        for device in spec.get("devices", ()):
            if random.random() < 0.5:
                device.pop("capacity", None)
                device["allowMultipleAllocations"] = True
                name = f"{spec['driver']}/{spec['pool']['name']}/{device['name']}"
                if random.random() < 0.4:
                    case["allocatedSharedDeviceIDs"].append(f"{name}/bbbbbbbb-aaaa-4aaa-aaaa-aaaaaaaaaaaa")
    for wish in _wishes(case):
        wish.pop("capacity", None)


def _generations(random: Random, case: Json) -> None:
    for one in case["slices"]:
        one["spec"]["pool"]["generation"] = random.choice((1, 1, 2, 3))
        one["spec"]["pool"]["resourceSliceCount"] = random.choice((1, 1, 2, 3))


def _odd_attributes(random: Random, case: Json) -> None:
    for device in _devices(case):
        device["attributes"]["example.com/root"] = random.choice(
            (
                {"strings": ["r0", "r1"]},
                {"strings": ["r1", "r2"]},
                {"string": "r2"},
                {"ints": []},
                {"bools": [True]},
            )
        )


def _no_requests(random: Random, case: Json) -> None:
    random.choice(case["claims"])["spec"]["devices"] = {}


def _no_slices(random: Random, case: Json) -> None:
    case["slices"] = None if random.random() < 0.5 else []


CHANGES: list[Callable[[Random, Json], None]] = [
    _large_counts,
    _many_devices,
    _zero_counts,
    _no_features,
    _odd_modes,
    _no_class,
    _empty_selector,
    _broken_selector,
    _odd_constraints,
    _odd_node_selectors,
    _no_node_selection,
    _false_selection,
    _odd_amounts,
    _odd_policies,
    _odd_counters,
    _overdrawn,
    _bare_shares,
    _generations,
    _odd_attributes,
    _no_requests,
    _no_slices,
]
