"""Devices that are one node in /dev and can be shared: /dev/kvm, /dev/net/tun and their like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dray.drivers.contract import Device, Discovery, Prepared
from dray.drivers.generic.config import GenericConfig
from dray.drivers.generic.discover import KIND, discover
from dray.drivers.generic.prepare import prepare
from dray.hardware.host_root import Place


@dataclass(frozen=True, slots=True)
class GenericDriver:
    """Nodes by name."""

    config: GenericConfig = field(default_factory=GenericConfig)
    kind: str = KIND

    def discover(self, root: Place, known: Sequence[Device] = ()) -> Discovery:
        """The nodes that the config names, there or not."""
        return discover(self.config, root)

    def prepare(self, resource: str, devices: Sequence[Device]) -> Prepared:
        """The nodes."""
        return prepare(devices)
