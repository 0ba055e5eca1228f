"""The PCI bus: where functions lie, which drivers there are, and who gets which function."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from functools import partial

from dray.errors import ConflictError
from dray.testing.host.actions import Actions, refusal
from dray.testing.host.iommu import IommuGroups, Vfio
from dray.testing.host.pci import PciFunction, parse_number
from dray.testing.host.pci_files import bus_entries, is_vfio
from dray.testing.host.system import System
from dray.testing.host.tree import Attribute, Directory, Link, Tree, rw, wo

_BUS = "sys/bus/pci"


class PciBus:
    """All functions and drivers. Drivers are asked in the order they came, as the kernel does."""

    def __init__(self, tree: Tree, actions: Actions, groups: IommuGroups, vfio: Vfio, system: System) -> None:
        self.tree = tree
        self.actions = actions
        self.groups = groups
        self.vfio = vfio
        self.system = system
        self._functions: dict[str, PciFunction] = {}
        self._present: set[str] = set()
        self._removed: set[str] = set()
        self._ids: dict[str, set[str]] = {}
        self._last_driver: dict[str, str] = {}
        system.on_change = self._write_affinities
        actions.register(_BUS, {"drivers_probe": self._on_probe, "rescan": self._on_rescan})
        entries = {"drivers_autoprobe": rw(1), "drivers_probe": wo(), "rescan": wo(), "uevent": wo()}
        tree.place(_BUS, {**entries, "devices": Directory(), "drivers": Directory(), "slots": Directory()})

    def directory_of(self, function: PciFunction) -> str:
        """Beside its physical function, below its bridge, or on a root bus of its own."""
        facts = function.facts
        if function.physical is not None:
            return f"{function.physical.directory.rsplit('/', 1)[0]}/{facts.address}"
        for other in self._functions.values():
            if other.facts.secondary_bus is not None and facts.bus == _below(other):
                return f"{other.directory}/{facts.address}"
        return f"sys/devices/pci{facts.bus}/{facts.address}"

    def add(self, function: PciFunction, driver: str) -> None:
        """A new function of the machine. Its driver knows its id from now on, as if by its own table."""
        if function.address in self._functions:
            raise ConflictError(f"the host has a function at {function.address} already")
        self._functions[function.address] = function
        if driver:
            self.driver(driver, ids=[function.facts.id])
        self._appear(function)
        if driver:
            function.attach(driver)

    def driver(self, name: str, ids: Iterable[str] = ()) -> None:
        """Load a driver, once; `ids` are added to its table and nothing is probed."""
        if name not in self._ids:
            self._ids[name] = set()
            self._place_driver(name)
        self._ids[name].update(text.lower() for text in ids)

    def is_present(self, function: PciFunction) -> bool:
        """Whether the kernel knows it now."""
        return function.address in self._present

    def unplug(self, function: PciFunction) -> None:
        """The hardware is gone."""
        self._vanish(function)
        self._removed.discard(function.address)

    def remove(self, function: PciFunction) -> None:
        """The kernel forgets it; the hardware is still there for a rescan."""
        self._vanish(function)
        self._removed.add(function.address)

    def replug(self, function: PciFunction, driver: str | None) -> None:
        """The hardware is back. Does nothing while it is there."""
        if self._functions.get(function.address) is not function:
            raise ConflictError(
                f"{function.address} is a virtual function that was taken back: make it anew with vf()"
            )
        if function.address in self._present:
            return
        self._removed.discard(function.address)
        self._appear(function)
        wanted = self._last_driver.get(function.address, "") if driver is None else driver
        if wanted:
            self.driver(wanted)
            function.attach(wanted)

    def forget(self, function: PciFunction) -> None:
        """A virtual function that was taken back; the address may be used again."""
        del self._functions[function.address]

    def functions(self) -> list[PciFunction]:
        """All functions, by address, there or not."""
        return [self._functions[address] for address in sorted(self._functions)]

    def _appear(self, function: PciFunction) -> None:
        directory, group = function.directory, function.facts.iommu_group
        self._place_root_bus(function)
        if group is not None:
            self.groups.join(group, directory, behind_iommu=True)
        self.actions.register(directory, function.acts())
        self.tree.place(directory, function.entries())
        if function.facts.secondary_bus is not None:
            self._place_pci_bus(directory, _below(function))
        self.tree.link(f"{_BUS}/devices/{function.address}", directory)
        self._present.add(function.address)

    def _vanish(self, function: PciFunction) -> None:
        if function.address not in self._present:
            return
        for child in self.functions():
            if child.directory.startswith(f"{function.directory}/"):
                self._vanish(child)
        self._last_driver[function.address] = function.driver
        function.remove_vfs()
        function.unbind()
        self._present.discard(function.address)
        self.tree.remove(f"{_BUS}/devices/{function.address}")
        if function.facts.secondary_bus is not None:
            self.tree.remove(f"sys/class/pci_bus/{_below(function)}")
        self.actions.forget(function.directory)
        self.tree.remove(function.directory)
        if function.facts.iommu_group is not None:
            self.groups.leave(function.facts.iommu_group, function.directory)

    def _place_root_bus(self, function: PciFunction) -> None:
        root = "/".join(function.directory.split("/")[:3])
        if not self.tree.exists(root):
            self.tree.place(root, {"uevent": Attribute("", 0o644)})
            self._place_pci_bus(root, root.rsplit("/pci", 1)[-1])

    def _place_pci_bus(self, owner: str, name: str) -> None:
        cpus = self.system.cpus_near(-1)
        directory = f"{owner}/pci_bus/{name}"
        self.tree.place(directory, bus_entries(owner, cpus, self.system.mask(cpus)))
        self.tree.link(f"sys/class/pci_bus/{name}", directory)

    def _place_driver(self, name: str) -> None:
        directory = f"{_BUS}/drivers/{name}"
        module = f"sys/module/{name.replace('-', '_')}"
        self.tree.write(f"{module}/initstate", Attribute("live\n"))
        acts = {
            "bind": self._on_bind,
            "unbind": self._on_unbind,
            "new_id": self._on_new_id,
            "remove_id": self._on_remove_id,
        }
        self.actions.register(directory, {verb: partial(act, name) for verb, act in acts.items()})
        self.tree.place(directory, {**{verb: wo() for verb in [*acts, "uevent"]}, "module": Link(module)})
        if is_vfio(name):
            self.vfio.load()

    def _write_affinities(self) -> None:
        for function in self.functions():
            if function.present:
                function.write_affinity()

    def _find(self, address: str) -> PciFunction:
        if address not in self._present:
            raise refusal(errno.ENODEV)
        return self._functions[address]

    def _probe(self, function: PciFunction, drivers: Iterable[str]) -> None:
        for name in drivers:
            if not function.driver and function.may_bind(name, self._ids[name]):
                function.attach(name)

    def _on_bind(self, driver: str, text: str) -> None:
        function = self._find(text)
        if not function.may_bind(driver, self._ids[driver]):
            raise refusal(errno.ENODEV)
        if function.driver:
            raise refusal(errno.EBUSY)
        function.attach(driver)

    def _on_unbind(self, driver: str, text: str) -> None:
        function = self._find(text)
        if function.driver != driver:
            raise refusal(errno.ENODEV)
        function.unbind()

    def _on_new_id(self, driver: str, text: str) -> None:
        known = _parse_id(text)
        if known in self._ids[driver]:
            raise refusal(errno.EEXIST)
        self._ids[driver].add(known)
        for function in self.functions():
            if function.present:
                self._probe(function, [driver])

    def _on_remove_id(self, driver: str, text: str) -> None:
        known = _parse_id(text)
        if known not in self._ids[driver]:
            raise refusal(errno.ENODEV)
        self._ids[driver].discard(known)

    def _on_probe(self, text: str) -> None:
        self._probe(self._find(text), list(self._ids))

    def _on_rescan(self, text: str) -> None:
        if not parse_number(text):
            return
        for address in sorted(self._removed):
            self._appear(self._functions[address])
            self._probe(self._functions[address], list(self._ids))
        self._removed.clear()


def _below(bridge: PciFunction) -> str:
    """The bus behind a bridge, as `domain:bus`."""
    return f"{bridge.facts.bus.split(':')[0]}:{bridge.facts.secondary_bus:02x}"


def _parse_id(text: str) -> str:
    """`vendor device [subvendor …]` as the kernel takes it; the further fields are not modelled."""
    fields = text.split()
    if len(fields) < 2:
        raise refusal(errno.EINVAL)
    try:
        vendor, device = (int(field, 16) for field in fields[:2])
    except ValueError:
        raise refusal(errno.EINVAL) from None
    return f"{vendor:04x}:{device:04x}"
