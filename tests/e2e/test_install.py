"""The installer: nothing to do is fast, and what is missing is said in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from dray.testing.kubernetes.tools import GO_MODULES, Tools, locate

INSTALL = [sys.executable, "-m", "dray.testing.kubernetes", "install"]
AS_NOBODY = "import os, sys; from dray.testing.kubernetes.__main__ import main; os.setuid(65534); sys.exit(main(['install']))"


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_install_of_what_is_there_does_nothing(tools: Tools) -> None:
    def state() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in tools.path("kubelet").parent.parent.rglob("*")}

    before = state()
    assert before
    command = [*INSTALL[:-1], f"--modules={tools.modules}", "install"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert state() == before


def test_without_go_it_says_so(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(INSTALL, capture_output=True, text=True, env=environment, check=False)
    assert "make e2e needs Go >= 1.26" in one_line(done)


def test_without_root_it_says_so() -> None:
    done = subprocess.run([sys.executable, "-c", AS_NOBODY], capture_output=True, text=True, check=False)
    assert "make e2e needs root" in one_line(done)


def test_other_content_gets_another_directory(tools: Tools, tmp_path: Path) -> None:
    for module in GO_MODULES:
        (tmp_path / module.name).mkdir()
        for name in ("go.mod", "go.sum"):
            (tmp_path / module.name / name).write_bytes((tools.modules / module.name / name).read_bytes())
    copy = locate(tmp_path)
    assert copy.missing() == [], "the same content in another checkout finds the same programs"
    with (tmp_path / "kubernetes" / "go.sum").open("a") as file:
        file.write("\n")
    assert "kubelet" in copy.missing()
    assert "containerd" not in copy.missing()
