"""Random allocator cases over every feature. Domains are small, so that things collide."""

from __future__ import annotations

from random import Random
from typing import Any

from dray.allocation.features import NAMES

Json = dict[str, Any]

CLASSES = [
    {"metadata": {"name": name}, "spec": spec}
    for name, spec in (
        ("class-a", {"selectors": [{"cel": {"expression": 'device.driver == "driver-a"'}}]}),
        ("class-b", {"selectors": [{"cel": {"expression": 'device.driver == "driver-b"'}}]}),
        (
            "any",
            {
                "config": [{"opaque": {"driver": "driver-a", "parameters": {"from": "any"}}}],
            },
        ),
    )
]
SELECTORS = [
    "true",
    'device.attributes["driver-a"].type == "X"',
    'device.attributes["driver-a"].type == "Y"',
    'device.capacity["driver-a"].memory.compareTo(quantity("4Gi")) >= 0',
]
ATTRIBUTES = ["driver-a/type", "driver-a/type", "driver-a/numa", "driver-b/numa", "example.com/root"]
TAINTS = [("k1", "v1"), ("k1", "v2"), ("k2", "v1")]


def random_case(seed: int, *, errors: bool = True) -> Json:
    """The case of a seed. Without `errors` selectors and objects are such that nothing can fail but to fit."""
    return _Maker(Random(seed), errors).case(seed)


class _Maker:
    def __init__(self, random: Random, errors: bool) -> None:
        self.random = random
        self.errors = errors and random.random() < 0.4
        self.easy = random.random() < 0.5
        self.features = [name for name in sorted(NAMES.values()) if random.random() < 0.6]
        self.drivers: list[str] = []

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def has(self, part: str) -> bool:
        return any(part in name for name in self.features)

    def case(self, seed: int) -> Json:
        pools = self._pools()
        self.drivers = sorted({driver for driver, _ in pools})
        slices = [one for pool in pools for one in self._slices(*pool)]
        self.random.shuffle(slices)
        claims = [self._claim(number) for number in range(self.random.choice((1, 1, 1, 2, 2, 3)))]
        case = {
            "name": f"random-{seed}",
            "features": self.features,
            "node": {"metadata": {"name": "node-1", "labels": {"region": "west"}}},
            "classes": CLASSES,
            "slices": slices,
            "claims": claims,
        }
        return case | self._allocated(slices)

    def _pools(self) -> list[tuple[str, str]]:
        every = [("driver-a", "pool-1"), ("driver-a", "pool-2"), ("driver-b", "pool-1")]
        return self.random.sample(every, self.random.choice((1, 1, 2, 3)))

    def _slices(self, driver: str, pool: str) -> list[Json]:
        number = self.random.choice((1, 1, 1, 2, 3))
        has_counters = self.has("Partitionable") and self.chance(0.6)
        total = number + has_counters
        made = []
        for index in range(number):
            name = f"{driver}-{pool}-{self.random.choice('abc')}{index}"
            spec = self._spec(driver, pool, total)
            spec["devices"] = [
                self._device(f"dev-{index}{letter}", spec, has_counters)
                for letter in "abcd"[: self.random.choice((3, 4) if self.easy else (1, 2, 2, 3, 4))]
            ]
            made.append({"metadata": {"name": name}, "spec": spec})
        if has_counters:
            made.append(self._counter_slice(driver, pool, total))
        if self.errors and self.chance(0.06):
            made.pop()
        if self.errors and self.chance(0.05):
            for one in made[: self.random.randint(1, 2)]:
                one["spec"]["pool"]["generation"] = 2
        return made

    def _spec(self, driver: str, pool: str, total: int) -> Json:
        spec: Json = {
            "driver": driver,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": total},
        }
        if self.has("Partitionable") and self.chance(0.15):
            spec["perDeviceNodeSelection"] = True
        else:
            spec.update(self._nodes())
        return spec

    def _nodes(self) -> Json:
        return self.random.choice(
            [
                *[{"nodeName": "node-1"}] * (6 if self.easy else 3),
                {"nodeName": "node-2"},
                {"allNodes": True},
                {"nodeSelector": self._node_selector("west")},
                {"nodeSelector": self._node_selector("east")},
            ]
        )

    def _node_selector(self, region: str) -> Json:
        values = [region, *self.random.sample(["north", "south"], self.random.randint(0, 2))]
        expression = {"key": "region", "operator": "In", "values": values}
        return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}

    def _counter_slice(self, driver: str, pool: str, total: int) -> Json:
        spec = {
            "driver": driver,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": total},
            **self._nodes(),
        }
        spec["sharedCounters"] = [
            {"name": name, "counters": {"mem": {"value": self.amount(2, 8)}, "cpu": {"value": "4"}}}
            for name in ("set-1", "set-2")
        ]
        return {"metadata": {"name": f"{driver}-{pool}-counters"}, "spec": spec}

    def amount(self, low: int, high: int) -> str:
        return f"{self.random.randint(low, high)}Gi"

    def _device(self, name: str, spec: Json, has_counters: bool) -> Json:
        device: Json = {"name": "dev-0a" if self.errors and self.chance(0.02) else name}
        device["attributes"] = self._attributes()
        if self.chance(0.7):
            device["capacity"] = {"memory": self._capacity()}
        if self.has("Consumable") and self.chance(0.5):
            device["allowMultipleAllocations"] = self.chance(0.8)
        if spec.get("perDeviceNodeSelection"):
            device.update(self._nodes())
        if has_counters and self.chance(0.6):
            unknown = self.errors and self.chance(0.02)
            device["consumesCounters"] = [
                {
                    "counterSet": "set-9" if unknown else one,
                    "counters": {"mem": {"value": self.amount(1, 4)}},
                }
                for one in self.random.sample(["set-1", "set-2"], self.random.choice((1, 1, 2)))
            ]
        self._extras(device)
        return device

    def _extras(self, device: Json) -> None:
        if self.chance(0.15):
            device["taints"] = [
                {
                    "key": key,
                    "value": value,
                    "effect": self.random.choice(("NoSchedule", "NoExecute", "None")),
                }
                for key, value in self.random.sample(TAINTS, self.random.choice((1, 1, 2)))
            ]
        if self.chance(0.1):
            device["bindingConditions"] = ["ready"]
            device["bindingFailureConditions"] = ["broken"]
        if self.chance(0.1):
            device["bindsToNode"] = True

    def _attributes(self) -> Json:
        found: Json = {}
        if not self.errors or self.chance(0.9):
            found["driver-a/type"] = {"string": self.random.choice("XY")}
        if self.chance(0.8):
            found[self.random.choice(("numa", "driver-a/numa"))] = self._numa()
        if self.chance(0.6):
            found["example.com/root"] = self.random.choice(
                ({"string": "r0"}, {"string": "r1"}, {"int": 1}, {"bool": True}, {"version": "1.0.0"})
            )
        if self.errors and self.chance(0.01):
            found["odd"] = {}
        return found

    def _numa(self) -> Json:
        if self.has("ListType") and self.chance(0.5):
            return {"ints": self.random.sample([0, 1, 2], self.random.choice((1, 2)))}
        return {"int": self.random.randint(0, 2)}

    def _capacity(self) -> Json:
        capacity: Json = {"value": self.amount(4, 8)}
        if self.has("Consumable") and self.chance(0.4):
            if self.chance(0.5):
                policy: Json = {"default": "1Gi", "validValues": ["1Gi", "2Gi", "4Gi"]}
            else:
                policy = {"default": "1Gi", "validRange": {"min": "1Gi"}}
                if self.chance(0.6):
                    policy["validRange"]["step"] = "512Mi"
                if self.chance(0.6):
                    policy["validRange"]["max"] = "3Gi"
            capacity["requestPolicy"] = policy
        return capacity

    def _claim(self, number: int) -> Json:
        requests = [self._request(f"req-{index}") for index in range(self.random.choice((1, 1, 2, 2, 3)))]
        devices: Json = {"requests": requests}
        names = [one["name"] for one in requests] + [
            f"{one['name']}/{sub['name']}" for one in requests for sub in one.get("firstAvailable", ())
        ]
        if self.chance(0.3 if self.easy else 0.5):
            devices["constraints"] = [self._constraint(names) for _ in range(self.random.choice((1, 1, 2)))]
        if self.chance(0.3):
            devices["config"] = [
                {"opaque": {"driver": "driver-a", "parameters": {"n": index}}} | self._some(names)
                for index in range(self.random.randint(1, 2))
            ]
        return {"metadata": {"name": f"claim-{number}", "namespace": "ns"}, "spec": {"devices": devices}}

    def _some(self, names: list[str]) -> Json:
        if self.chance(0.4):
            return {}
        return {"requests": self.random.sample(names, self.random.randint(1, min(2, len(names))))}

    def _constraint(self, names: list[str]) -> Json:
        kind = "matchAttribute" if self.chance(0.6) else "distinctAttribute"
        constraint = {kind: self.random.choice(ATTRIBUTES)} | self._some(names)
        if self.chance(0.05):
            constraint["distinctAttribute"] = self.random.choice(ATTRIBUTES)
        return constraint

    def _request(self, name: str) -> Json:
        if self.has("Prioritized") and self.chance(0.35):
            subs = [self._wish() | {"name": f"sub-{n}"} for n in range(self.random.randint(1, 3))]
            return {"name": name, "firstAvailable": subs}
        exactly = self._wish()
        if self.has("Admin") and self.chance(0.2):
            exactly["adminAccess"] = self.chance(0.8)
        return {"name": name, "exactly": exactly}

    def _wish(self) -> Json:
        classes = [f"class-{driver[-1]}" for driver in self.drivers] * 2 + ["any"]
        if self.chance(0.05):
            classes = ["class-b"]
        if self.errors and self.chance(0.01):
            classes = ["unknown"]
        wish: Json = {"deviceClassName": self.random.choice(classes), "allocationMode": "ExactCount"}
        wish["count"] = self.random.choice((1, 1, 1, 2) if self.easy else (1, 1, 1, 2, 2, 3, 4))
        if self.chance(0.08 if self.easy else 0.15):
            wish.update(allocationMode="All", count=0)
        if self.chance(0.35):
            selectors = SELECTORS if self.errors else SELECTORS[:3]
            wish["selectors"] = [{"cel": {"expression": self.random.choice(selectors)}}]
        if self.chance(0.25):
            wish["tolerations"] = [self._toleration()]
        if self.has("Consumable") and self.chance(0.4):
            name = self.random.choice(("memory", "memory", "memory", "driver-a/memory", "cores"))
            amount = self.random.choice(("512Mi", "1Gi", "1500Mi", "2Gi", "3Gi", "0"))
            wish["capacity"] = {"requests": {name: amount}}
        return wish

    def _toleration(self) -> Json:
        key, value = self.random.choice(TAINTS)
        return self.random.choice(
            [
                {"operator": "Exists"},
                {"key": key, "operator": "Exists"},
                {"key": key, "operator": "Equal", "value": value},
                {"key": key, "value": value, "effect": "NoSchedule"},
            ]
        )

    def _allocated(self, slices: list[Json]) -> Json:
        whole, shares, capacity = [], [], {}
        for one in slices:
            spec = one["spec"]
            for device in spec.get("devices", ()):
                name = f"{spec['driver']}/{spec['pool']['name']}/{device['name']}"
                if not self.chance(0.15):
                    continue
                if device.get("allowMultipleAllocations") and self.chance(0.8):
                    shares.append(f"{name}/aaaaaaaa-aaaa-4aaa-aaaa-aaaaaaaaaaaa")
                    if device.get("capacity"):
                        capacity[name] = {"memory": self.random.choice(("1Gi", "2Gi", "4Gi"))}
                else:
                    whole.append(name)
        return {
            "allocatedDevices": whole,
            "allocatedSharedDeviceIDs": shares,
            "allocatedCapacity": capacity,
        }
