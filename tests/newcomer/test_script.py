"""The README's quick start is replayed as it stands there, in a place of its own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

HERE = Path("tests/newcomer")
SCRIPT = HERE / "script.sh"
MAKE = """#!/usr/bin/env bash
# The tests have their environment already: make would see to it that it is the newest, and install things meanwhile.
[ "$1" = up ] && exec .venv/bin/dray up ${2#ARGS=}
"""


def commands(text: str) -> list[str]:
    """Without comments, and without what waits."""
    lines = (re.sub(r"\s+#.*|\s+&$", "", line).strip() for line in text.splitlines())
    return [line for line in lines if line and not re.match(r"#|set |source |wait_", line)]


def pattern(recorded: str) -> str:
    """`…` stands for anything in a line, and alone in a line for any lines."""
    lines = []
    for line in recorded.splitlines():
        pieces = map(re.escape, re.split(" *… *", line))
        lines.append("(?:.*\n)*?" if line == "…" else ".*".join(pieces) + "\n")
    return "".join(lines)


def test_the_script_is_what_the_readme_says() -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```", Path("README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert commands("".join(blocks)) == commands(SCRIPT.read_text())


def test_the_script_prints_what_was_recorded(tmp_path: Path) -> None:
    make = tmp_path / "make"
    make.write_text(MAKE)
    make.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "NEWCOMER_AT"}
    done = subprocess.run(
        [SCRIPT],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
        env={**environment, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stdout
    assert re.fullmatch(pattern((HERE / "script.out").read_text()), done.stdout), done.stdout
