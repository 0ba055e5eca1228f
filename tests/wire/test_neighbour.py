from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from dray.wire.neighbour import Neighbour, who_listens
from dray.wire.serve import serve

LISTEN = """
import socket, sys, time
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("ready", flush=True)
time.sleep(60)
"""


def test_how_a_process_is_told() -> None:
    assert str(Neighbour("a.sock", 42, "tapetool --fast")) == "tapetool --fast (pid 42)"
    assert str(Neighbour("a.sock", 42)) == "a process (pid 42)"
    assert str(Neighbour("a.sock")) == "a process not visible from here"


async def test_the_process_behind_a_socket_is_found(socket_path: Path) -> None:
    assert await who_listens(socket_path) is None
    async with serve(socket_path, []):
        found = await who_listens(socket_path)
    assert found is not None
    assert (found.socket, found.pid) == (socket_path.name, os.getpid())
    assert await who_listens(socket_path) is None


async def test_its_command_is_told_and_cut(socket_path: Path) -> None:
    words = [sys.executable, "-c", LISTEN, str(socket_path), "x" * 200]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
            found = await who_listens(socket_path)
        finally:
            other.kill()
    assert found is not None
    assert found.pid == other.pid
    assert found.command.startswith(f"{sys.executable} -c ?import socket")
    assert len(found.command) == 120
    # Its socket is still there, and nobody listens.
    assert await who_listens(socket_path) is None


async def test_one_that_does_not_accept_counts_as_listening(socket_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as first:
        busy.bind(str(socket_path))
        busy.listen(0)
        first.connect(str(socket_path))  # its queue is full now
        found = await who_listens(socket_path)
    assert str(found) == "a process that does not answer"
