"""Random documents of a kind by its type, and random steps of two or three managers over one object."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from typing import Any

from dray.apiserver.patching.apply.last_applied import ANNOTATION
from dray.apiserver.patching.apply.schema import Document, Kind, ListType, MapType, Type, filled, type_of

ALWAYS = ("metadata", "spec", "status")
DOORS = ("", "", "", "status")


class Generator:
    """One seed is one story: a few fields of each type are used in it, so that managers meet in them."""

    def __init__(self, seed: int, kind: Kind) -> None:
        self._random = random.Random(seed)
        self._kind = kind
        self._fields: dict[int, list[str]] = {}
        self._managers = self._random.sample(["kubectl", "agent", "kubelet", "unknown", ""], 3)

    def step(self, live: Document | None) -> Document:
        """What the next request is, given the object as it is."""
        chance = self._random.random
        applies = chance() < 0.6
        door = self._random.choice(DOORS) if self._kind.has_status else ""
        step: Document = {
            "do": "apply" if applies else "update",
            "manager": self._random.choice(self._managers),
            "force": chance() < 0.3,
            "subresource": door,
        }
        step["object"] = self._applied() if applies else filled(self._kind, self._updated(live))
        return step

    def crowd(self, live: Document | None) -> Document:
        """An update by one of very many managers."""
        manager = f"m{self._random.randrange(20)}"
        document = self._updated(live)
        annotations = document["metadata"].get("annotations")
        own = {manager: self._scalar("string")}
        document["metadata"]["annotations"] = {**annotations, **own} if isinstance(annotations, dict) else own
        return {
            "do": "update",
            "manager": manager,
            "force": False,
            "subresource": "",
            "object": filled(self._kind, document),
        }

    def _applied(self) -> Document:
        document = self._document()
        if self._random.random() < 0.03:
            self._random.choice([document, document["metadata"]])["undeclared"] = "x"
        if self._random.random() < 0.02:
            document["metadata"]["managedFields"] = []
        return document

    def _document(self) -> Document:
        root = type_of(self._kind)
        assert root.map is not None
        wanted = [name for name in ALWAYS if root.map.declares(name) or root.map.is_open]
        made = self._map(root.map, 0, wanted)
        metadata = made.get("metadata")
        metadata = metadata if isinstance(metadata, dict) else {}
        for name in ("managedFields", "uid"):
            metadata.pop(name, None)
        made["metadata"] = {**metadata, "name": "one"}
        return {**made, "apiVersion": self._kind.api_version, "kind": self._kind.kind}

    def _updated(self, live: Document | None) -> Document:
        if live is None:
            made = self._document()
            self._remember(made)
            return made
        made = deepcopy(live)
        for _ in range(self._random.randrange(3)):
            other = self._document()
            self._graft(made, other, 0)
        self._remember(made)
        self._tamper(made)
        made["metadata"]["uid"] = live["metadata"]["uid"]
        return {**made, "apiVersion": self._kind.api_version, "kind": self._kind.kind}

    def _graft(self, made: Document, other: Document, depth: int) -> None:
        """Puts a part of another document in place of what is there, or takes a part away."""
        names = [
            name for name in {**made, **other} if name not in ("managedFields", "uid", "apiVersion", "kind")
        ]
        if not names:
            return
        name = self._random.choice(sorted(names))
        both = isinstance(made.get(name), dict) and isinstance(other.get(name), dict)
        if both and (name == "metadata" or self._random.random() < 0.7):
            self._graft(made[name], other[name], depth + 1)
        elif name == "metadata":
            return
        elif name in other and self._random.random() < 0.8:
            made[name] = other[name]
        elif name != "metadata":
            made.pop(name, None)

    def _tamper(self, made: Document) -> None:
        """What clients do to managedFields on their own."""
        chance = self._random.random()
        entries = made["metadata"].get("managedFields")
        if chance < 0.03:
            made["metadata"]["managedFields"] = self._random.choice([[], [{}]])
        elif chance < 0.3:
            made["metadata"].pop("managedFields", None)
        elif chance < 0.35 and entries:
            self._random.choice(entries)["fieldsType"] = "FieldsV9"
        elif chance < 0.38 and entries:
            self._random.choice(entries)["apiVersion"] = "gone/v1"
        elif chance < 0.42 and entries:
            entries.pop(self._random.randrange(len(entries)))
        elif chance < 0.5 and entries:
            self._refine(self._random.choice(entries)["fieldsV1"])

    def _refine(self, fields: Document) -> None:
        """Paths below one that is owned as a whole, as an earlier schema may have left them."""
        while fields and self._random.random() < 0.9:
            fields = fields[self._random.choice(sorted(fields))]
        fields[self._random.choice(["f:a", "f:name", 'k:{"name":"a"}', 'v:"a"', "i:0", "x:later"])] = {}

    def _remember(self, made: Document) -> None:
        """What client-side apply leaves on an object."""
        if self._random.random() < 0.1 and isinstance(
            annotations := made["metadata"].get("annotations", {}), dict
        ):
            text = self._random.choice([json.dumps(made), json.dumps(self._document()), "{", ""])
            made["metadata"]["annotations"] = {**annotations, ANNOTATION: text}

    def _value(self, type_: Type, depth: int, nullable: bool = True) -> Any:
        # Go reads a null in a map of strings as an empty one; we leave the name out.
        if self._random.random() < 0.02 and nullable:
            return None
        forms = [form for form in ("map", "list", "scalar") if getattr(type_, form)]
        if depth > 7:
            forms = [form for form in forms if form == "scalar"] or forms
        form = self._random.choice(forms)
        if form == "map" and type_.map is not None:
            return self._map(type_.map, depth)
        if form == "list" and type_.list is not None:
            return self._list(type_.list, depth)
        return self._scalar(type_.scalar)

    def _scalar(self, scalar: str) -> Any:
        pools: dict[str, list[Any]] = {
            "string": ["a", "b", 'c"<', ""],
            "numeric": [0, 1, 2],
            "boolean": [True, False],
            "untyped": ["a", 1, True, False],
        }
        return self._random.choice(pools[scalar])

    def _names(self, type_: MapType, wanted: list[str]) -> list[str]:
        """The fields that this story uses of a struct, or the keys of a map."""
        known = self._fields.get(id(type_))
        if known is None:
            declared = sorted(name for name in type_._fields) or ["a", "b", "c.d/e"]
            rest = [name for name in declared if name not in wanted]
            known = wanted + self._random.sample(rest, min(len(rest), self._random.randint(1, 4)))
            self._fields[id(type_)] = known
        return known

    def _map(self, type_: MapType, depth: int, wanted: list[str] | None = None) -> Document:
        names = self._names(type_, wanted or [])
        share = 0.75 if depth < 7 else 0.2
        return {
            name: self._value(type_.item(name), depth + 1, type_.declares(name) or type_.is_deduced)
            for name in names
            if depth == 0 or self._random.random() < share
        }

    def _list(self, type_: ListType, depth: int) -> list[Any]:
        items: list[Any] = []
        seen = set()
        for _ in range(self._random.randrange(4)):
            item = self._value(type_.items, depth + 1)
            if not type_.is_atomic:
                item = self._listed(item, type_)
                element = type_.element(item)
                if element in seen and self._random.random() < 0.97:
                    continue
                seen.add(element)
            items.append(item)
        return items

    def _listed(self, item: Any, type_: ListType) -> Any:
        """An item that a map list or a set takes."""
        if not type_.keys:
            return item if isinstance(item, str | int) else "a"
        held = item if isinstance(item, dict) else {}
        types = type_.items.map
        for key in type_.keys:
            held[key] = self._scalar(types.item(key).scalar) if types is not None else "a"
        if len(type_.keys) > 1 and self._random.random() < 0.3:
            held.pop(self._random.choice(type_.keys))
        return held
