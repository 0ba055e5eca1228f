"""USB devices that a VM gets: alone, or several as a set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dray.drivers.contract import Device, Discovery, Prepared
from dray.drivers.usb.config import UsbConfig
from dray.drivers.usb.discover import KIND, discover
from dray.drivers.usb.prepare import prepare
from dray.hardware.host_root import Place


@dataclass(frozen=True, slots=True)
class UsbDriver:
    """Sets of USB devices by what they are and where they are plugged."""

    config: UsbConfig = field(default_factory=UsbConfig)
    kind: str = KIND

    def discover(self, root: Place, known: Sequence[Device] = ()) -> Discovery:
        """The sets that can be made of what is plugged; those in `known` first."""
        return discover(self.config, root, known)

    def prepare(self, resource: str, devices: Sequence[Device]) -> Prepared:
        """The nodes, given to QEMU's user, and their bus and device numbers."""
        return prepare(resource, devices)
