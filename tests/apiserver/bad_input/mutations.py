"""Ways to make a right document wrong: values at any place, and bytes that no encoder writes."""

from __future__ import annotations

import copy
import json
import random
from typing import Any, Final

DEEP: Final = 3000
LONG: Final = 20_000

ODD: Final[tuple[Any, ...]] = (
    None, 0, -1, 1, 2**31, -(2**31) - 1, 2**63, 2**64, 10**30, 1.5, -0.0, 1e300, True, False, "", " ", "x", "X_y",
    "a" * 300, "é", "\u0000", "a\nb", "\u202e", "\ufeff", "ǆ", "a/b/c", "..", "../..", "%2e%2e", "-", "*", "$(A)",
    "2030-01-01T00:00:00Z", "9999-99-99T99:99:99Z", "0001-01-01T00:00:00Z", "1e999999", "1Ei", "-1", "1n", "0x10",
    "9" * 5000, "1.2.3", "1h", "999999999999h", [], [None], [[]], [{}], ["a", "a"], {}, {"a": {}}, {"": ""}, {"a/b/c": 1},
    {"$patch": "delete"}, {"name": "a"}, {"f:a": {}}, [{"name": "a"}, {"name": "a"}], [1, "a", None],
    "device.attributes['a'].exists(x, x == 1)", "true", "1 +", "a.map(b, a.map(c, a.map(d, d)))", "'" + "a" * 9000 + "'",
    "(" * 200 + "1" + ")" * 200, "a in (b", "!a,b notin (c,d)", "device.driver.matches('(a+)+$')",
)  # fmt: skip
_RAW: Final = (
    b"NaN", b"Infinity", b"-Infinity", b"1e400", b"-1e400", b"1" * 400, b"1" * 6000, b"0." + b"1" * 6000, b"01", b"1.",
    b'"\\ud800"', b'"\\udc00\\ud800"', b'"\xff\xfe"', b'"\xed\xa0\x80"', b'"\x00"', b'"\\u0000"', b'"\\x"', b'"\t"',
    b"{", b"]", b'"', b"", b"nul", b"'a'", b"/**/1", b'{"a":1,"a":2}', b'{"a":1}{}', b"[1,]", b"-", b"\xef\xbb\xbf1",
    b"[" * DEEP + b"]" * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP, b"[" * DEEP, b"1e" + b"9" * 400,
    b'"' + b"\\u0041" * LONG + b'"',
)  # fmt: skip
"""Put in as they are in place of a value."""
_NAMES: Final = ("metadata", "spec", "status", "kind", "apiVersion", "name", "namespace", "uid", "finalizers", "labels",
                 "ownerReferences", "managedFields", "resourceVersion", "deletionTimestamp", "generateName", "annotations",
                 "generation", "creationTimestamp", "deletionGracePeriodSeconds", "unknownField", "", "\u0000", "é", "a.b")  # fmt: skip
_METADATA: Final[dict[str, tuple[Any, ...]]] = {
    "resourceVersion": ("1", "0", "x", "9" * 5000, "-1", "١", "1.0"),
    "uid": ("x", ""),
    "finalizers": (["a/b"], ["kubernetes"], ["a"], ["a/b", "a/b"], ["foregroundDeletion", "orphan"]),
    "ownerReferences": (
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"}],
        [{"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "x", "controller": True}] * 2,
    ),
    "managedFields": (
        [
            {
                "manager": "m",
                "operation": "Apply",
                "apiVersion": "v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:a": 1},
            }
        ],
        [{"manager": "m", "operation": "Update", "fieldsV1": {"k:{": {}, "v:1": {}, "i:x": {}, ".": {}}}],
        [{}],
    ),
    "deletionTimestamp": ("2030-01-01T00:00:00Z",),
    "creationTimestamp": ("2030-01-01T00:00:00Z", "x"),
    "labels": ({"a": "b"}, {"a": 1}, {"/": ""}, {"a" * 70: "b"}, {"a": "b" * 70}),
    "annotations": ({"kubectl.kubernetes.io/last-applied-configuration": "{"}, {"a": "b" * (257 << 10)}),
    "generateName": ("g-", "G", "g" * 300, "\u0000"),
    "name": ("one", "two", "One", "a" * 254, "..", "%", "a/b", "é", "ｏｎｅ", "one ", "-one", "a\u0000"),
    "namespace": ("default", "other", "", "x"),
    "generation": (-1, 2**63 - 1, 2**63),
}
_MARK: Final = "put-raw-bytes-here"


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a document, outside first."""
    found: list[tuple[Any, Any]] = []
    level = [value] if isinstance(value, dict | list) else []
    while level:
        holders, level = level, []
        for one in holders:
            pairs = list(one.items()) if isinstance(one, dict) else list(enumerate(one))
            found += [(one, key) for key, _ in pairs]
            level += [item for _, item in pairs if isinstance(item, dict | list)]
    return found


def spoiled(document: Any, chance: random.Random, changes: int) -> Any:
    """A copy with so many faults."""
    new = copy.deepcopy(document)
    for _ in range(changes):
        if not isinstance(new, dict | list) or not (found := places(new)):
            return copy.deepcopy(chance.choice(ODD))
        holder, key = chance.choice(found)
        _spoil(new, holder, key, chance)
    return new


def _spoil(root: Any, holder: Any, key: Any, chance: random.Random) -> None:
    how = chance.randrange(10)
    if how < 4:
        holder[key] = copy.deepcopy(chance.choice(ODD))
    elif how == 4:
        del holder[key]
    elif how == 5 and isinstance(holder, dict):
        holder[chance.choice(_NAMES)] = copy.deepcopy(chance.choice(ODD))
    elif how == 6 and isinstance(holder[key], list):
        holder[key] = copy.deepcopy(holder[key] * chance.choice((2, 3, 40)))
    elif how == 7 and isinstance(holder[key], dict):
        holder[key] |= {
            f"k{number}": copy.deepcopy(chance.choice(ODD)) for number in range(chance.choice((1, 3, 40)))
        }
    elif how == 8:
        holder[key] = (
            [copy.deepcopy(holder[key])] if chance.random() < 0.5 else {"a": copy.deepcopy(holder[key])}
        )
    elif isinstance(root, dict) and isinstance(root.get("metadata"), dict):
        name = chance.choice(sorted(_METADATA))
        root["metadata"][name] = copy.deepcopy(chance.choice(_METADATA[name]))


def encoded(document: Any, chance: random.Random, raw: float = 0.0) -> bytes:
    """JSON; with this chance one value in it is no JSON, or the text as a whole is not."""
    if chance.random() >= raw:
        return dumped(document)
    if isinstance(document, dict | list) and (found := places(document)):
        holder, key = chance.choice(found)
        kept, holder[key] = holder[key], _MARK
        data = dumped(document).replace(f'"{_MARK}"'.encode(), chance.choice(_RAW))
        holder[key] = kept
    else:
        data = chance.choice(_RAW)
    return _torn(data, chance) if chance.random() < 0.2 else data


def dumped(document: Any) -> bytes:
    """As JSON with whatever Python lets through."""
    return json.dumps(document, ensure_ascii=_is_escaped(document)).encode(errors="surrogatepass")


def _is_escaped(document: Any) -> bool:
    """Escapes where the text is short, and the characters themselves where it is long: both ways are used."""
    return len(repr(document)) % 2 == 0


def _torn(data: bytes, chance: random.Random) -> bytes:
    """Bytes lost, doubled or changed."""
    if not data:
        return data
    at = chance.randrange(len(data))
    return chance.choice(
        (
            data[:at],
            data[at:],
            data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :],
            data[:at] + data[: at + 1],
        )
    )
