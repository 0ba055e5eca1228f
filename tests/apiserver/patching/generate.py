"""Random objects and patches of them, from a seed: mostly sensible, sometimes not."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

Document = dict[str, Any]

MERGED_LISTS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "resourceClaims": "name",
    "conditions": "type",
    "ownerReferences": "uid",
    "reservedFor": "uid",
    "addresses": "type",
    "finalizers": "",
    "podCIDRs": "",
}
"""The lists in the objects below that a strategic patch merges, by the key of their items."""

OTHER_LISTS = ("tolerations", "args", "taints", "devices", "requests", "images")


class Generator:
    """Everything random about one case."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def case(self, patch_type: str) -> tuple[str, Document, str]:
        """A kind, an object of it, and the text of a patch."""
        kind, build = self.random.choice(KINDS)
        current = build(self)
        if patch_type == JSON_PATCH:
            return kind, current, json.dumps(self.operations(current))
        other = build(self)
        if patch_type == MERGE_PATCH:
            return kind, current, json.dumps(self.merge_patch(other))
        return kind, current, json.dumps(self.strategic(current, other))

    def names(self, choices: str = "abcdef", most: int = 4) -> list[str]:
        return self.random.sample(choices, self.random.randint(0, min(most, len(choices))))

    def maybe(self, into: Document, name: str, value: Any, share: float = 0.6) -> None:
        if self.chance(share):
            into[name] = value

    def metadata(self) -> Document:
        made: Document = {"name": "x", "uid": "u1", "resourceVersion": str(self.random.randint(1, 99))}
        self.maybe(made, "labels", {name: self.random.choice("xyz") for name in self.names()})
        self.maybe(made, "annotations", {f"a/{name}": name for name in self.names()}, 0.3)
        self.maybe(made, "finalizers", [f"f/{name}" for name in self.names("aabcdef")])
        owners = [{"uid": name, "name": name, "controller": self.chance(0.5)} for name in self.names()]
        self.maybe(made, "ownerReferences", owners, 0.4)
        return made

    def container(self, name: str) -> Document:
        made: Document = {"name": name, "image": self.random.choice(["i:1", "i:2"])}
        env = [{"name": one, "value": self.random.choice("12")} for one in self.names()]
        self.maybe(made, "env", env)
        self.maybe(made, "ports", [{"containerPort": ord(one), "name": one} for one in self.names()], 0.4)
        self.maybe(made, "args", self.names(), 0.3)
        self.maybe(made, "volumeMounts", [{"mountPath": f"/{one}", "name": one} for one in self.names()], 0.3)
        limits = {"cpu": self.random.choice(["1", "2"]), "memory": "1Gi"}
        self.maybe(
            made, "resources", {"limits": limits, "claims": [{"name": one} for one in self.names()]}, 0.4
        )
        return made

    def volume(self, name: str) -> Document:
        source: Document = self.random.choice(
            [{"emptyDir": {}}, {"hostPath": {"path": f"/{name}", "type": "File"}}]
        )
        return {"name": name, **source}

    def conditions(self) -> list[Document]:
        return [{"type": one, "status": self.random.choice(["True", "False"])} for one in self.names()]

    def merge_patch(self, other: Document) -> Any:
        """Parts of another object, with nulls and other types strewn in."""
        return self._strewn(other, 0.06)

    def _strewn(self, value: Any, share: float) -> Any:
        if self.chance(share):
            return self.random.choice(
                [None, None, None, 7, 1.5, True, "text", [], {}, [None, {"a": None}], {"a": None}]
            )
        if isinstance(value, dict):
            return {key: self._strewn(one, share) for key, one in value.items() if self.chance(0.7)}
        if isinstance(value, list):
            return [self._strewn(one, share) for one in value]
        return value

    def strategic(self, current: Any, other: Any) -> Any:
        """Parts of another object with directives in them; what the current one has is what they name."""
        if not isinstance(other, dict):
            return other
        if self.chance(0.01):
            return {
                **other,
                "$patch": self.random.choice(["replace", "delete", "merge", "nonsense", None, 3]),
            }
        current = current if isinstance(current, dict) else {}
        patch: Document = {}
        for name in sorted({*current, *other}):
            if self.chance(0.4):
                self._strategic_field(patch, name, current.get(name), other.get(name))
        if self.chance(0.03):
            patch["$retainKeys"] = self.random.choice(
                [[*patch], [*patch, "name"], ["name"], [*current], "name", [{}]]
            )
        return patch

    def _strategic_field(self, patch: Document, name: str, old: Any, new: Any) -> None:
        if self.chance(0.04):
            patch[name] = self.random.choice([None, None, 7, "text", [], {}, {"a": None, "b": 1}])
        elif name in MERGED_LISTS:
            self._strategic_list(patch, name, old or [], new or [])
        elif isinstance(new, dict):
            patch[name] = self.strategic(old, new)
        elif new is not None:
            patch[name] = self._strewn(new, 0.01)

    def _strategic_list(self, patch: Document, name: str, old: list[Any], new: list[Any]) -> None:
        key = MERGED_LISTS[name]
        if not key:
            items = [one for one in new if self.chance(0.7)]
            gone = [one for one in old if one not in items and self.chance(0.3)]
            self.maybe(patch, f"$deleteFromPrimitiveList/{name}", gone, 0.4)
            known = [one for one in old if one not in gone]
        else:
            items = [self._item(one, old, key) for one in new if self.chance(0.7)]
            kept = [one.get(key) for one in items]
            gone = [
                {key: one[key], "$patch": "delete"}
                for one in old
                if one[key] not in kept and self.chance(0.3)
            ]
            known = [one for one in old if all(one[key] != other[key] for other in gone)]
            if self.chance(0.3):
                self._order(patch, name, key, items, known)
            if self.chance(0.02):
                gone.append({"$patch": self.random.choice(["replace", "replace", "merge", "delete", "what"])})
            items = [*items, *gone] if self.chance(0.8) else [*gone, *items]
            if self.chance(0.03):
                items.extend(items[:1])
        if not key and self.chance(0.3):
            self._order(patch, name, key, items, known)
        if items or self.chance(0.2):
            patch[name] = items

    def _item(self, item: Document, old: list[Any], key: str) -> Any:
        same = next((one for one in old if one[key] == item[key]), None)
        made = self.strategic(same, item) if self.chance(0.6) else dict(item)
        if key in item and not self.chance(0.01):
            made[key] = item[key]
        return made

    def _order(self, patch: Document, name: str, key: str, items: list[Any], old: list[Any]) -> None:
        """A $setElementOrder that mostly holds: the patch's items in their order, and old ones between them."""
        order: list[Any] = [{key: one[key]} if key else one for one in items if not key or key in one]
        for one in old:
            known = {key: one[key]} if key else one
            if known not in order and self.chance(0.7):
                order.insert(self.random.randint(0, len(order)), known)
        if order and self.chance(0.03):
            order.append(order[0])
        if self.chance(0.05):
            self.random.shuffle(order)
        if self.chance(0.03):
            order = self.random.choice([[], [None], ["x"], [{}], [{"name": "a"}]])
        patch[f"$setElementOrder/{name}"] = order

    def operations(self, current: Document) -> Any:
        """A JSON patch with up to six steps."""
        return [self._operation(current) for _ in range(self.random.choice([1, 1, 1, 2, 2, 3, 4, 6]))]

    def _operation(self, current: Document) -> Any:
        kind = self.random.choice(["add", "add", "remove", "replace", "move", "copy", "test", "test"])
        path = self.pointer(current)
        made: Document = {"op": kind, "path": path}
        if kind in ("move", "copy"):
            made["from"] = self.pointer(current)
        elif kind == "test" and self.chance(0.85):
            made["value"] = _at(current, path)
        elif kind != "remove":
            made["value"] = self._value()
        if self.chance(0.02):
            made[self.random.choice(["op", "path", "from", "value"])] = self.random.choice(
                [None, 7, "", "x", {}, "/"]
            )
        if self.chance(0.02):
            made.pop(self.random.choice(["op", "path", "value"]), None)
        return made

    def _value(self) -> Any:
        return self.random.choice(
            [1, "x", True, 1.5, {"a": {"b": []}}, ["a", "b"], [], {}, {"a/b": 1, "m~n": [1]}, None]
        )

    def pointer(self, current: Any) -> str:
        """The place of something that is there, or nearly."""
        text, node = "", current
        while isinstance(node, dict | list) and node and not (text and self.chance(0.25)):
            if isinstance(node, list):
                index = self.random.randrange(len(node))
                text += f"/{index - len(node) if self.chance(0.1) else index}"
                node = node[index]
            else:
                key = self.random.choice(sorted(node))
                text += "/" + key.replace("~", "~0").replace("/", "~1")
                node = node[key]
        if self.chance(0.25):
            text += self.random.choice(
                ["/-", "/0", "/new", "/-1", "/99", "/+0", "/00", "/~01", "/a~1b", "/1x", "/"]
            )
        return "" if self.chance(0.01) else text


def _at(node: Any, path: str) -> Any:
    for part in path.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(part)
        elif isinstance(node, list) and part.lstrip("-").isdigit() and -len(node) <= int(part) < len(node):
            node = node[int(part)]
        else:
            return None
    return node


def pod(make: Generator) -> Document:
    spec: Document = {"containers": [make.container(one) for one in make.names("abcd", 3)]}
    make.maybe(spec, "initContainers", [make.container(one) for one in make.names("abcd", 2)], 0.2)
    make.maybe(spec, "volumes", [make.volume(one) for one in make.names()])
    make.maybe(spec, "nodeSelector", {one: one for one in make.names()}, 0.4)
    make.maybe(spec, "tolerations", [{"key": one, "operator": "Exists"} for one in make.names()], 0.4)
    claims = [{"name": one, "resourceClaimName": one} for one in make.names()]
    make.maybe(spec, "resourceClaims", claims, 0.4)
    make.maybe(spec, "terminationGracePeriodSeconds", make.random.randint(0, 30), 0.5)
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": make.metadata(), "spec": spec}
    make.maybe(made, "status", {"phase": "Running", "conditions": make.conditions()})
    return made


def node(make: Generator) -> Document:
    spec: Document = {"unschedulable": make.chance(0.5)}
    make.maybe(spec, "podCIDRs", [f"10.0.{ord(one)}.0/24" for one in make.names()])
    make.maybe(spec, "taints", [{"key": one, "effect": "NoSchedule"} for one in make.names()])
    status: Document = {"conditions": make.conditions(), "capacity": dict.fromkeys(make.names(), "1")}
    make.maybe(status, "addresses", [{"type": one, "address": one} for one in make.names()])
    make.maybe(status, "images", [{"names": make.names(), "sizeBytes": 5} for _ in make.names()], 0.3)
    return {"apiVersion": "v1", "kind": "Node", "metadata": make.metadata(), "spec": spec, "status": status}


def claim(make: Generator) -> Document:
    requests = [{"name": one, "exactly": {"deviceClassName": one, "count": 1}} for one in make.names()]
    status: Document = {
        "reservedFor": [{"uid": one, "resource": "pods", "name": one} for one in make.names()]
    }
    results = [{"request": one, "driver": "d", "pool": "p", "device": one} for one in make.names()]
    make.maybe(status, "allocation", {"devices": {"results": results}})
    make.maybe(
        status, "devices", [{"driver": "d", "device": one, "data": {"a": [1]}} for one in make.names()]
    )
    spec = {"devices": {"requests": requests}}
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    return {**head, "metadata": make.metadata(), "spec": spec, "status": status}


def resource_slice(make: Generator) -> Document:
    attributes = {one: {"int": ord(one)} for one in make.names()}
    devices = [
        {"name": one, "attributes": attributes, "capacity": {"m": {"value": "1"}}} for one in make.names()
    ]
    spec: Document = {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}}
    make.maybe(spec, "devices", devices, 0.9)
    make.maybe(spec, "nodeName", "n")
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice"}
    return {**head, "metadata": make.metadata(), "spec": spec}


KINDS: list[tuple[str, Callable[[Generator], Document]]] = [
    ("v1/Pod", pod),
    ("v1/Pod", pod),
    ("v1/Node", node),
    ("resource.k8s.io/v1/ResourceClaim", claim),
    ("resource.k8s.io/v1/ResourceSlice", resource_slice),
]
