"""The devices of one hollow node, as its drivers would find them. Pure, and the same for the same profile after a restart.

Partitions have the names, counters and attributes that NVIDIA's driver gives MIG devices: `gpu-0-mig-1g18gb-19-2` draws its
capacities and its own memory slices from the counter set of its card, and the card as a whole draws all of it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dray.api.quantity import Quantity
from dray.api.resource.slice import Counter, CounterSet, DeviceCapacity, DeviceCounterConsumption
from dray.api.taints import DeviceTaint
from dray.drivers.contract import Device, Health
from dray.drivers.sim.discover import KIND
from dray.drivers.sim.profile import (
    SIMULATED,
    HollowDevices,
    HollowFault,
    HollowGroup,
    HollowPartition,
)

PCI_BUSES: Final = 256
_PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_DNS, "hollow.dray.internal")
_HUMP: Final = re.compile(r"([A-Z])", re.ASCII)
_ONE: Final = Counter(value=Quantity("1"))
_FAULT: Final = "simulated fault"
Value = str | int | bool


@dataclass(frozen=True, slots=True)
class HollowPool:
    """What one driver publishes on one node; a pool has the node's name."""

    driver: str
    devices: tuple[Device, ...]
    counters: tuple[CounterSet, ...] = ()


def hollow_pools(group: HollowGroup, number: int) -> tuple[HollowPool, ...]:
    """Of node `number` of the group, by driver."""
    faults = {fault.device: fault for fault in group.faults if fault.is_on(number)}
    devices: dict[str, list[Device]] = {entry.driver: [] for entry in group.devices}
    counters: dict[str, list[CounterSet]] = {entry.driver: [] for entry in group.devices}
    for position, entry in enumerate(group.devices):
        for index in range(entry.count):
            card = _Card(entry, position, index, group.node_name(number), faults)
            devices[entry.driver] += card.devices()
            counters[entry.driver] += [card.counter_set()] if entry.partitions else []
    return tuple(
        HollowPool(driver, tuple(devices[driver]), tuple(counters[driver])) for driver in sorted(devices)
    )


def partition_name(device: str, partition: HollowPartition, start: int) -> str:
    """In a slice, as NVIDIA's driver names them."""
    plain = re.sub(r"[^a-z0-9-]", "-", partition.profile.lower().replace(".", "")).strip("-")
    return f"{device}-{partition.type}-{plain}-{partition.id}-{start}"


@dataclass(frozen=True, slots=True)
class _Card:
    """One device on its way, and all that it can be cut into. `position` is that of its entry."""

    entry: HollowDevices
    position: int
    index: int
    node: str
    faults: Mapping[str, HollowFault]

    @property
    def name(self) -> str:
        return f"{self.entry.name}-{self.index}"

    @property
    def uuid(self) -> str:
        return f"GPU-{uuid.uuid5(_NAMESPACE, f'{self.node}/{self.entry.driver}/{self.name}')}"

    def devices(self) -> Iterator[Device]:
        whole: dict[str, Value] = {"uuid": self.uuid}
        taken = self._takes(self.entry.capacity, range(self.entry.memory_slices))
        yield self._device(self.name, whole, self.entry.capacity, taken)
        for partition in self.entry.partitions:
            for start in partition.starts:
                own: dict[str, Value] = {
                    "parentUUID": self.uuid,
                    "profile": partition.profile,
                    "type": partition.type,
                }
                slices = range(start, start + partition.slices)
                taken = self._takes(partition.capacity, slices)
                yield self._device(
                    partition_name(self.name, partition, start), own, partition.capacity, taken
                )

    def counter_set(self) -> CounterSet:
        counters = _counters(self.entry.capacity, range(self.entry.memory_slices))
        return CounterSet(name=self._counters_name, counters=counters)

    @property
    def _counters_name(self) -> str:
        return f"{self.name}-counter-set"

    def _takes(self, amounts: Mapping[str, Quantity], slices: range) -> tuple[DeviceCounterConsumption, ...]:
        if not self.entry.partitions:
            return ()
        counters = _counters(amounts, slices)
        return (DeviceCounterConsumption(counter_set=self._counters_name, counters=counters),)

    def _device(
        self,
        name: str,
        own: Mapping[str, Value],
        amounts: Mapping[str, Quantity],
        consumes: tuple[DeviceCounterConsumption, ...],
    ) -> Device:
        fault = self.faults.get(name) or self.faults.get(self.name)
        reason = "" if fault is None else fault.reason or ("" if fault.taints else _FAULT)
        return Device(
            id=name,
            kind=KIND,
            resource="",
            health=Health.UNHEALTHY if reason else Health.HEALTHY,
            reason=reason,
            label=self.entry.product,
            numa_node=self._spread(self.entry.numa_nodes),
            pcie_root=self._pcie_root(),
            attributes={**self._attributes(), **own},
            name=name,
            versions=self.entry.versions,
            capacity={key: DeviceCapacity(value=amount) for key, amount in sorted(amounts.items())},
            consumes=consumes,
            taints=() if fault is None else tuple(
                DeviceTaint(key=one.key, value=one.value, effect=one.effect) for one in fault.taints
            ),
        )  # fmt: skip

    def _attributes(self) -> dict[str, Value]:
        found: dict[str, Value] = {
            key: value.replace("{node}", self.node) if isinstance(value, str) else value
            for key, value in self.entry.attributes.items()
        }
        if self.entry.product:
            found["productName"] = self.entry.product
        if self.entry.pcie_roots:
            found[_PCI_BUS_ID] = self._bus_id()
        return {**found, SIMULATED: True}

    def _spread(self, places: int) -> int | None:
        """In blocks, as slots are: of eight over two nodes the first four sit together."""
        return self.index * places // self.entry.count if places else None

    def _root_bus(self) -> int:
        return (self._spread(self.entry.pcie_roots) or 0) * (PCI_BUSES // max(self.entry.pcie_roots, 1))

    def _pcie_root(self) -> str | None:
        """Entries with equally many roots share them: a GPU and a network card can be on one."""
        return f"pci0000:{self._root_bus():02x}" if self.entry.pcie_roots else None

    def _bus_id(self) -> str:
        """The entry has a bus of its own below each root, on which its devices are numbered."""
        here = self._spread(self.entry.pcie_roots) or 0
        first = -(-here * self.entry.count // self.entry.pcie_roots)
        return f"0000:{self._root_bus() + 1 + self.position:02x}:{self.index - first:02x}.0"


def _counters(amounts: Mapping[str, Quantity], slices: range) -> dict[str, Counter]:
    """Capacities by their counters' names (`copyEngines` is `copy-engines`), and one counter for each memory slice."""
    found = {
        _HUMP.sub(lambda one: f"-{one[1].lower()}", name): Counter(value=amount)
        for name, amount in amounts.items()
    }
    found |= {f"memory-slice-{number}": _ONE for number in slices}
    return dict(sorted(found.items()))
