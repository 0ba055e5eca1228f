"""NVIDIA GPUs: whole cards, parts of them (MIG), and cards for VMs, for device plugins and for claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dray.api.field_errors import Path
from dray.drivers.contract import Asked, Device, Discovery, Prepared
from dray.drivers.nvidia.config import NvidiaConfig
from dray.drivers.nvidia.discover import discover, still, without_driver
from dray.drivers.nvidia.mig import leftovers, read_instances
from dray.drivers.nvidia.monitor import Monitor
from dray.drivers.nvidia.names import KIND
from dray.drivers.nvidia.parameters import check_parameters
from dray.drivers.nvidia.prepare import prepare, prepare_claim, release_claim
from dray.drivers.nvidia.validation import validate_nvidia
from dray.errors import InvalidError, UnavailableError
from dray.hardware.change import HostChange
from dray.hardware.host_root import HostRoot, Place
from dray.hardware.nvml.library import LIBRARY, find_library, has_driver
from dray.hardware.nvml.protocol import OpenNvml
from dray.hardware.nvml.session import open_nvml
from dray.runtime.clock import Clock

_AGAIN = 30.0
"""Seconds until a driver that is not there is asked again."""
_GRACE = 60.0
"""Seconds. NVML takes long while cards are busy, or wake up; one that hangs takes longer."""
_SOON = 1.0
_SILENT = "NVML does not answer: a GPU may hang (see the kernel's log, lines with NVRM)"


@dataclass(frozen=True, slots=True)
class NvidiaDriver:
    """The GPUs that NVIDIA's driver has. Equal configs make equal drivers; `monitor` keeps NVML open between looks."""

    config: NvidiaConfig = field(hash=False)
    monitor: Monitor = field(compare=False, repr=False)
    open_session: OpenNvml = field(default=open_nvml, compare=False, repr=False)
    kind: str = KIND

    def discover(self, root: Place, known: Sequence[Device] = ()) -> Discovery:
        """Cards and parts with their health, as NVML tells; on a machine without NVIDIA's driver nothing, and no problem.

        Known devices stay, unhealthy, while the driver says no. Where it says nothing, for a while they stay as they are.
        """
        if not self._is_wanted(root, known):
            return Discovery((), (), (LIBRARY,))
        try:
            seen = self.monitor.look(root, self.config)
        except UnavailableError as error:
            return without_driver(self.config, root, str(error), known, _AGAIN)
        if seen is not None:
            return discover(self.config, root, seen, known)
        if self.monitor.waiting < _GRACE:
            return still(known, _SILENT, _SOON)
        return without_driver(self.config, root, _SILENT, known, _SOON)

    def prepare(self, resource: str, devices: Sequence[Device]) -> Prepared:
        """By the strategies of the config."""
        return prepare(self.config, resource, devices)

    def check_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Those of NVIDIA's own driver."""
        check_parameters(parameters)

    def prepare_claim(self, asked: Asked) -> Prepared:
        """Nodes and libraries; MIG devices are made and cards are rebound where the devices are such."""
        return prepare_claim(self.config, asked, self.open_session)

    def release_claim(self, asked: Asked) -> tuple[HostChange, ...]:
        """What was made for the claim is taken away."""
        return release_claim(asked)

    def leftovers(self, root: HostRoot, held: Sequence[Device]) -> tuple[HostChange, ...]:
        """MIG devices that nobody has, where they are made for claims."""
        if not self.config.dynamic_mig or not self._is_wanted(root, ()):
            return ()
        with self.open_session(root) as nvml:
            return leftovers(read_instances(nvml), held)

    def _is_wanted(self, root: Place, known: Sequence[Device]) -> bool:
        if self.config.enabled is not None:
            return self.config.enabled
        return bool(known) or has_driver(root) or find_library(root) is not None


def nvidia_driver(
    config: NvidiaConfig, clock: Clock, *, monitor: Monitor | None = None, open_session: OpenNvml = open_nvml
) -> NvidiaDriver:
    """The driver for a config; InvalidError has all faults in `causes`.

    Who makes a driver anew for a changed config passes the old one's monitor on, so that no error of a card is missed.
    """
    if faults := validate_nvidia(config, Path()):
        text = "; ".join(str(fault) for fault in faults)
        raise InvalidError(f"NVIDIA GPUs: {text}", field=faults[0].field, causes=tuple(faults))
    return NvidiaDriver(config, monitor or Monitor(clock, open_session), open_session)
