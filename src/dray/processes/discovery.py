"""One look at a machine through every driver: what `dray devices` shows."""

from __future__ import annotations

from dray.drivers.contract import Discovery, Driver
from dray.drivers.generic.discover import GenericDriver
from dray.hardware.host_root import open_host_root


def drivers() -> tuple[Driver, ...]:
    """The kinds this version knows, in the order they are shown."""
    return (GenericDriver(),)


def discover(host_root: str) -> Discovery:
    """All devices below `host_root`; InvalidError if there is no such directory."""
    root = open_host_root(host_root)
    looks = [driver.discover(root) for driver in drivers()]
    return Discovery(
        tuple(device for look in looks for device in look.devices),
        tuple(problem for look in looks for problem in look.problems),
        tuple(place for look in looks for place in look.looked_at),
    )
