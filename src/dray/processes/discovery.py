"""One look at a machine through every driver: what `dray devices` shows."""

from __future__ import annotations

from dray.drivers.contract import Discovery, Driver
from dray.drivers.generic import GenericDriver
from dray.drivers.mdev import MdevDriver
from dray.drivers.mdev.config import MdevConfig
from dray.drivers.pci import PciDriver
from dray.drivers.pci.config import PciConfig
from dray.drivers.usb import UsbDriver
from dray.drivers.usb.config import UsbConfig
from dray.hardware.host_root import open_host_root


def drivers() -> tuple[Driver, ...]:
    """The kinds that need no config to find something, in the order they are shown."""
    return (
        GenericDriver(),
        PciDriver(PciConfig(everything=True)),
        MdevDriver(MdevConfig(everything=True)),
        UsbDriver(UsbConfig(everything=True)),
    )


def discover(host_root: str) -> Discovery:
    """All devices below `host_root`; InvalidError if there is no such directory."""
    with open_host_root(host_root).sweep() as sweep:
        looks = [driver.discover(sweep) for driver in drivers()]
    problems = dict.fromkeys(problem for look in looks for problem in look.problems)
    return Discovery(
        tuple(device for look in looks for device in look.devices),
        tuple(problems),
        tuple(place for look in looks for place in look.looked_at),
        tuple(sorted({place for look in looks for place in look.watch})),
    )
