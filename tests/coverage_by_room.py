"""`make coverage`: how many branches of each room the tests run, as a table; `--open PATH` lists those that none runs."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

REPORT = Path("build/coverage/rooms.json")
# Rooms of which a part is looked at by itself: a silent fault there costs a device.
PARTS = (
    "apiserver/access",
    "apiserver/store",
    "dra/claims",
    "kubelet/claims",
    "kubelet/devices",
    "scheduler/claims",
)


def main() -> None:
    """Read what `coverage json` wrote, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--open", metavar="PATH", help="list the branches of src/dray/PATH that no test runs")
    wanted = parser.parse_args().open
    files = {
        Path(name).relative_to("src/dray").as_posix(): file
        for name, file in json.loads(REPORT.read_text())["files"].items()
    }
    if wanted is None:
        print(_table(files))
        return
    for name, file in sorted(files.items()):
        if name.startswith(wanted):
            for source, target in file["missing_branches"]:
                print(f"src/dray/{name}:{source} -> {target if target > 0 else 'end'}")


def _table(files: dict[str, Any]) -> str:
    rooms: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for name, file in files.items():
        summary = file["summary"]
        numbers = [
            summary[key] for key in ("num_statements", "covered_lines", "num_branches", "covered_branches")
        ]
        for room in ("all", name.split("/")[0], *(part for part in PARTS if name.startswith(f"{part}/"))):
            rooms[room] = [before + more for before, more in zip(rooms[room], numbers, strict=True)]
    lines = ["| room | lines | of them run | branches | of them run |", "|---|---|---|---|---|"]
    for room, (statements, run, branches, taken) in sorted(rooms.items()):
        lines.append(
            f"| `{room}` | {statements:,} | {_share(run, statements)} | {branches:,} | {_share(taken, branches)} |"
        )
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


if __name__ == "__main__":
    main()
