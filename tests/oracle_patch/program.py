"""Kubernetes' own patching as a running program; `python -m tests.oracle_patch.program` writes the table of shapes anew.

The table comes out of a real API server's OpenAPI documents; the tags of the Go types must say the same of merging.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dray.apiserver.patching.shape_table import parse_field
from tests.go_oracle import GoOracle, go_program
from tests.oracle_patch.table import real_documents, table

SOURCE = Path(__file__).parent
TABLE = Path("src/dray/apiserver/patching/shapes.json")
Shapes = dict[str, dict[str, str]]


def program() -> Path:
    return go_program(SOURCE, SOURCE / "go.mod", "oracle-patch")


class PatchOracle(GoOracle):
    """Asked for a patched document, or for the shapes of all kinds."""

    def __init__(self) -> None:
        super().__init__([program()])


def generated_table() -> str:
    """The table as it is kept: one line a kind, a shape, and the traits of a shape."""
    with PatchOracle() as oracle:
        tags = oracle.ask({"ask": "shapes"})["result"]
    made = table(tags["kinds"], real_documents(tags["kinds"]))
    differ = _differing(made["shapes"], tags)
    assert not differ, f"the documents and the Go types merge differently: {differ}"
    parts = [f" {json.dumps(name)}: {_lines(made[name])}" for name in ("kinds", "shapes", "traits")]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _differing(shapes: Shapes, tags: dict[str, Any]) -> list[str]:
    """The shapes of which the Go types tell another way of merging; a struct without fields is a plain value here."""
    empty = {name for name in tags["shapes"] if not tags["shapes"][name] and not tags["plain"][name]}
    wrong = []
    for name, tagged in tags["shapes"].items():
        merged = {field: _merging(shapes, text) for field, text in shapes[name].items()}
        ours = {field: said for field, said in merged.items() if said}
        theirs = {field: said for field, said in tagged.items() if said not in empty}
        if ours != theirs or set(shapes[name]) != {*tagged, *tags["plain"][name].split()}:
            wrong.append(name)
    return wrong


def _merging(shapes: Shapes, text: str) -> str:
    """`TYPE`, `[]TYPE` or `[]TYPE STRATEGIES KEY`, as the program tells it from the Go types."""
    field = parse_field(text)
    is_struct = field.is_shape and not field.is_map and shapes.get(field.type)
    kind = ("[]" if field.is_list else "") + (field.type if is_struct else "")
    return f"{kind} {field.strategies} {field.merge_key}".rstrip()


def _lines(entries: dict[str, Any]) -> str:
    lines = [
        f"  {json.dumps(key)}: {json.dumps(value, sort_keys=True)}" for key, value in sorted(entries.items())
    ]
    return "{\n" + ",\n".join(lines) + "\n }"


if __name__ == "__main__":
    TABLE.write_text(generated_table())
