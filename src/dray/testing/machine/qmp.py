"""QEMU's own control socket: one JSON line a command, answers and events in between."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

from dray.errors import InvalidError, UnavailableError

_TIMEOUT_S = 30.0


class Qmp:
    """One connection, which it owns; used by one thread at a time."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._pending = b""
        self._events: list[dict[str, Any]] = []
        self._receive(time.monotonic() + _TIMEOUT_S)  # the greeting
        self.execute("qmp_capabilities")

    def execute(self, command: str, **arguments: Any) -> Any:
        """Run a command; InvalidError with QEMU's reason where it refuses."""
        line = json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n"
        try:
            self._socket.sendall(line)
        except OSError as error:
            raise UnavailableError(f"QEMU is gone: {error}") from error
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            said = self._receive(deadline)
            if "event" in said:
                self._events.append(said)
            elif "error" in said:
                raise InvalidError(f"QEMU refused {command}: {said['error']['desc']}")
            else:
                return said["return"]

    def wait_event(self, name: str, is_it: Callable[[dict[str, Any]], bool], timeout: float) -> None:
        """Wait for an event whose data fit; one that came since the last `forget_events` counts."""
        deadline = time.monotonic() + timeout
        while True:
            for event in self._events:
                if event["event"] == name and is_it(event.get("data", {})):
                    self._events.remove(event)
                    return
            said = self._receive(deadline)
            self._events.append(said)

    def forget_events(self) -> None:
        """Drop events that nobody waited for."""
        self._events.clear()

    def close(self) -> None:
        """Close the connection; QEMU runs on."""
        self._socket.close()

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\n" not in self._pending:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError as error:
                raise UnavailableError("QEMU does not answer on its control socket.") from error
            if not data:
                raise UnavailableError("QEMU has closed its control socket.")
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer
