"""A machine with recorded GPUs, and a driver that looks at it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dray.drivers.contract import Device, Discovery
from dray.drivers.nvidia import NvidiaDriver, nvidia_driver
from dray.drivers.nvidia.config import NvidiaConfig
from dray.hardware.host_root import HostRoot
from dray.runtime.clock import FakeClock
from dray.testing.host import Host
from dray.testing.nvml.machine import GpuMachine, recording


@dataclass
class Watched:
    """The machine, the driver, and the devices of its last look."""

    machine: GpuMachine
    root: HostRoot
    clock: FakeClock
    driver: NvidiaDriver
    devices: tuple[Device, ...] = ()

    def look(self) -> Discovery:
        """Once more, with what the last look found as known."""
        found = self.driver.discover(self.root, self.devices)
        self.devices = found.devices
        return found

    def named(self, name: str) -> Device:
        """A device of the last look."""
        return next(device for device in self.devices if device.name == name)

    @property
    def names(self) -> list[str]:
        return [device.name for device in self.devices]


def watched(directory: Path, name: str, **config: Any) -> Watched:
    """The machine of a recording, looked at once."""
    machine = GpuMachine(Host(directory), recording(name))
    clock = FakeClock()
    driver = nvidia_driver(NvidiaConfig(**config), clock, open_session=machine.cards.open)
    found = Watched(machine, HostRoot(directory), clock, driver)
    found.look()
    return found
