"""Machines for the examples."""

from __future__ import annotations

from pathlib import Path


def build_lamps(path: Path) -> dict[str, Path]:
    """The root of a machine for each example, with two lamps."""
    plain, rich = path / "01", path / "02"
    (plain / "var/lib/lamps").mkdir(parents=True)
    for name, colour in (("desk", "red"), ("floor", "blue")):
        (plain / "var/lib/lamps" / name).write_text(f"{colour}\n")
        lamp = rich / "var/lib/lamps" / name
        lamp.mkdir(parents=True)
        (lamp / "state").write_text("ok\n")
        (lamp / "level").write_text("0\n")
    return {"01-lamp": plain, "02-lamp-with-config": rich}
