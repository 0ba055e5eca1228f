"""What the keeper writes, and that nothing of it is lost when files get full; a follower reads along."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dray.kubelet.runtimes.shim_log import Log, Stream, put_aside, timestamp


@pytest.fixture
def log(tmp_path: Path) -> tuple[Stream, Path]:
    path = tmp_path / "log"
    return Stream(b"stdout", Log(str(path))), path


def texts(path: Path) -> list[str]:
    return [line.split(" ", 2)[2] for line in path.read_text().splitlines()]


def test_lines_are_joined_over_reads(log: tuple[Stream, Path]) -> None:
    stream, path = log
    for data in (b"one\ntw", b"o\n\n", b"rest"):
        os.write(stream.write_fd, data)
        assert stream.take()
    assert texts(path) == ["F one", "F two", "F "]
    assert stream.take(), "nothing to read is not the end"
    os.close(stream.write_fd)
    assert not stream.take()
    assert texts(path)[-1] == "P rest"


def test_a_long_line_is_cut_and_memory_stays_bounded(log: tuple[Stream, Path]) -> None:
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
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z", timestamp())


def numbers(path: Path) -> list[int]:
    """All that is in the log and in the files before it, in their order."""
    files = [Path(one) for one in put_aside(str(path))]
    return [int(line) for file in [*files, path] for line in file.read_text().splitlines()]


def test_full_files_are_put_aside_and_the_oldest_removed(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = Log(str(path), size=100, files=3)
    for number in range(10, 90):
        log.write(f"{number}\n".encode())
    assert [Path(one).stat().st_size for one in put_aside(str(path))] == [99, 99]
    assert numbers(path) == list(range(10, 90))[-(33 + 33 + 14) :]
    for number in range(100, 1000):
        log.write(f"{number}\n".encode())
    assert numbers(path) == list(range(1000 - 25 - 25 - 11, 1000))
    names = sorted(one.name for one in tmp_path.iterdir())
    assert len(names) == 3
    assert all(re.fullmatch(r"0\.log(\.\d{8}-\d{6}\.\d{9})?", name) for name in names)
    log.write(b"x" * 500)  # larger than a file may be: it gets one of its own
    log.write(b"")  # nothing needs no new one
    assert path.stat().st_size == 500


def test_without_a_limit_there_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = Log(str(path))
    for _ in range(1000):
        log.write(b"x" * 1000)
    assert path.stat().st_size == 1_000_000
    assert put_aside(str(path)) == []


def test_it_goes_on_where_a_file_was_removed_or_cannot_be_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    log = Log(str(path), size=100, files=3)
    log.write(b"x" * 90)
    path.unlink()
    log.write(b"y" * 90)
    assert path.read_bytes() == b"y" * 90
    (tmp_path / "0.log.new").mkdir()
    log.write(b"z" * 90)
    assert path.read_bytes() == b"y" * 90 + b"z" * 90
    (tmp_path / "0.log.new").rmdir()
    log.write(b"u" * 90)
    assert path.read_bytes() == b"u" * 90
    assert [Path(one).stat().st_size for one in put_aside(str(path))] == [180]


def test_others_files_are_not_counted(tmp_path: Path) -> None:
    for name in ("10.log.20300101-000000", "0.log.old", "0.log.20300101-000000"):
        (tmp_path / name).touch()
    assert put_aside(str(tmp_path / "0.log")) == [str(tmp_path / "0.log.20300101-000000")]


WRITER = """
import itertools, sys
from dray.kubelet.runtimes.shim_log import Log
log = Log(sys.argv[1], 64, 100_000)
for number in itertools.count():
    log.write(b"%d\\n" % number)
    print(number, flush=True)
"""


@pytest.mark.parametrize("turn", range(5))
def test_a_kill_at_any_moment_loses_nothing_that_was_written(tmp_path: Path, turn: int) -> None:
    path = tmp_path / "0.log"
    told = (tmp_path / "told").open("wb")
    with told, subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=told) as process:
        while not put_aside(str(path)):
            time.sleep(0.005)
        time.sleep(0.01 * turn)
        process.send_signal(signal.SIGKILL)
    last = int((tmp_path / "told").read_text().splitlines()[-1])
    found = numbers(path)
    # Killed between its two steps, the newest file has two names.
    assert sorted(set(found)) == list(range(max(found) + 1))
    assert max(found) in (last, last + 1)
