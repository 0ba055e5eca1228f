"""What the sim kind serves. These structs are `dray.sim` of the agent's file too, so every field has a default."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from dray.api.meta import Int64, Model
from dray.api.quantity import Quantity

DEFAULT_NODE: Final = "/dev/null"


class Shape(StrEnum):
    """What a simulated device looks like."""

    GPU = "gpu"
    NIC = "nic"
    USB = "usb"


class Action(StrEnum):
    """What happens right before a container starts."""

    RESET = "reset"
    FAIL = "fail"
    HANG = "hang"


class SimPreStart(Model, frozen=True, kw_only=True):
    """Happens at each start of a container: to every device, or to `device` alone; with `times` that often to each.

    `seconds` is how long it takes. A hang ends with the call and not before.
    """

    action: str = ""
    seconds: float = 0.0
    device: str = ""
    times: Int64 | None = None


class SimPolicy(Model, frozen=True, kw_only=True):
    """How much of a capacity one claim may take: `min` and steps from there up to `max`; `default` where it does not say.

    Without `min` it is one step, without `step` any amount.
    """

    default: Quantity | None = None
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class SimPartition(Model, frozen=True, kw_only=True):
    """A device can be cut into `count` of these. They lie one after the other from the start of its memory."""

    profile: str = ""
    count: Int64 = 1
    memory: Quantity | None = None


class SimDevices(Model, frozen=True, kw_only=True):
    """`count` equal devices, `<name>-0` and so on. `shares` None: one owner at a time.

    `numa_nodes` and `pcie_roots` say over how many of them the devices are spread, in blocks; 0: they tell nothing of
    it; None: as the shape has it. `attributes`, `versions` and `capacity` replace those of the shape. `node` stands for
    every device. Of what is in `shared` claims take parts, so that several use the device. Partitions are for DRA alone.
    """

    name: str = ""
    shape: str = Shape.GPU.value
    count: Int64 = 1
    resource_name: str = ""
    shares: Int64 | None = None
    numa_nodes: Int64 | None = None
    pcie_roots: Int64 | None = None
    attributes: dict[str, str | bool | Int64] = msgspec.field(default_factory=dict)
    node: str = DEFAULT_NODE
    pre_start: SimPreStart | None = None
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)
    shared: dict[str, SimPolicy] = msgspec.field(default_factory=dict)
    partitions: tuple[SimPartition, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the whole devices, in order."""
        return tuple(f"{self.name}-{index}" for index in range(self.count))

    def has(self, device_id: str) -> bool:
        """Whether a device or partition of this id is among them, whatever the number of them."""
        head, _, index = device_id.rpartition("-")
        if head == self.name:
            return _is_below(index, self.count)
        for one in self.partitions:
            name, _, number = head.removesuffix(f"-{one.profile}").rpartition("-")
            is_partition = head.endswith(f"-{one.profile}") and name == self.name
            if is_partition and _is_below(number, self.count) and _is_below(index, one.count):
                return True
        return False


def _is_below(text: str, count: int) -> bool:
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(count))
    return is_number and text == str(int(text)) and int(text) < count


class SimTaint(Model, frozen=True, kw_only=True):
    """What DRA is told of a device while a fault is there."""

    key: str = ""
    value: str = ""
    effect: str = ""


class SimFault(Model, frozen=True, kw_only=True):
    """A device that is not healthy, or with `gone` not there: for some time, or while a file is there.

    One with `taints` is healthy all the same, unless `health` says otherwise. What a device has, its partitions have.
    Times count from the start of the agent: after `after_seconds`, for `for_seconds` (None: for good), again every
    `every_seconds` (None: once).
    """

    device: str = ""
    after_seconds: float | None = None
    for_seconds: float | None = None
    every_seconds: float | None = None
    while_file: str = ""
    health: str = ""
    reason: str = ""
    gone: bool = False
    taints: tuple[SimTaint, ...] = ()


class SimConfig(Model, frozen=True, kw_only=True):
    """All of them; none by default."""

    devices: tuple[SimDevices, ...] = ()
    faults: tuple[SimFault, ...] = ()

    def only(self, entries: tuple[SimDevices, ...]) -> SimConfig:
        """Some of the entries, with the faults of their devices."""
        faults = tuple(fault for fault in self.faults if any(entry.has(fault.device) for entry in entries))
        return SimConfig(devices=entries, faults=faults)


def resource_of(entry: SimDevices, domain: str) -> str:
    """The resource that the devices are served as."""
    return entry.resource_name or f"{domain}/sim-{entry.name}"


def partition_resource(resource: str, profile: str) -> str:
    """What the partitions of a profile are called; no device plugin serves them."""
    return f"{resource}-{profile}"


def named(config: SimConfig, domain: str) -> SimConfig:
    """The same config with a resource name in every entry."""
    entries = (replace(entry, resource_name=resource_of(entry, domain)) for entry in config.devices)
    return replace(config, devices=tuple(entries))
