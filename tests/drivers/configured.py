"""From the text of a configuration to the drivers behind its resources, and to their sockets."""

from __future__ import annotations

from dray.agent.config import load_agent_config, served
from dray.agent.kinds import Kinds, by_resource
from dray.drivers.contract import Driver
from dray.processes.agent import offers_of
from dray.runtime.clock import FakeClock

PLUGINS = "/var/lib/kubelet/device-plugins"


def drivers_by_resource(text: str) -> dict[str, Driver]:
    """As `dray agent` makes them from such a file."""
    wanted = served(load_agent_config(text, "config"))
    return dict(by_resource(wanted, Kinds(FakeClock()).drivers(wanted)))


def sockets_by_resource(drivers: dict[str, Driver]) -> dict[str, str]:
    return {offer.resource: offer.socket for offer in offers_of(drivers, drivers, PLUGINS)}
