"""The two DRA drivers: how each is started, and found as a kubelet finds it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dray.api.kinds import RESOURCE_SLICES
from dray.api.resource import ResourceSlice
from dray.client.client import Client, Watch
from dray.client.requests import Selection
from dray.client.store import Entry
from dray.errors import UnavailableError
from dray.runtime.clock import SystemClock
from dray.semantics.pools import is_complete, newest
from dray.testing.check.driver.pod_resources import pod_resources
from dray.testing.check.program import wait_until
from dray.testing.check.registry import get_info, notify, registration_sockets
from dray.testing.kubernetes.part import Part

NODE: Final = "bench"
OURS: Final = "sim.dray.internal"
THEIRS: Final = "test-driver.cdi.k8s.io"
PEER: Final = "Go test-driver"
_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Place:
    """Directories of one driver: `disk` has what a node has below /var/lib, `memory` what it has below /run."""

    disk: Path
    memory: Path
    kubeconfig: Path

    def make(self) -> None:
        """All of them."""
        for directory in (self.registry, self.plugins, self.memory):
            directory.mkdir(parents=True, exist_ok=True)

    @property
    def kubelet(self) -> Path:
        """The root directory of a kubelet."""
        return self.disk / "kubelet"

    @property
    def registry(self) -> Path:
        """Where a kubelet looks for drivers."""
        return self.kubelet / "plugins_registry"

    @property
    def plugins(self) -> Path:
        """Where drivers have their data."""
        return self.kubelet / "plugins"


@dataclass(frozen=True, slots=True)
class DriverProgram:
    """A driver that can be started."""

    label: str
    driver: str
    place: Place
    command: Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class RunningDriver:
    """One that is registered and has published. `first_slice`: seconds from the start of the process to its slices."""

    program: DriverProgram
    pid: int
    endpoint: Path
    devices: tuple[str, ...]
    first_slice: float


def our_driver(place: Place, sim: Mapping[str, Any]) -> DriverProgram:
    """`dray agent` with simulated devices, offered through DRA alone."""
    place.make()
    config = place.disk / "agent.json"
    config.write_text(json.dumps({"dray": {"doors": {"sim": "dra"}, "sim": sim}}))
    flags = {
        "config": config,
        "kubeconfig": place.kubeconfig,
        "node-name": NODE,
        "kubelet-dir": place.kubelet,
        "device-plugin-dir": place.kubelet / "device-plugins",
        "state-dir": place.disk / "state",
        "cdi-dir": place.memory,
        "metrics-address": "none",
    }
    words = [f"--{name}={value}" for name, value in flags.items()]
    return DriverProgram("Dray", OURS, place, [sys.executable, "-m", "dray", "agent", *words])


def go_driver(place: Place, program: Path, devices: int) -> DriverProgram:
    """The one of Kubernetes' own tests, with device metadata as ours. Its client may ask as often as it likes.

    It writes metadata to /var/run/cdi whatever it is told: root gives it a /run of its own.
    """
    place.make()
    (place.plugins / THEIRS).mkdir(exist_ok=True)
    flags = {
        "kubeconfig": place.kubeconfig,
        "node-name": NODE,
        "plugin-registration-path": place.registry,
        "datadir": place.plugins,
        "cdi-dir": place.memory,
        "num-devices": devices,
        "enable-device-metadata": "true",
        "kube-api-qps": 100000,
        "kube-api-burst": 100000,
    }
    words = [f"--{name}={value}" for name, value in flags.items()]
    own_run = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /run && exec "$@"', "sh"]
    command: list[str | Path] = [*(own_run if os.geteuid() == 0 else []), program, "kubelet-plugin", *words]
    return DriverProgram(PEER, THEIRS, place, command)


@asynccontextmanager
async def running_driver(client: Client, program: DriverProgram) -> AsyncIterator[RunningDriver]:
    """Entered: started, published, registered. Left: it has ended, and its slices are gone, so the next one begins anew."""
    async with pod_resources(program.place.kubelet), _running(client, program) as driver:
        yield driver


@asynccontextmanager
async def _running(client: Client, program: DriverProgram) -> AsyncIterator[RunningDriver]:
    part = Part(
        program.driver, program.command, program.place.disk, {"PYTHONPATH": str(Path(__file__).parents[2])}
    )
    selection = Selection(fields=f"spec.driver={program.driver}")
    listed = await client.list_page(RESOURCE_SLICES, selection)
    try:
        async with client.watch(
            RESOURCE_SLICES, selection, resource_version=listed.resource_version
        ) as watch:
            began = time.perf_counter()
            part.start()
            try:
                async with asyncio.timeout(_SECONDS):
                    devices = await first_slices(watch)
                    published = time.perf_counter() - began
                    endpoint = await _register(program)
            except TimeoutError:
                text = f"{program.label} does not publish and register within {_SECONDS:g} s"
                raise UnavailableError(f"{text}; its log ends: {part.tail(3)}") from None
        yield RunningDriver(program, part.pid, endpoint, devices, published)
    finally:
        await asyncio.to_thread(part.stop, _STOP_SECONDS)
        for one in (await client.list(RESOURCE_SLICES, selection)).items:
            await client.delete(RESOURCE_SLICES, one.metadata.name)


async def first_slices(watch: Watch[ResourceSlice]) -> tuple[str, ...]:
    """The devices of the pool, when all its slices are there."""
    seen: dict[str, ResourceSlice] = {}
    async for event in watch:
        if not isinstance(event.item, Entry) or event.type == "DELETED":
            continue
        one = event.item.value
        seen[one.metadata.name] = one
        pool = newest(seen.values())
        devices = sorted(device.name for each in pool for device in each.spec.devices or ())
        if devices and is_complete(pool, pool[0].spec.pool):
            return tuple(devices)
    raise UnavailableError("the API server ended the watch before the slices came")


async def _register(program: DriverProgram) -> Path:
    """As a kubelet does: ask the socket who it is, and tell it that it is in."""
    registry = program.place.registry
    await wait_until(lambda: bool(registration_sockets(registry)), _SECONDS, SystemClock())
    socket, *_ = registration_sockets(registry)
    info = await get_info(socket)
    await notify(socket)
    return Path(info.endpoint) if info.endpoint else socket
