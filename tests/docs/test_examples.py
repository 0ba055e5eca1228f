"""Every example in the docs runs.

```python blocks of a page run in order, in one namespace, with `tmp_path` set. ```console blocks run line by line:
`$ ` starts a command, `> ` goes on with it, what follows is what it must print, `…` stands for anything. ```sh blocks may hold only
`make` targets and `.ci/run`, which CI runs by itself.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = [Path("README.md"), Path("CONTRIBUTING.md"), *sorted(Path("docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def _blocks(page: Path, *languages: str) -> list[str]:
    return [text for language, text in BLOCK.findall(page.read_text()) if language in languages]


def _with(*languages: str) -> list[Path]:
    return [page for page in PAGES if _blocks(page, *languages)]


@pytest.mark.parametrize("page", _with("python"), ids=str)
def test_python_examples_run(page: Path, tmp_path: Path) -> None:
    namespace: dict[str, object] = {"__name__": "__example__", "tmp_path": tmp_path}
    for number, text in enumerate(_blocks(page, "python"), 1):
        exec(compile(text, f"{page}, example {number}", "exec"), namespace)


@pytest.mark.parametrize("page", _with("console"), ids=str)
def test_console_examples_print_what_they_say(page: Path, tmp_path: Path) -> None:
    try:
        for text in _blocks(page, "console"):
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                command, expected = _command(part)
                shown = _run(command, tmp_path)
                assert shown.returncode == 0, f"{page}: $ {command}\n{shown.stdout}{shown.stderr}"
                pattern = ".*".join(re.escape(piece) for piece in expected.strip().split("…"))
                assert not expected.strip() or re.fullmatch(pattern, shown.stdout.strip(), re.DOTALL), (
                    f"{page}: $ {command}\nexpected:\n{expected}\nprinted:\n{shown.stdout}"
                )
    finally:
        if (tmp_path / "place").exists():  # a page that fails half-way leaves no `dray up` behind
            _run("dray down --purge --yes --data-dir $(cat place)", tmp_path)


def _run(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, check=False, cwd=directory, env=environment
    )


def _command(part: str) -> tuple[str, str]:
    """The command with its `> ` lines, as a shell shows one that goes on, and what it prints."""
    first, *rest = part.split("\n")
    more = list(itertools.takewhile(lambda line: line.startswith("> "), rest))
    return "\n".join([first, *(line[2:] for line in more)]), "\n".join(rest[len(more) :])


def test_shell_examples_name_real_targets() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", Path("Makefile").read_text(), re.MULTILINE))
    for page in _with("sh"):
        for line in "".join(_blocks(page, "sh")).splitlines():
            words = [word for word in line.split("#")[0].split() if not re.match(r"[A-Z]+=", word)]
            assert not words or words[0] == ".ci/run" or (words[0] == "make" and set(words[1:]) <= targets), (
                f"{page}: {line}"
            )


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page} links to {target}"
