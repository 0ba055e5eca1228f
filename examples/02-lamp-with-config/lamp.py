"""Lamps with health, parameters of claims, and something to do when a lamp is given out and given back."""

from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from dray.sdk import Config, Device, Driver, Edits, Host, Request, run


class LampConfig(Config):
    """What a claim may say."""

    brightness: Annotated[int, Meta(ge=1, le=100)] = 50
    max_watts: int = 60

    def __post_init__(self) -> None:
        """A rule on two fields."""
        if self.brightness > 80 and self.max_watts < 100:
            raise ValueError("a brightness above 80 needs maxWatts of 100 or more")


class Lamps(Driver):
    """A lamp is a directory: `state` says how it is, `level` how bright it shines."""

    name = "lamp.example.com"
    resource = "example.com/lamp"
    contract = 1
    config = LampConfig
    poll = 1.0

    def discover(self, host: Host) -> Iterator[Device]:
        """One device for each directory with a level in it."""
        for path in host.glob("/var/lib/lamps/*/level"):
            lamp = path.removesuffix("/level")
            yield Device(lamp.rpartition("/")[2], mounts=[lamp], capacity={"watts": "100"})

    def health(self, host: Host, device: Device) -> str:
        """The kubelet takes a lamp back that is not well, and gives it out again when it is."""
        state = host.read_text(f"{device.mounts[0]}/state")
        return "" if state == "ok" else f"the lamp says: {state}"

    def prepare(self, request: Request[LampConfig]) -> Edits:
        """Light the lamps, and tell the container how bright they are."""
        self._set(request, request.config.brightness)
        edits = request.edits()
        level = {request.variable("LAMP_LEVEL"): str(request.config.brightness)}
        return Edits(env={**edits.env, **level}, mounts=edits.mounts)

    def release(self, request: Request[LampConfig]) -> None:
        """Out. It may be called twice, and for a lamp that is gone."""
        self._set(request, 0)

    def pre_start(self, request: Request[LampConfig]) -> None:
        """A device plugin is never told that a container ended: the next one begins with the default."""
        self._set(request, request.config.brightness)

    def _set(self, request: Request[LampConfig], level: int) -> None:
        for device in request.devices:
            path = request.host.path(f"{device.mounts[0]}/level")
            if path.exists():
                path.write_text(f"{level}\n")


if __name__ == "__main__":
    run(Lamps())
