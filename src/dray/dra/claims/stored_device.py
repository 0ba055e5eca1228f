"""A device as the checkpoint keeps it: what a driver needs to undo a claim after the device is gone."""

from __future__ import annotations

import msgspec

from dray.api.resource.slice import DeviceCapacity, DeviceCounterConsumption
from dray.drivers.contract import Device, Health


class StoredDevice(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts of `Device`. Left out: health, taints, watches and upkeep, which are of one moment."""

    id: str
    kind: str
    resource: str = ""
    label: str = ""
    numa_node: int | None = None
    iommu_group: int | None = None
    pcie_root: str | None = None
    attributes: dict[str, str | int | bool] = {}
    paths: tuple[str, ...] = ()
    shares: int | None = None
    addresses: tuple[str, ...] = ()
    permissions: str = "mrw"
    open_first: bool = False
    name: str = ""
    versions: dict[str, str] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes: tuple[DeviceCounterConsumption, ...] = ()
    hardware: tuple[str, ...] = ()


_FIELDS = tuple(field.name for field in msgspec.structs.fields(StoredDevice))
_MAPS = ("attributes", "versions", "capacity")


def store(device: Device) -> StoredDevice:
    """What to keep of it."""
    facts = {name: getattr(device, name) for name in _FIELDS}
    return StoredDevice(**{**facts, **{name: dict(facts[name]) for name in _MAPS}})


def restore(stored: StoredDevice) -> Device:
    """The device as it was prepared. Nobody has looked at it since."""
    facts = {name: getattr(stored, name) for name in _FIELDS}
    return Device(health=Health.UNHEALTHY, reason="as it was when it was prepared", **facts)
