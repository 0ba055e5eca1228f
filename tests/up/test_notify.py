"""What systemd is told."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.up.notify import notify, supervisor_of
from tests.waiting import PATIENCE


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.settimeout(PATIENCE)
        yield made


def test_it_is_told_by_path(tmp_path: Path, listener: socket.socket) -> None:
    listener.bind(str(tmp_path / "n"))
    notify("READY=1", {"NOTIFY_SOCKET": str(tmp_path / "n")})
    assert listener.recv(100) == b"READY=1"


def test_it_is_told_by_abstract_name(listener: socket.socket) -> None:
    listener.bind("\0dray-test-notify")
    notify("STOPPING=1", {"NOTIFY_SOCKET": "@dray-test-notify"})
    assert listener.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize(
    "environment", [{}, {"NOTIFY_SOCKET": "relative"}, {"NOTIFY_SOCKET": "/nobody/here"}]
)
def test_where_nobody_listens_nothing_happens(environment: dict[str, str]) -> None:
    notify("READY=1", environment)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ""),
        ({"INVOCATION_ID": "x"}, ""),
        ({"INVOCATION_ID": "x", "NOTIFY_SOCKET": "/s"}, "systemd"),
        ({"INVOCATION_ID": "x", "NOTIFY_SOCKET": "/s", "DRAY_SUPERVISED": "1"}, "dray"),
    ],
)
def test_who_starts_it_again(environment: dict[str, str], expected: str) -> None:
    assert supervisor_of(environment) == expected
