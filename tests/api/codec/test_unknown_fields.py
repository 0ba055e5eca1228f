"""Keys that no field takes."""

from __future__ import annotations

import msgspec

from dray.api.codec.unknown_fields import unknown_field, unknown_fields
from dray.api.field_errors import Path


class Leaf(msgspec.Struct, rename="camel"):
    a_name: str = ""


class Tree(msgspec.Struct):
    leaf: Leaf | None = None
    leaves: tuple[Leaf, ...] | None = None
    named: dict[str, Leaf] = {}
    words: dict[str, str] = {}
    anything: object = None


def test_at_any_depth() -> None:
    raw = {
        "leaf": {"aName": "x", "other": 1},
        "leaves": [{"aNam": 1}, 5],
        "named": {"k": {"x": 1}, "l": {"aName": "y"}},
        "words": {"any": "word"},
        "anything": {"at": "all"},
        "xyz": 1,
    }
    assert [fault.field for fault in unknown_fields(raw, Tree, Path("top"))] == [
        "top.xyz",
        "top.leaf.other",
        "top.leaves[0].aNam",
        "top.named[k].x",
    ]
    assert unknown_fields([], Tree, Path()) == []
    assert unknown_fields({"leaf": 5, "leaves": {}, "named": [], "words": 1}, Tree, Path()) == []


def test_the_name_that_was_meant() -> None:
    def told(key: str, otherwise: str = "") -> str:
        return unknown_field(
            Path(), key, [f"field{number}" for number in range(13)] + ["count"], otherwise=otherwise
        ).message

    assert told("cuont") == 'unknown field: did you mean "count"?'
    assert told("zebra", otherwise="there is none") == "unknown field: there is none"
    assert told("zebra").startswith("unknown field: known are count, field0, ")
    moved = unknown_field(Path("spec"), "kount", ["a"], {"count": "spec.exactly.count"})
    assert str(moved) == 'spec.kount: unknown field: did you mean "spec.exactly.count"?'
