"""Simulated GPUs, network cards and USB devices, for demos and tests on machines that have none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dray.api.field_errors import Path
from dray.drivers.contract import Asked, Device, Discovery, Prepared
from dray.drivers.sim.claims import prepare_claim
from dray.drivers.sim.config import SimConfig
from dray.drivers.sim.discover import KIND, discover
from dray.drivers.sim.parameters import check_parameters
from dray.drivers.sim.pre_start import Record, pre_start
from dray.drivers.sim.prepare import prepare
from dray.drivers.sim.validation import validate_sim
from dray.errors import InvalidError
from dray.hardware.change import HostChange
from dray.hardware.host_root import Place
from dray.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class SimDriver:
    """Devices that are what the config says. Equal configs make equal drivers; `record` tells what happened to them."""

    config: SimConfig = field(hash=False)
    clock: Clock = field(compare=False, repr=False)
    record: Record = field(compare=False, repr=False)
    kind: str = KIND

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources for device plugins, sorted, also those whose devices are all gone now. Partitions have none."""
        return tuple(sorted({entry.resource_name for entry in self.config.devices}))

    def discover(self, root: Place, known: Sequence[Device] = ()) -> Discovery:
        """The devices as the faults leave them now; the host is asked for nodes and files alone."""
        return discover(self.config, root, self.clock.monotonic() - self.record.started)

    def prepare(self, resource: str, devices: Sequence[Device]) -> Prepared:
        """The nodes, and the ids."""
        return prepare(resource, devices)

    def check_parameters(self, parameters: Mapping[str, Any]) -> None:
        """`kind: SimConfig`, strictly."""
        check_parameters(parameters)

    def prepare_claim(self, asked: Asked) -> Prepared:
        """The same, and what the parameters say. Any driver of the kind answers for the devices of all."""
        return prepare_claim(asked)

    def release_claim(self, asked: Asked) -> tuple[HostChange, ...]:
        """Nothing: simulated devices leave no trace."""
        return ()


@dataclass(frozen=True, slots=True)
class SimPreStartDriver(SimDriver):
    """Those with something to do right before a container starts."""

    async def pre_start(self, resource: str, devices: Sequence[Device]) -> None:
        """Reset, fail (HardwareError) or hang until cancelled."""
        await pre_start(self.config, devices, self.record, self.clock)


def sim_drivers(config: SimConfig, clock: Clock, record: Record | None = None) -> tuple[SimDriver, ...]:
    """The drivers for a config: none, one, or two where some resources have a preStart and others do not.

    Every entry needs its resource name (`config.named`); InvalidError has all faults in `causes`. The faults' time
    begins with the record, by default now: who makes drivers anew for a changed config passes the old record on.
    """
    if faults := validate_sim(config, Path()):
        text = "; ".join(str(fault) for fault in faults)
        raise InvalidError(f"simulated devices: {text}", field=faults[0].field, causes=tuple(faults))
    record = record or Record(clock.monotonic())
    acting = {entry.resource_name for entry in config.devices if entry.pre_start}
    plain = tuple(entry for entry in config.devices if entry.resource_name not in acting)
    others = tuple(entry for entry in config.devices if entry.resource_name in acting)
    return (
        *((SimDriver(config.only(plain), clock, record),) if plain else ()),
        *((SimPreStartDriver(config.only(others), clock, record),) if others else ()),
    )
