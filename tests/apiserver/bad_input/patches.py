"""Patches that are wrong, or right and hostile."""

from __future__ import annotations

import copy
import json
import random
from typing import Any, Final

from tests.apiserver.bad_input.mutations import ODD, dumped, encoded, places, spoiled

Document = dict[str, Any]
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"

_OPS: Final = ("add", "remove", "replace", "move", "copy", "test", "bomb", "", None, 1)
_ENDS: Final = (
    "",
    "/-",
    "/0",
    "/-1",
    "/99999999999999999999",
    "/~",
    "/~2",
    "/",
    "//",
    "/\u0000",
    "/a~1b",
    "/01",
    "/+0",
)
_DIRECTIVES: Final = (
    "$patch",
    "$retainKeys",
    "$setElementOrder/{}",
    "$deleteFromPrimitiveList/{}",
    "$setElementOrder",
    "$x",
)
_TOLD: Final[tuple[Any, ...]] = (
    "delete", "replace", "merge", "", 1, None, {}, [], ["a"], [{"name": "a"}], [{"name": {}}], [[]], [None], ["a", 1],
)  # fmt: skip
YAML: Final = (
    (b"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
    b"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n"),
    b"a: &a\n  b: *a\n", b"&a [*a]", b"!!python/object/apply:os.system [exit]", b"a: !!binary '####'", b"a: !!timestamp x",
    b"? [a, b]\n: c", b"{a: 1, a: 2}", b"<<: {a: 1}", b"a: b: c", b"\t- a", b"--- a\n--- b\n", b"%YAML 9.9\n--- a", b"a: 'b",
    b"- " * 2000 + b"a", b"{" * 3000, b"a: " + b"[" * 3000, b"!", b"&", b"*x", b"a: |\n" + b" " * 5000 + b"x", b"", b"...", b"# x",
    b"\xff\xfe\x00a", b"a: \x00", b"a: \xf0\x9f", b"1: 2", b"null: 1", b"a: .nan", b"a: .inf", b"a: 1_000", b"a: 0x" + b"f" * 5000,
    b"a: 1" + b"0" * 5000, b"a: 12:30:45", b"!<tag:yaml.org,2002:map> {a: b}", b"a: &x 1\nb: *y", b"? " * 1000,
)  # fmt: skip


def patch_body(document: Document, kind: str, chance: random.Random) -> bytes:
    """A patch of this content type, made from an object of the patched kind."""
    if kind == JSON_PATCH:
        return encoded(_json_patch(document, chance), chance, raw=0.1)
    if kind == APPLY:
        return _apply(document, chance)
    wrong = spoiled(_part(document, chance), chance, chance.choice((0, 1, 1, 2, 5)))
    if kind == STRATEGIC or chance.random() < 0.2:
        _direct(wrong, chance)
    return encoded(wrong, chance, raw=0.1)


def _part(document: Document, chance: random.Random) -> Document:
    """Some fields of it; without the name mostly, since a patch needs none."""
    kept = {key: value for key, value in document.items() if chance.random() < 0.6}
    if chance.random() < 0.7:
        kept.pop("metadata", None)
    return kept


def _apply(document: Document, chance: random.Random) -> bytes:
    if chance.random() < 0.25:
        return chance.choice(YAML)
    wrong = spoiled(document, chance, chance.choice((0, 0, 1, 1, 2)))
    if chance.random() < 0.1:
        _direct(wrong, chance)
    data = encoded(wrong, chance, raw=0.1)
    return data + (b"\n---\n" + data if chance.random() < 0.05 else b"")


def _direct(document: Any, chance: random.Random) -> None:
    """Put directives where they mean something, and where they do not."""
    holders = [holder for holder, _ in places(document) if isinstance(holder, dict)]
    for _ in range(chance.randint(1, 3)):
        if holders:
            holder = chance.choice(holders)
            field = chance.choice(sorted(key for key in holder if isinstance(key, str)) or ["a"])
            holder[chance.choice(_DIRECTIVES).format(field)] = copy.deepcopy(chance.choice(_TOLD))


def pointers(document: Any) -> list[str]:
    """JSON pointers into a document."""
    found, level = [""], [("", document)]
    while level:
        path, value = level.pop()
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in pairs:
            here = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
            found.append(here)
            if isinstance(item, dict | list):
                level.append((here, item))
    return found


def _json_patch(document: Document, chance: random.Random) -> Any:
    special = chance.random()
    if special < 0.05:
        return _doubling(chance)
    if special < 0.1:
        return spoiled([_step(document, chance)], chance, 2)
    return [_step(document, chance) for _ in range(chance.choice((1, 1, 1, 1, 2, 3, 50)))]


def _step(document: Document, chance: random.Random) -> Document:
    known = pointers(document)
    step: Document = {"op": chance.choice(_OPS[: 6 if chance.random() < 0.9 else None])}
    for name in ("path", "from"):
        if chance.random() < 0.95:
            step[name] = chance.choice(known) + (chance.choice(_ENDS) if chance.random() < 0.3 else "")
    if chance.random() < 0.9:
        step["value"] = copy.deepcopy(chance.choice(ODD))
    return step


def _doubling(chance: random.Random) -> list[Document]:
    """Each step doubles what there is, in width or in depth."""
    start = {"op": "add", "path": "/metadata/annotations", "value": {"a": "x" * 1000}}
    if chance.random() < 0.5:
        return [start, *({"op": "copy", "from": "/metadata", "path": f"/metadata/k{n}"} for n in range(40))]
    return [
        start,
        *({"op": "copy", "from": "/metadata", "path": "/metadata/annotations/b"} for _ in range(3000)),
    ]


def bombs() -> list[tuple[str, bytes]]:
    """Patches that cost much more than their size, one of each kind: content type and body."""
    deep: Any = 1
    for _ in range(150):
        deep = {"a": deep}
    many = [{"op": "test", "path": "/metadata/name", "value": deep}] * 9000
    moves = [{"op": "move", "from": "/data", "path": "/data/a"}] * 9000
    nested = [{"op": "add", "path": "/data" + "/a" * number, "value": {}} for number in range(1, 2000)]
    wide = {"data": {f"k{number}": "v" for number in range(100_000)}}
    order = {
        "$setElementOrder/finalizers": [f"a/{number}" for number in range(30_000)],
        "finalizers": ["a/1"],
    }
    grown = [{"op": "add", "path": "/metadata/finalizers", "value": []}]
    grown += [
        {"op": "add", "path": "/metadata/finalizers/0", "value": f"a/{number}"} for number in range(9000)
    ]
    return [
        (JSON_PATCH, dumped(many)),
        (JSON_PATCH, dumped(moves)),
        (JSON_PATCH, dumped(nested)),
        (JSON_PATCH, dumped([{"op": "remove", "path": "/a"}] * 20_000)),
        (JSON_PATCH, dumped(grown)),
        (JSON_PATCH, json.dumps(_doubling(random.Random(1))).encode()),
        (JSON_PATCH, json.dumps(_doubling(random.Random(3))).encode()),
        (MERGE_PATCH, dumped(wide)),
        (STRATEGIC, dumped({"metadata": order})),
        (STRATEGIC, dumped({"metadata": {"finalizers": [f"a/{number}" for number in range(30_000)]}})),
        (APPLY, dumped({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, **wide})),
        *((APPLY, text) for text in YAML),
    ]
