"""Kubernetes' own patching as a running program; `python -m tests.oracle_patch.program` writes the table of shapes anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.go_oracle import GoOracle, go_program

SOURCE = Path(__file__).parent
TABLE = Path("src/dray/apiserver/patching/shapes.json")


class PatchOracle(GoOracle):
    """Asked for a patched document, or for the shapes of all kinds."""

    def __init__(self) -> None:
        super().__init__([go_program(SOURCE, SOURCE / "go.mod", "oracle-patch")])


def generated_table() -> str:
    """The table as it is kept: one line a kind, a shape, and the plain fields of a shape."""
    with PatchOracle() as oracle:
        answer = oracle.ask({"ask": "shapes"})["result"]
    parts = [f" {json.dumps(name)}: {_lines(answer[name])}" for name in ("kinds", "shapes", "plain")]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(entries: dict[str, Any]) -> str:
    lines = [
        f"  {json.dumps(key)}: {json.dumps(value, sort_keys=True)}" for key, value in sorted(entries.items())
    ]
    return "{\n" + ",\n".join(lines) + "\n }"


if __name__ == "__main__":
    TABLE.write_text(generated_table())
