"""Files of the project that the docs name are there, under that name."""

from __future__ import annotations

import re
from pathlib import Path

PAGES = [
    Path("README.md"),
    Path("CONTRIBUTING.md"),
    *sorted(Path("docs").rglob("*.md")),
    *sorted(Path("examples").rglob("*.md")),
]
NAMED = re.compile(r"`((?:src/dray|tests|deploy|examples|docs)/[\w./-]+)(?:::\w+)?`")


def test_named_files_exist() -> None:
    missing = [
        f"{page}: {name}"
        for page in PAGES
        for name in NAMED.findall(page.read_text())
        if not Path(name).exists()
    ]
    assert not missing


def test_the_tour_names_a_file_at_each_step() -> None:
    steps = re.split(r"^## (?=\d)", Path("docs/tour.md").read_text(), flags=re.MULTILINE)[2:]
    assert [step[0] for step in steps] == list("12345678")
    assert all(re.search(r"`src/dray/[\w/]+\.py`", step) for step in steps)
