"""Both ends of the serial port, without a guest between them: the program for the guest runs here."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.errors import UnavailableError
from dray.testing.machine import guest
from dray.testing.machine.link import Link
from tests.waiting import block_until

ENV = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
SERVE = (
    "import sys; sys.path.insert(0, sys.argv[1]); from guest import Agent; Agent(int(sys.argv[2])).serve()"
)


def is_over(pid: int) -> bool:
    """Whether it has ended, also where nobody has asked for its status yet."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.fixture
def link() -> Iterator[Link]:
    ours, theirs = socket.socketpair()
    here = str(Path(guest.__file__).parent)
    command = [sys.executable, "-I", "-c", SERVE, here, str(theirs.fileno())]
    silent = subprocess.DEVNULL
    with subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=silent) as program:
        theirs.close()
        link = Link(ours)
        yield link
        link.close()
        program.wait(timeout=60)


def test_ready_is_told(link: Link) -> None:
    link.wait_for(lambda: link.is_ready, 60.0, "the guest")


def test_output_and_status(link: Link) -> None:
    program = link.start(["sh", "-c", "echo out; echo err >&2; exit 3"], ENV)
    assert program.wait(60.0) == 3
    assert (program.stdout, program.stderr) == ("out\n", "err\n")
    assert program.pid > 0


def test_large_input_and_output_and_characters_in_pieces(link: Link) -> None:
    program = link.start(["cat"], ENV)
    text = "añ€\N{SNOWMAN}" * 40_000
    program.write(text)
    program.close_input()
    assert program.wait(60.0) == 0
    assert program.stdout == text


def test_lines_one_by_one(link: Link) -> None:
    program = link.start(["sh", "-c", "echo one; echo two; read word; echo $word"], ENV)
    assert program.read_line(60.0) == "one"
    assert program.read_line(60.0) == "two"
    program.write("three\n")
    assert program.read_line(60.0) == "three"
    with pytest.raises(UnavailableError, match=r"a line from .* ended with status 0"):
        program.read_line(60.0)


def test_signals_reach_children_too(link: Link) -> None:
    program = link.start(["sh", "-c", "sleep 1000 & sleep 1000"], ENV)
    program.signal(signal.SIGKILL)
    assert program.wait(60.0) == -signal.SIGKILL
    program.stop()
    program.kill()


def test_a_child_that_keeps_the_pipe_does_not_keep_the_end(link: Link) -> None:
    program = link.start(["sh", "-c", "sleep 30 & echo $!"], ENV)
    assert program.wait(60.0) == 0
    link.start(["kill", program.stdout.strip()], ENV).wait(60.0)


def test_what_cannot_start(link: Link) -> None:
    program = link.start(["/nothing/there"], ENV)
    with pytest.raises(UnavailableError, match=r"it did not start: .*No such file"):
        program.wait(60.0)


def test_a_file_is_written_whole_or_told(link: Link, tmp_path: Path) -> None:
    link.write_file(str(tmp_path / "new" / "file"), "text", 10.0)
    assert (tmp_path / "new" / "file").read_text() == "text"
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]
    with pytest.raises(UnavailableError, match=r"was not written in the guest"):
        link.write_file("/proc/nothing/there", "text", 10.0)


def test_many_at_once(link: Link) -> None:
    programs = [link.start(["sh", "-c", f"echo {number}"], ENV) for number in range(20)]
    assert [program.wait(60.0) for program in programs] == [0] * 20
    assert [program.stdout for program in programs] == [f"{number}\n" for number in range(20)]


def test_everything_told_at_once(link: Link, tmp_path: Path) -> None:
    """A program ends, then a child of it that has its output; nobody took the one before the other came."""
    parent = link.start(["sh", "-c", "echo $PPID"], ENV)
    assert parent.wait(60.0) == 0
    gate, wait = tmp_path / "gate", "until [ -e $1 ]; do sleep 0.01; done"
    script = f"set -- {gate}.2; (({wait}); echo more; touch $0) & set -- {gate}; ({wait}); echo last"
    ended = [tmp_path / f"ended-{number}" for number in range(5)]
    programs = [link.start(["sh", "-c", script, str(path)], ENV) for path in ended]
    assert all(program.pid for program in programs)
    os.kill(int(parent.stdout), signal.SIGSTOP)
    gate.touch()
    block_until(lambda: all(is_over(program.pid) for program in programs))
    gate.with_suffix(".2").touch()
    block_until(lambda: all(path.exists() for path in ended))
    os.kill(int(parent.stdout), signal.SIGCONT)
    assert [(program.wait(60.0), program.stdout) for program in programs] == [(0, "last\nmore\n")] * 5


def test_a_wait_ends_when_the_guest_is_gone(link: Link) -> None:
    program = link.start(["sleep", "1000"], ENV)
    assert program.pid
    timer = threading.Timer(0.2, link.start, (["sh", "-c", f"kill {program.pid}; kill $PPID"], ENV))
    timer.start()
    with pytest.raises(UnavailableError):
        program.read_line(60.0)
    timer.join()
