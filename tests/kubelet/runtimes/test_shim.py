"""The keeper's script on its own; `test_process.py` shows its whole life."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dray.kubelet.runtimes import shim
from dray.kubelet.runtimes.kept import KEEP


def keep(directory: Path) -> None:
    root = Path(shim.__file__).parents[3]
    command = [sys.executable, "-I", "-S", "-c", KEEP, str(root), str(directory)]
    subprocess.run(command, stdout=subprocess.PIPE, check=True)


def test_a_claim_is_given_once(tmp_path: Path) -> None:
    files = shim.Files(str(tmp_path))
    assert files.claim("keeper.json", {"pid": 1})
    assert not files.claim("keeper.json", {"pid": 2})
    assert json.loads(files.read("keeper.json")) == {"pid": 1}
    files.write("exit.json", {"code": 1})
    files.write("exit.json", {"code": 2})
    assert json.loads(files.read("exit.json")) == {"code": 2}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["exit.json", "keeper.json"]
    os.close(files.fd)


def test_it_leaves_its_callers_session_and_says_when_the_start_is_decided(tmp_path: Path) -> None:
    # It ends when it is told to: after a fixed time it could be over before a busy machine comes back to us.
    launch = {
        "kind": "process",
        "log": str(tmp_path / "log"),
        "argv": ["sh", "-c", f"until [ -e {tmp_path}/gate ]; do sleep 0.02; done"],
        "env": {"PATH": "/bin:/usr/bin"},
    }
    (tmp_path / "launch.json").write_text(json.dumps({**launch, "cwd": "/"}))
    started = time.monotonic()
    keep(tmp_path)
    assert (tmp_path / "running.json").exists()
    assert not (tmp_path / "exit.json").exists()
    keeper = json.loads((tmp_path / "keeper.json").read_text())["pid"]
    assert os.getsid(keeper) == keeper
    (tmp_path / "gate").touch()
    while not (tmp_path / "exit.json").exists():
        assert time.monotonic() < started + 30
        time.sleep(0.02)
    assert json.loads((tmp_path / "exit.json").read_text())["code"] == 0


@pytest.mark.parametrize("log", ["/no/such/directory/log"])
def test_a_log_that_cannot_be_written_is_a_failed_start(tmp_path: Path, log: str) -> None:
    launch = {"kind": "process", "log": log, "argv": ["true"], "env": {}, "cwd": "/"}
    (tmp_path / "launch.json").write_text(json.dumps(launch))
    keep(tmp_path)
    ended = json.loads((tmp_path / "exit.json").read_text())
    assert (ended["code"], ended["reason"]) == (128, "StartError")
    assert "/no/such/directory" in ended["message"]
