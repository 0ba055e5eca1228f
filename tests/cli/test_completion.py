"""The scripts of `dray completion` in the shells themselves, as far as they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dray.cli.completion import SCRIPTS
from dray.cli.main import main

_BASH = """\
source <(dray completion bash)
ask() { COMP_LINE="$1"; COMP_POINT=${#1}; COMPREPLY=(); _dray; printf '%s:' "$1"; printf ' %s' "${COMPREPLY[@]}"; echo; }
compopt() { echo "compopt $*"; }
ask 'dray expl'
ask 'dray events --types=W'
ask 'dray cdi validate '
ask 'dray events --for po'
complete -p dray
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With this `dray` in the path, and no cluster."""
    program = tmp_path / "dray"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dray "$@"\n')
    program.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "KUBECONFIG": str(tmp_path / "none")}


@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_each_script_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == SCRIPTS[shell]
    if found := shutil.which(shell):
        subprocess.run([found, "-n"], input=SCRIPTS[shell], text=True, check=True, timeout=60)


def test_bash_asks_and_takes_the_answers(environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "--norc", "-c", _BASH],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
    )
    assert done.stdout.splitlines() == [
        "dray expl: explain",
        "dray events --types=W: Warning",  # bash has --types= already
        "compopt -o default",
        "dray cdi validate : ",
        "compopt -o nospace",
        "dray events --for po: pod/",
        "complete -F _dray dray",
    ]
    assert done.stderr == ""
