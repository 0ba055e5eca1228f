"""What the scheduler remembers of a tenant's objects is bounded in bytes, and does not outlive them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST = 96
"""MiB: of what is remembered, what is decided with, and what Python does not give back."""


@pytest.mark.parametrize("kind", ["claims", "terms"])
def test_memory_does_not_grow_with_what_was_decided(kind: str) -> None:
    command = [sys.executable, "-m", "tests.hostile.remembering", kind]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0 and int(ran.stdout) < MOST, ran.stderr[-2000:] or ran.stdout
