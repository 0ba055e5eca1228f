"""QEMU's control socket, with the other end played line by line."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from dray.errors import InvalidError, UnavailableError
from dray.testing.machine.qmp import Qmp


class Qemu:
    """The other end: says its lines ahead of time, as the socket holds them."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.say({"QMP": {}}, {"return": {}})

    def say(self, *lines: dict[str, Any]) -> None:
        self.end.sendall(b"".join(json.dumps(line).encode() + b"\r\n" for line in lines))

    def heard(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.end.recv(65536).splitlines()]


@pytest.fixture
def ends() -> Iterator[tuple[Qmp, Qemu]]:
    ours, theirs = socket.socketpair()
    with theirs:
        qemu = Qemu(theirs)
        qmp = Qmp(ours)
        assert qemu.heard() == [{"execute": "qmp_capabilities", "arguments": {}}]
        yield qmp, qemu
        qmp.close()


def deleted(name: str) -> dict[str, Any]:
    return {"event": "DEVICE_DELETED", "data": {"device": name}}


def test_an_answer_comes_through_between_events(ends: tuple[Qmp, Qemu]) -> None:
    qmp, qemu = ends
    qemu.say({"event": "RESUME"}, {"return": {"status": "running"}})
    assert qmp.execute("query-status") == {"status": "running"}
    assert qemu.heard() == [{"execute": "query-status", "arguments": {}}]


def test_a_refusal_is_told(ends: tuple[Qmp, Qemu]) -> None:
    qmp, qemu = ends
    qemu.say({"error": {"class": "GenericError", "desc": "Bus 'hot0' not found"}})
    with pytest.raises(InvalidError, match="QEMU refused device_add: Bus 'hot0' not found"):
        qmp.execute("device_add", driver="e1000e", bus="hot0")


def test_an_event_counts_though_it_came_before_the_answer(ends: tuple[Qmp, Qemu]) -> None:
    qmp, qemu = ends
    qemu.say(deleted("other"), deleted("stick"), {"return": {}})
    qmp.execute("device_del", id="stick")
    qmp.wait_event("DEVICE_DELETED", lambda data: data["device"] == "stick", 1.0)
    qmp.forget_events()
    qemu.say(deleted("mouse"))
    qmp.wait_event("DEVICE_DELETED", lambda data: data["device"] == "mouse", 1.0)
    with pytest.raises(UnavailableError, match="does not answer"):
        qmp.wait_event("DEVICE_DELETED", lambda data: data["device"] == "other", 0.05)


def test_the_end_of_qemu_is_told(ends: tuple[Qmp, Qemu]) -> None:
    qmp, qemu = ends
    qemu.end.shutdown(socket.SHUT_RDWR)
    with pytest.raises(UnavailableError, match="QEMU"):
        qmp.execute("query-status")
