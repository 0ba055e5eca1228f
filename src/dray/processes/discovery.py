"""One look at a machine through every driver: what `dray devices` shows."""

from __future__ import annotations

from pathlib import Path

from dray.drivers.contract import Discovery, Driver
from dray.drivers.generic import GenericDriver
from dray.hardware.host_root import open_host_root
from dray.processes.agent_config import Served
from dray.processes.agent_config.config_file import ConfigFile
from dray.processes.kinds import Kinds
from dray.runtime.clock import SystemClock


def drivers(config: Path | None = None) -> tuple[Driver, ...]:
    """Those that find all there is, in the order they are shown; with a config, under the names it gives."""
    served = ConfigFile(config).load() if config is not None else Served()
    generic = () if config is not None else (GenericDriver(),)
    return (*generic, *Kinds(SystemClock()).drivers(served, everything=True))


def discover(host_root: str, config: Path | None = None) -> Discovery:
    """All devices below `host_root`; InvalidError if there is no such directory, or if the config is wrong."""
    wanted = drivers(config)
    with open_host_root(host_root).sweep() as sweep:
        looks = [driver.discover(sweep) for driver in wanted]
    problems = dict.fromkeys(problem for look in looks for problem in look.problems)
    return Discovery(
        tuple(device for look in looks for device in look.devices),
        tuple(problems),
        tuple(place for look in looks for place in look.looked_at),
        tuple(sorted({place for look in looks for place in look.watch})),
    )
