"""The keeper's script on its own; `test_process.py` shows its whole life."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dray.kubelet.runtimes import shim


@pytest.fixture
def log(tmp_path: Path) -> tuple[shim.Stream, Path]:
    path = tmp_path / "log"
    return shim.Stream(b"stdout", os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)), path


def texts(path: Path) -> list[str]:
    return [line.split(" ", 2)[2] for line in path.read_text().splitlines()]


def test_lines_are_joined_over_reads(log: tuple[shim.Stream, Path]) -> None:
    stream, path = log
    for data in (b"one\ntw", b"o\n\n", b"rest"):
        os.write(stream.write_fd, data)
        assert stream.take()
    assert texts(path) == ["F one", "F two", "F "]
    assert stream.take(), "nothing to read is not the end"
    os.close(stream.write_fd)
    assert not stream.take()
    assert texts(path)[-1] == "P rest"


def test_a_long_line_is_cut_and_memory_stays_bounded(log: tuple[shim.Stream, Path]) -> None:
    stream, path = log
    for _ in range(4):
        os.write(stream.write_fd, b"x" * 15_000)
        stream.take()
        assert len(stream._rest) < 16 * 1024
    os.write(stream.write_fd, b"\n")
    stream.take()
    found = texts(path)
    assert [text[0] for text in found] == ["P"] * (len(found) - 1) + ["F"]
    assert "".join(text[2:] for text in found) == "x" * 60_000


def test_timestamps() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", shim.timestamp())


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
    subprocess.run(
        [sys.executable, "-I", "-S", shim.__file__, str(tmp_path)], stdout=subprocess.PIPE, check=True
    )
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
    subprocess.run(
        [sys.executable, "-I", "-S", shim.__file__, str(tmp_path)], stdout=subprocess.PIPE, check=True
    )
    ended = json.loads((tmp_path / "exit.json").read_text())
    assert (ended["code"], ended["reason"]) == (128, "StartError")
    assert "/no/such/directory" in ended["message"]
