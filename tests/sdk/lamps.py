"""Drivers to try things on, and a machine with lamps."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dray.sdk import Config, Device, Driver, Edits, Host, Request


class LampConfig(Config):
    brightness: int = 50
    max_watts: int = 60


class PlainLamps(Driver):
    """All defaults."""

    name = "lamp.example.com"
    resource = "example.com/lamp"

    def discover(self, host: Host) -> Iterable[Device]:
        return [
            Device(path.rpartition("/")[2], nodes=[path], attributes={"model": "x1"})
            for path in host.glob("/dev/lamp*")
        ]


class Lamps(PlainLamps):
    """All that can be written, with a record of what was called. `fail` names a method that is to fail."""

    config = LampConfig
    poll = 0.5

    def __init__(self, fail: str = "", error: BaseException | None = None) -> None:
        self.fail = fail
        self.error = error or ValueError("the bulb is loose")
        self.calls: list[tuple[str, Request[Any] | None]] = []

    def _called(self, what: str, request: Request[Any] | None = None) -> None:
        self.calls.append((what, request))
        if what == self.fail:
            raise self.error

    def discover(self, host: Host) -> Iterable[Device]:
        self._called("discover")
        return super().discover(host)

    def health(self, host: Host, device: Device) -> str:
        self._called("health")
        return host.read_text(device.nodes[0])

    def prepare(self, request: Request[LampConfig]) -> Edits:
        self._called("prepare", request)
        edits = request.edits()
        return Edits(env={**edits.env, "LEVEL": str(request.config.brightness)}, nodes=edits.nodes)

    def release(self, request: Request[LampConfig]) -> None:
        self._called("release", request)

    def pre_start(self, request: Request[LampConfig]) -> None:
        self._called("pre_start", request)


def build_machine(path: Path, count: int = 2) -> Path:
    (path / "dev").mkdir(parents=True)
    for number in range(count):
        (path / f"dev/lamp{number}").touch()
    return path
