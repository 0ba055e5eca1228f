"""A `--sim` profile: simulated devices of this machine, and hollow nodes with the devices that they seem to have.

These structs are the YAML of a profile too, so every field has a default; `profile_validation` says what is missing.
"""

from __future__ import annotations

from typing import Final

import msgspec

from dray.api.meta import Int64, Model
from dray.api.quantity import Quantity
from dray.drivers.sim.config import SimConfig, SimTaint

HOLLOW_LABEL: Final = "dray.internal/hollow"
"""On every Node and ResourceSlice of a fleet, with the value `true`: what has it is the fleet's to change and to remove."""
SIMULATED: Final = "simulated"
"""The attribute of every device of a hollow node."""


class HollowPartition(Model, frozen=True, kw_only=True):
    """What each device of an entry can be cut into: one partition for each of `starts`, of `slices` memory slices.

    `id` is the number that NVIDIA gives the profile; it is part of the names.
    """

    profile: str = ""
    id: Int64 = 0
    type: str = "mig"
    starts: tuple[Int64, ...] = ()
    slices: Int64 = 1
    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)


class HollowDevices(Model, frozen=True, kw_only=True):
    """`count` equal devices of each node, `<name>-0` and so on, that a DRA driver seems to publish.

    They are spread over NUMA nodes and PCIe roots in blocks; 0: they tell nothing of it. `product` is the attribute
    `productName`. In a text of `attributes` the node's name takes the place of `{node}`. With partitions the memory is cut into
    `memory_slices`, and what overlaps is never given together.
    """

    driver: str = ""
    name: str = "gpu"
    count: Int64 = 1
    product: str = ""
    attributes: dict[str, str | bool | Int64] = msgspec.field(default_factory=dict)
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)
    numa_nodes: Int64 = 0
    pcie_roots: Int64 = 0
    memory_slices: Int64 = 0
    partitions: tuple[HollowPartition, ...] = ()


class HollowFault(Model, frozen=True, kw_only=True):
    """A device that is not healthy, or with `taints` alone tainted: on node `first` of the group and every `every`-th after.

    `every` 0: on that node alone. What a device has, its partitions have.
    """

    device: str = ""
    first: Int64 = 0
    every: Int64 = 0
    reason: str = ""
    taints: tuple[SimTaint, ...] = ()

    def is_on(self, number: int) -> bool:
        """Whether node `number` of the group has it."""
        return number == self.first or (
            self.every > 0 and number > self.first and (number - self.first) % self.every == 0
        )


class HollowGroup(Model, frozen=True, kw_only=True):
    """`count` equal nodes, `<name>-0` and so on, with leading zeros where there are more than ten.

    `zones` are given in turn. `capacity` replaces and adds to what every hollow node has. `resources` are what device
    plugins seem to count: other devices than those of `devices`, which are DRA's.
    """

    name: str = ""
    count: Int64 = 1
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    zones: tuple[str, ...] = ()
    capacity: dict[str, Quantity] = msgspec.field(default_factory=dict)
    resources: dict[str, Int64] = msgspec.field(default_factory=dict)
    devices: tuple[HollowDevices, ...] = ()
    faults: tuple[HollowFault, ...] = ()

    def node_name(self, number: int) -> str:
        """Of node `number`; names of a group sort as their numbers do."""
        return f"{self.name}-{number:0{len(str(self.count - 1))}d}"

    def zone(self, number: int) -> str:
        """Of node `number`; empty without zones."""
        return self.zones[number % len(self.zones)] if self.zones else ""


class HollowClass(Model, frozen=True, kw_only=True):
    """A DeviceClass that comes with the drivers, as their Helm charts would make it."""

    name: str = ""
    expression: str = ""


class SimProfile(Model, frozen=True, kw_only=True):
    """All of it; nothing by default. `local` is `dray.sim` of the agent's file, for the node that runs containers."""

    description: str = ""
    local: SimConfig = SimConfig()
    classes: tuple[HollowClass, ...] = ()
    groups: tuple[HollowGroup, ...] = ()

    @property
    def node_count(self) -> int:
        """How many hollow nodes there are."""
        return sum(group.count for group in self.groups)
