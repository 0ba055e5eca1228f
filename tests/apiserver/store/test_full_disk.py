"""No space left on the device: the whole server refuses, answers what is read, and goes on when there is space again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def own_mounts() -> tuple[str, ...]:
    """The words before a command that let it mount."""
    for words in (("unshare", "-Urm"), ("unshare", "-m")):
        if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
            return words
    raise AssertionError("neither user namespaces nor root: a small tmpfs cannot be mounted here")


def test_a_full_disk_refuses_and_recovers(tmp_path: Path, own_mounts: tuple[str, ...]) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    child = [sys.executable, "-m", "tests.apiserver.store.full_disk_child", str(place)]
    run = subprocess.run([*own_mounts, *child], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    acknowledged = found["acknowledged"]
    assert acknowledged and len(found["refusals"]) == 10
    for text in found["refusals"]:
        assert text.startswith("UnavailableError: ") and "the disk is full: free space" in text
    assert found["while_full"] == acknowledged
    assert found["refused_after"] == ""
    assert found["after_restart"] == [*acknowledged, "n999"]
