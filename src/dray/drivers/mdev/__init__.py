"""Mediated devices: slices of a card, made of a type that the card offers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dray.drivers.contract import Device, Discovery, Prepared
from dray.drivers.mdev.config import MdevConfig
from dray.drivers.mdev.discover import KIND, discover
from dray.drivers.mdev.prepare import prepare
from dray.hardware.host_root import Place


@dataclass(frozen=True, slots=True)
class MdevDriver:
    """Instances by their type."""

    config: MdevConfig = field(default_factory=MdevConfig)
    kind: str = KIND

    def discover(self, root: Place, known: Sequence[Device] = ()) -> Discovery:
        """The instances that were made, of the types that the config names."""
        return discover(self.config, root)

    def prepare(self, resource: str, devices: Sequence[Device]) -> Prepared:
        """VFIO's nodes, and the UUIDs."""
        return prepare(resource, devices)
