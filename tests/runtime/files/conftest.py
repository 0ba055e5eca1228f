"""Fixtures of the runtime room's tests."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]

RunProgram = Callable[..., Any]


@pytest.fixture
def run_program() -> RunProgram:
    """Run `tests/runtime/files/programs/<name>.py` to its end; the JSON it printed, or a skip where it says so."""

    def run(name: str, *arguments: object, prefix: tuple[str, ...] = (), timeout: float = 600) -> Any:
        argv = [*prefix, sys.executable, "-m", f"tests.runtime.files.programs.{name}", *map(str, arguments)]
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        if isinstance(result, dict) and "skip" in result:
            pytest.skip(result["skip"])
        return result

    return run


@pytest.fixture(scope="session")
def namespace_prefix() -> tuple[str, ...]:
    """The words before a command that give it a user and mount namespace of its own, so that it may mount."""
    if shutil.which("unshare"):
        for prefix in (("unshare", "-Urm"), ("unshare", "-m")):
            if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
                return prefix
    pytest.skip("neither user namespaces nor root: a small tmpfs cannot be mounted here")


@pytest.fixture
def not_root() -> None:
    """Skip where permissions do not bind."""
    if os.geteuid() == 0:
        pytest.skip("root may do everything; this needs a normal user")
