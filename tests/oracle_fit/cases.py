"""Random pods and nodes that have something to say to each other, from one seed each."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]

NAMESPACES = ("default", "other", "unknown")
KEYS = ("zone", "disk", "example.com/tier", "count")
VALUES = ("a", "b", "ssd", "5", "10", "-3", "")
NAMES = ("node-0", "node-1", "node-2", "other")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule", "FromTheFuture")
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
EXTENDED = (
    "example.com/gpu",
    "example.com/nic",
    "hugepages-2Mi",
    "attachable-volumes-x",
    "plain",
    "requests.x.io/y",
)


class Maker:
    """Makes objects as JSON. The same seed gives the same ones. Half of them make calm ones, where pods often fit."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.is_calm = self.random.random() < 0.5

    def chance(self, wild: float) -> float:
        return wild / 5 if self.is_calm else wild

    def maybe(self, chance: float, make: Callable[[], Any]) -> Any:
        return make() if self.random.random() < chance else None

    def some(self, most: int, make: Callable[[], Any]) -> list[Any]:
        return [make() for _ in range(self.random.randint(0, most))]

    def pick(self, *options: Any) -> Any:
        return self.random.choice(options)

    def labels(self) -> dict[str, str]:
        return {self.pick(*KEYS): self.pick(*VALUES) for _ in range(self.random.randint(0, 4))}

    def resources(self, scale: int) -> dict[str, str]:
        amounts: dict[str, Callable[[], str]] = {
            "cpu": lambda: self.pick("0", "100m", "250m", "1", "1500m", f"{scale}", "0.0005"),
            "memory": lambda: self.pick("0", "64Mi", "1Gi", f"{scale}Gi", "1e9", "500M"),
            "ephemeral-storage": lambda: self.pick("0", "1Gi", f"{scale}Gi"),
        }
        found = {name: make() for name, make in amounts.items() if self.random.random() < 0.6}
        for name in EXTENDED:
            if self.random.random() < self.chance(0.15):
                found[name] = self.pick("0", "1", "2", f"{scale}", "1500m")
        return found

    def node(self, index: int) -> Json:
        status: Json = {
            "allocatable": self.resources(8),
            "conditions": [{"type": "Ready", "status": self.pick("True", "False")}],
        }
        if self.random.random() < 0.9:
            status["allocatable"]["pods"] = (
                self.pick("110") if self.is_calm else self.pick("0", "1", "3", "110", "110")
            )
        if self.is_calm:
            plenty = {"cpu": "32", "memory": "64Gi", "ephemeral-storage": "100Gi", "example.com/gpu": "8"}
            status["allocatable"] = plenty | {"pods": "20"}
        taints = [one for one in self.some(2, self.taint) if self.random.random() < self.chance(1.0)]
        spec = {"unschedulable": self.random.random() < self.chance(0.15), "taints": taints}
        return {
            "metadata": {"name": f"node-{index}", "labels": self.labels()},
            "spec": spec,
            "status": status,
        }

    def taint(self) -> Json:
        return {"key": self.pick(*KEYS), "value": self.pick(*VALUES), "effect": self.pick(*EFFECTS)}

    def toleration(self) -> Json:
        found: Json = {
            "operator": self.pick("", "Equal", "Exists", "Lt", "Gt", "Odd"),
            "effect": self.pick("", *EFFECTS),
        }
        found["key"] = self.pick("", *KEYS, "node.kubernetes.io/unschedulable")
        if found["operator"] != "Exists":
            found["value"] = self.pick(*VALUES)
        return found

    def requirement(self, keys: tuple[str, ...], values: tuple[str, ...], operators: tuple[str, ...]) -> Json:
        operator = self.pick(*operators)
        count = {"Exists": 0, "DoesNotExist": 0, "Gt": 1, "Lt": 1}.get(operator, self.pick(1, 1, 2))
        if self.random.random() < 0.05:
            count += 1
        return {
            "key": self.pick(*keys),
            "operator": operator,
            "values": [self.pick(*values) for _ in range(count)],
        }

    def term(self, *, is_wild: bool = True) -> Json:
        odd = ("Odd",) if is_wild and self.random.random() < 0.1 else ()
        found: Json = {
            "matchExpressions": self.some(2, lambda: self.requirement(KEYS, VALUES, OPERATORS + odd))
        }
        if self.random.random() < 0.3:
            keys = ("metadata.name", "metadata.name", "metadata.uid") if is_wild else ("metadata.name",)
            found["matchFields"] = self.some(2, lambda: self.requirement(keys, NAMES, ("In", "NotIn", *odd)))
        return found

    def affinity(self) -> Json:
        found: Json = {}
        if self.random.random() < 0.6:
            found["requiredDuringSchedulingIgnoredDuringExecution"] = {
                "nodeSelectorTerms": self.some(3, self.term)
            }
        if self.random.random() < 0.6:
            found["preferredDuringSchedulingIgnoredDuringExecution"] = self.some(3, self.preference)
        return {"nodeAffinity": found, **self.pod_affinity(0.3)}

    def pod_affinity(self, chance: float) -> Json:
        found = {}
        for kind in ("podAffinity", "podAntiAffinity"):
            if self.random.random() < chance:
                found[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": self.some(2, self.pod_term)}
        return found

    def constraint(self) -> Json:
        return {
            "maxSkew": self.pick(1, 1, 2),
            "topologyKey": self.pick("zone", "disk"),
            "whenUnsatisfiable": self.pick("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"),
            "labelSelector": self.maybe(0.9, self.label_selector),
            "minDomains": self.maybe(0.3, lambda: self.pick(1, 2, 3)),
            "nodeAffinityPolicy": self.pick(None, "Honor", "Ignore"),
            "nodeTaintsPolicy": self.pick(None, "Honor", "Ignore"),
            "matchLabelKeys": self.maybe(0.3, lambda: [self.pick(*KEYS)]),
        }

    def pod_term(self) -> Json:
        return {
            "topologyKey": self.pick("zone", "disk"),
            "labelSelector": self.maybe(0.9, self.label_selector),
            "namespaces": self.some(1, lambda: self.pick(*NAMESPACES)),
            "namespaceSelector": self.maybe(0.3, self.label_selector),
        }

    def label_selector(self) -> Json:
        operator = self.pick("In", "In", "NotIn", "Exists", "DoesNotExist")
        values = (
            [] if operator in ("Exists", "DoesNotExist") else [self.pick("a", "b", "ssd"), self.pick("5", "")]
        )
        expressions = [{"key": self.pick(*KEYS), "operator": operator, "values": values}]
        return {
            "matchExpressions": self.pick([], expressions),
            "matchLabels": self.maybe(0.1, lambda: {"zone": "a"}),
        }

    def preference(self) -> Json:
        return {
            "weight": self.pick(0, 1, 10, 100),
            "preference": self.term(is_wild=self.random.random() < 0.05),
        }

    def port(self) -> Json:
        return {
            "containerPort": 80,
            "hostPort": self.pick(0, 80, 80, 443),
            "protocol": self.pick("", "TCP", "UDP"),
            "hostIP": self.pick("", "", "0.0.0.0", "10.0.0.1", "127.0.0.1"),
        }

    def container(self, name: str, scale: int) -> Json:
        return {
            "name": name,
            "resources": {"requests": self.resources(scale)},
            "ports": self.some(1, self.port),
        }

    def pod(self, uid: str, *, scale: int = 2, node: str = "") -> Json:
        """Without a node it is one that waits, and has wishes."""
        first = [self.container(f"i{index}", scale) for index in range(self.pick(0, 0, 1, 3))]
        for one in first:
            if self.random.random() < 0.5:
                one["restartPolicy"] = "Always"
        spec: Json = {
            "initContainers": first,
            "containers": [self.container(f"c{index}", scale) for index in range(self.pick(1, 1, 2))],
            "nodeName": node,
            "overhead": self.maybe(0.2, lambda: {"cpu": "50m", "memory": "10Mi"}),
            "resources": self.maybe(0.2, lambda: {"requests": self.level(scale)}),
        }
        found: Json = {
            "metadata": {"name": uid, "uid": uid, "labels": self.labels()},
            "spec": spec,
        }
        found["metadata"]["namespace"] = self.pick(*NAMESPACES)
        if node:
            spec["affinity"] = self.pod_affinity(self.chance(0.2))
            if self.random.random() < 0.1:
                found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            found["status"] = self.status(spec, scale)
        else:
            spec["nodeName"] = self.pick(*[""] * 9, "node-0")
            spec["nodeSelector"] = self.maybe(
                self.chance(0.3),
                lambda: dict([self.random.choice(list(self.labels().items()) or [("zone", "a")])]),
            )
            spec["tolerations"] = self.some(3, self.toleration)
            spec["affinity"] = self.maybe(self.chance(0.6), self.affinity)
            if self.random.random() < self.chance(0.3):
                spec["topologySpreadConstraints"] = self.some(2, self.constraint)
            spec["schedulingGates"] = self.maybe(0.1, lambda: [{"name": "example.com/wait"}])
        return found

    def level(self, scale: int) -> dict[str, str]:
        return {
            name: text
            for name, text in self.resources(scale).items()
            if name in ("cpu", "memory", "hugepages-2Mi")
        }

    def status(self, spec: Json, scale: int) -> Json:
        """Of a pod that is being resized now and then."""
        found: Json = {"phase": "Running"}
        for field, containers in (
            ("containerStatuses", "containers"),
            ("initContainerStatuses", "initContainers"),
        ):
            found[field] = [
                {
                    "name": one["name"],
                    "resources": self.maybe(0.8, lambda: {"requests": self.resources(scale)}),
                    "allocatedResources": self.resources(scale),
                }
                for one in spec[containers]
                if self.random.random() < 0.3
            ]
        if self.random.random() < 0.2:
            found["resources"] = {"requests": self.level(scale)}
            found["allocatedResources"] = self.level(scale)
        if self.random.random() < 0.2:
            found["conditions"] = [
                {"type": "PodResizePending", "reason": self.pick("Infeasible", "Deferred")}
            ]
        return found


def placement(seed: int) -> Json:
    """A pod, and nodes with their pods."""
    make = Maker(seed)
    nodes = []
    for index in range(make.pick(1, 2, 3)):
        pods = [make.pod(f"p{index}-{one}", node=f"node-{index}") for one in range(make.pick(0, 0, 1, 2, 4))]
        nodes.append({"node": make.node(index), "pods": pods})
    namespaces = [{"metadata": {"name": name, "labels": make.labels()}} for name in NAMESPACES[:2]]
    return {"pod": make.pod("new"), "nodes": nodes, "namespaces": namespaces}


def change(seed: int) -> Json:
    """A pod that waits, and a change of a node, of another pod, or of itself."""
    make = Maker(seed)
    pod = make.pod("new")
    old: Json | None
    new: Json | None
    match make.pick("add", "node", "node", "delete", "resize", "own"):
        case "add":
            old, new = None, {"node": make.node(0)}
        case "node":
            before, after = make.node(0), make.node(0)
            for part in ("spec", "status", "metadata"):
                if make.random.random() < 0.4:
                    after[part] = before[part]
            old, new = {"node": before}, {"node": after}
        case "delete":
            old, new = {"pod": make.pod("other", node="node-0")}, None
        case "resize":
            before, after = make.pod("other", node="node-0"), make.pod("other", node="node-0")
            after["metadata"]["namespace"] = before["metadata"]["namespace"]
            old, new = {"pod": before}, {"pod": after}
        case _:
            changed = make.pod("new")
            changed["metadata"]["namespace"] = pod["metadata"]["namespace"]
            for one in (pod, changed):
                one["spec"]["nodeName"] = ""
            old, new = {"pod": pod}, {"pod": changed}
    return {"pod": pod, "old": old, "new": new}
