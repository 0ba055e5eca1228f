"""One PCI function and its verbs: bind, unbind, unplug, replug, and the virtual functions it makes."""

from __future__ import annotations

import errno
from collections.abc import Container
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Unpack

from dray.errors import ConflictError
from dray.testing.host.actions import Act, refusal
from dray.testing.host.pci_facts import PciFacts, PciOptions, Sriov, checked, vf_address
from dray.testing.host.pci_files import (
    NO_OVERRIDE,
    affinity_entries,
    driver_entries,
    function_entries,
    is_vfio,
    physical_entries,
    vgpu_text,
)
from dray.testing.host.tree import Attribute, Entry, Link, rw, verb

if TYPE_CHECKING:
    from dray.testing.host.pci_bus import PciBus


class Follower(Protocol):
    """What a driver brings along on its device: mediated devices, a USB bus."""

    def on_bind(self, driver: str) -> None:
        """The driver has the device now."""
        ...

    def on_unbind(self) -> None:
        """The driver is about to let go, or the device to vanish."""
        ...


class PciFunction:
    """A function of the machine, there or not. Made by `Host.pci`; all verbs may be called twice."""

    def __init__(
        self, bus: PciBus, facts: PciFacts, sriov: Sriov | None, physical: PciFunction | None = None
    ) -> None:
        self._bus = bus
        self.tree = bus.tree
        self.facts = checked(facts)
        self.sriov = sriov
        self.physical = physical
        self.driver = ""
        self.vfs: list[PciFunction] = []
        self.followers: list[Follower] = []
        self._override = ""
        self._vgpu_type = 0
        self.directory = bus.directory_of(self)

    def __repr__(self) -> str:
        return f"<PciFunction {self.facts.address} {self.facts.id} {self.driver or '-'}>"

    @property
    def address(self) -> str:
        """The address, as sysfs spells it."""
        return self.facts.address

    @property
    def path(self) -> Path:
        """Its directory: `gpu.path / "numa_node"`."""
        return self.tree.path(self.directory)

    @property
    def present(self) -> bool:
        """Whether the kernel knows it now."""
        return self._bus.is_present(self)

    @verb
    def bind(self, driver: str) -> None:
        """Give it to a driver, whatever had it before."""
        self._require_present("bind")
        if self.driver != driver:
            self.unbind()
            self._bus.driver(driver)
            self.attach(driver)

    @verb
    def unbind(self) -> None:
        """Take it from its driver: the link goes, and what the driver brought (VFIO nodes, mdevs, VFs)."""
        if not self.driver:
            return
        self.remove_vfs()
        for follower in self.followers:
            follower.on_unbind()
        self._bus.vfio.detach(self.directory, self.facts.iommu_group)
        self._bus.actions.forget(f"{self.directory}/nvidia")
        self.tree.remove(f"{self.directory}/nvidia")
        self.tree.remove(f"sys/bus/pci/drivers/{self.driver}/{self.address}")
        self.tree.remove(f"{self.directory}/driver")
        self.driver = ""
        self._vgpu_type = 0
        self._write(self._driver_entries())

    @verb
    def unplug(self) -> None:
        """Pull the card: the function and everything below it vanishes, and a rescan does not bring it back."""
        self._bus.unplug(self)

    @verb
    def replug(self, driver: str | None = None) -> None:
        """Put it back at the same address, to the driver it had (or another; "" for none)."""
        self._bus.replug(self, driver)

    @verb
    def set(self, **changes: Unpack[PciOptions]) -> None:
        """Change facts by name (`numa_node=1`, `iommu_group=7`), as other firmware would; the address stays."""
        driver, present = self.driver, self.present
        new = checked(replace(self.facts, **changes))
        if present and new.iommu_group != self.facts.iommu_group:
            self._bus.unplug(self)
            self.facts = new
            self._bus.replug(self, driver)
            return
        self.facts = new
        if present:
            self._write(
                {
                    name: e
                    for name, e in function_entries(new).items()
                    if isinstance(e, Attribute) and name != "driver_override"
                }
            )
            self._write(self._driver_entries())
            self.write_affinity()

    @verb
    def vf(self, *, driver: str | None = None, **facts: Unpack[PciOptions]) -> PciFunction:
        """Make the next virtual function. Facts not given are those of the physical one, with a group of its own."""
        sriov = self.sriov
        if sriov is None or len(self.vfs) >= sriov.total:
            raise ConflictError(
                f"{self.address} makes no more virtual functions: give it a higher sriov_total"
            )
        self._require_present("make a virtual function of")
        index = len(self.vfs)
        group = None if self.facts.iommu_group is None else self._bus.groups.free()
        defaults: PciOptions = {
            "device": sriov.vf_device or self.facts.device,
            "iommu_group": group,
            "vgpu_types": sriov.vf_vgpu_types,
        }
        described = replace(self.facts, address=vf_address(self.address, sriov, index), **(defaults | facts))
        made = PciFunction(self._bus, described, None, physical=self)
        self._bus.add(made, sriov.vf_driver if driver is None else driver)
        self.vfs.append(made)
        self.tree.link(f"{self.directory}/virtfn{index}", made.directory)
        self._write(self._driver_entries())
        return made

    def remove_vfs(self) -> None:
        """The kernel's way: all at once."""
        for index, made in enumerate(self.vfs):
            self.tree.remove(f"{self.directory}/virtfn{index}")
            self._bus.unplug(made)
            self._bus.forget(made)
        self.vfs = []
        if self.sriov is not None and self.present:
            self._write(self._driver_entries())

    def attach(self, driver: str) -> None:
        """The driver probed it: links, texts, and what the driver brings."""
        self.driver = driver
        self.tree.link(f"{self.directory}/driver", f"sys/bus/pci/drivers/{driver}")
        self.tree.link(f"sys/bus/pci/drivers/{driver}/{self.address}", self.directory)
        self._write(self._driver_entries())
        vgpu = bool(self.facts.vgpu_types) and driver == "nvidia"
        if vgpu:
            self._bus.actions.register(f"{self.directory}/nvidia", {"current_vgpu_type": self._on_vgpu_type})
            self.tree.place(f"{self.directory}/nvidia", self._vgpu_entries())
        if vgpu or is_vfio(driver):
            self._bus.vfio.attach(self.directory, self.facts.iommu_group)
        for follower in self.followers:
            follower.on_bind(driver)

    def entries(self) -> dict[str, Entry]:
        """Its directory when it appears: no driver has it, and what was written to the last one is forgotten."""
        self._override = ""
        entries = function_entries(self.facts)
        if self.physical is None:
            entries |= physical_entries(self.sriov, device=self.facts.device)
        else:
            entries |= {"physfn": Link(self.physical.directory)}
        if self.facts.iommu_group is not None:
            entries |= self._bus.groups.entries(self.facts.iommu_group, behind_iommu=True)
        return entries | self._affinity_entries() | self._driver_entries()

    def acts(self) -> dict[str, Act]:
        """The files of its directory that act."""
        acts: dict[str, Act] = {
            "driver_override": self._on_override,
            "reset": _on_reset,
            "numa_node": self._on_numa_node,
        }
        if self.physical is None:
            acts["remove"] = self._on_remove
        if self.sriov is not None:
            acts["sriov_numvfs"] = self._on_numvfs
        return acts

    def may_bind(self, driver: str, ids: Container[str]) -> bool:
        """The kernel's rule: an override decides alone, else the driver's table of ids."""
        return self._override == driver if self._override else self.facts.id in ids

    def write_affinity(self) -> None:
        """The machine's processors have changed."""
        self._write(self._affinity_entries())

    def set_vgpu_type(self, number: int) -> None:
        """What a write to `current_vgpu_type` does; 0 clears it."""
        if number and number not in self.facts.vgpu_types:
            raise refusal(errno.EINVAL)
        self._vgpu_type = number
        self._write({"nvidia/current_vgpu_type": rw(number)})

    def _require_present(self, doing: str) -> None:
        if not self.present:
            raise ConflictError(f"cannot {doing} {self.address}: it is unplugged; replug() it first")

    def _write(self, entries: dict[str, Attribute]) -> None:
        for name, attribute in entries.items():
            self.tree.write(f"{self.directory}/{name}", attribute)

    def _driver_entries(self) -> dict[str, Attribute]:
        numvfs = None if self.sriov is None else len(self.vfs)
        return driver_entries(self.facts, self.driver, numvfs=numvfs)

    def _affinity_entries(self) -> dict[str, Attribute]:
        cpus = self._bus.system.cpus_near(self.facts.numa_node)
        return affinity_entries(cpus, self._bus.system.mask(cpus))

    def _vgpu_entries(self) -> dict[str, Entry]:
        return {
            "creatable_vgpu_types": Attribute(vgpu_text(dict(self.facts.vgpu_types))),
            "current_vgpu_type": rw(self._vgpu_type),
        }

    def _on_override(self, text: str) -> None:
        self._override = "" if text == NO_OVERRIDE else text
        self._write({"driver_override": rw(self._override or NO_OVERRIDE)})

    def _on_numa_node(self, text: str) -> None:
        self.set(numa_node=parse_number(text))

    def _on_remove(self, text: str) -> None:
        if parse_number(text):
            self._bus.remove(self)

    def _on_vgpu_type(self, text: str) -> None:
        self.set_vgpu_type(parse_number(text))

    def _on_numvfs(self, text: str) -> None:
        number = parse_number(text)
        if self.sriov is None or number > self.sriov.total:
            raise refusal(errno.ERANGE)
        if number == len(self.vfs):
            return
        if not self.driver:
            raise refusal(errno.ENOENT)
        if number and self.vfs:
            raise refusal(errno.EBUSY)
        self.remove_vfs()
        for _ in range(number):
            self.vf()


def parse_number(text: str) -> int:
    """A number as the kernel takes it from a write."""
    try:
        return int(text, 0)
    except ValueError:
        raise refusal(errno.EINVAL) from None


def _on_reset(text: str) -> None:
    """A reset leaves no trace in sysfs."""
    if parse_number(text) != 1:
        raise refusal(errno.EINVAL)
