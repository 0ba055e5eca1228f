"""Mediated devices: parents, their types, and the instances made of them."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Protocol

from dray.errors import ConflictError, NotFoundError
from dray.runtime.files.oserrors import from_os_error
from dray.testing.host.actions import Actions, refusal
from dray.testing.host.iommu import IommuGroups, Vfio
from dray.testing.host.pci import parse_number
from dray.testing.host.tree import Attribute, Directory, Entry, Link, Tree, ro, verb, wo

_BUS = "sys/bus/mdev"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class MdevType:
    """A type a parent offers. `available` is how many an empty parent can make; a driver need not give a name."""

    available: int
    name: str = ""
    description: str = ""
    device_api: str = "vfio-pci"


class Owner(Protocol):
    """The device that is a parent: a PCI function, or a virtual device like the kernel's mtty sample."""

    @property
    def directory(self) -> str:
        """Its directory in sysfs."""
        ...

    @property
    def driver(self) -> str:
        """The driver that has it now."""
        ...


class Mdev:
    """One instance."""

    def __init__(self, parent: MdevParent, uuid: str, type_id: str, group: int) -> None:
        self.parent = parent
        self.tree = parent.tree
        self.uuid = uuid
        self.type_id = type_id
        self.group = group
        self.directory = f"{parent.owner.directory}/{uuid}"

    def __repr__(self) -> str:
        return f"<Mdev {self.uuid} {self.type_id} group {self.group}>"

    @property
    def path(self) -> Path:
        """Its directory."""
        return self.tree.path(self.directory)

    @property
    def present(self) -> bool:
        """Whether it is there now."""
        return self.parent.mdevs.get(self.uuid) is self

    @verb
    def remove(self) -> None:
        """As a write of 1 to its `remove`; nothing happens when it is gone."""
        if self.present:
            self.parent.destroy(self)


class MdevParent:
    """A device that makes instances, while its driver has it. What one type takes, the other types lose.

    With `exclusive`, as NVIDIA's time-sliced vGPUs, the other types have none left once one is made.
    """

    def __init__(
        self, bus: MdevBus, owner: Owner, types: Mapping[str, MdevType], driver: str, exclusive: bool
    ) -> None:
        self._bus = bus
        self.tree = bus.tree
        self.owner = owner
        self.types = dict(sorted(types.items()))
        self.driver = driver
        self.exclusive = exclusive
        self.mdevs: dict[str, Mdev] = {}
        self._owner_driver = owner.driver

    @property
    def name(self) -> str:
        """Its name in /sys/class/mdev_bus."""
        return self.owner.directory.rsplit("/", 1)[-1]

    def type_path(self, type_id: str) -> Path:
        """The directory of a type: `parent.type_path("nvidia-222") / "create"`."""
        return self.tree.path(self._type_directory(type_id))

    @verb
    def create(self, type_id: str, uuid: str, *, iommu_group: int | None = None) -> Mdev:
        """Make an instance, as a write to the type's `create`; the kernel's refusals are raised."""
        if type_id not in self.types:
            raise NotFoundError(
                f"{self.name} has no type {type_id!r}: it has {', '.join(self.types)}", kind="mdev type"
            )
        try:
            return self._create(type_id, uuid, iommu_group)
        except OSError as error:
            raise from_os_error(error, "create mdev", uuid) from error

    def available(self, type_id: str) -> int:
        """How many more of this type the parent can make."""
        made = [mdev.type_id for mdev in self.mdevs.values()]
        if self.exclusive and any(other != type_id for other in made):
            return 0
        left = 1 - sum((Fraction(1, self.types[other].available) for other in made), start=Fraction(0))
        return int(self.types[type_id].available * left)

    def on_bind(self, driver: str) -> None:
        """The types come with the driver that had the device when it was declared a parent."""
        if driver == self._owner_driver:
            self.publish()

    def on_unbind(self) -> None:
        """The types and the instances go with the driver."""
        for uuid in sorted(self.mdevs):
            self.destroy(self.mdevs[uuid])
        self.tree.remove(f"sys/class/mdev_bus/{self.name}")
        types = f"{self.owner.directory}/mdev_supported_types"
        self._bus.actions.forget(types)
        self.tree.remove(types)

    def publish(self) -> None:
        """Show the types."""
        for type_id in self.types:
            directory = self._type_directory(type_id)
            self._bus.actions.register(directory, {"create": partial(self._on_create, type_id)})
        types = f"{self.owner.directory}/mdev_supported_types"
        self.tree.place(
            types, {f"{t}/{key}": e for t in self.types for key, e in self._type_entries(t).items()}
        )
        self.tree.link(f"sys/class/mdev_bus/{self.name}", self.owner.directory)

    def destroy(self, mdev: Mdev) -> None:
        """Take an instance away: its node first, its directory last."""
        self._bus.vfio.detach(mdev.directory, mdev.group)
        self.tree.remove(f"{_BUS}/devices/{mdev.uuid}")
        self.tree.remove(f"{_BUS}/drivers/{self.driver}/{mdev.uuid}")
        self.tree.remove(f"{self._type_directory(mdev.type_id)}/devices/{mdev.uuid}")
        self._bus.actions.forget(mdev.directory)
        self.tree.remove(mdev.directory)
        self._bus.groups.leave(mdev.group, mdev.directory)
        del self.mdevs[mdev.uuid]
        self._write_available()

    def _create(self, type_id: str, text: str, group: int | None) -> Mdev:
        uuid = text.lower()
        if not _UUID.fullmatch(uuid):
            raise refusal(errno.EINVAL)
        if self._bus.holds(uuid):
            raise refusal(errno.EEXIST)
        if self.available(type_id) < 1:
            raise refusal(errno.ENOSPC)
        mdev = Mdev(self, uuid, type_id, self._bus.groups.free() if group is None else group)
        self.mdevs[uuid] = mdev
        self._appear(mdev)
        self._write_available()
        return mdev

    def _appear(self, mdev: Mdev) -> None:
        self._bus.load(self.driver)
        self._bus.groups.join(mdev.group, mdev.directory, behind_iommu=False)
        self._bus.actions.register(mdev.directory, {"remove": partial(_on_remove, mdev)})
        entries: dict[str, Entry] = {
            "driver": Link(f"{_BUS}/drivers/{self.driver}"),
            "mdev_type": Link(self._type_directory(mdev.type_id)),
            "remove": wo(),
            "subsystem": Link(_BUS),
            "uevent": Attribute(f"DRIVER={self.driver}\n", 0o644),
        }
        self.tree.place(mdev.directory, entries | self._bus.groups.entries(mdev.group, behind_iommu=False))
        self.tree.link(f"{self._type_directory(mdev.type_id)}/devices/{mdev.uuid}", mdev.directory)
        self.tree.link(f"{_BUS}/drivers/{self.driver}/{mdev.uuid}", mdev.directory)
        self.tree.link(f"{_BUS}/devices/{mdev.uuid}", mdev.directory)
        self._bus.vfio.attach(mdev.directory, mdev.group)

    def _type_directory(self, type_id: str) -> str:
        return f"{self.owner.directory}/mdev_supported_types/{type_id}"

    def _type_entries(self, type_id: str) -> dict[str, Entry]:
        described = self.types[type_id]
        entries: dict[str, Entry] = {
            "available_instances": ro(self.available(type_id)),
            "create": wo(),
            "device_api": ro(described.device_api),
            "devices": Directory(),
        }
        if described.name:
            entries["name"] = ro(described.name)
        if described.description:
            entries["description"] = ro(described.description)
        return entries

    def _write_available(self) -> None:
        for type_id in self.types:
            directory = self._type_directory(type_id)
            if self.tree.exists(directory):
                self.tree.write(f"{directory}/available_instances", ro(self.available(type_id)))

    def _on_create(self, type_id: str, text: str) -> None:
        self._create(type_id, text, None)


class MdevBus:
    """All parents; a UUID is used once on the whole machine."""

    def __init__(self, tree: Tree, actions: Actions, groups: IommuGroups, vfio: Vfio) -> None:
        self.tree = tree
        self.actions = actions
        self.groups = groups
        self.vfio = vfio
        self._parents: list[MdevParent] = []
        self._drivers: set[str] = set()

    def add(self, owner: Owner, types: Mapping[str, MdevType], driver: str, exclusive: bool) -> MdevParent:
        """Make a device a parent. The bus appears with the first one, as the module does."""
        if any(parent.owner.directory == owner.directory for parent in self._parents):
            raise ConflictError(f"/{owner.directory} is a parent of mediated devices already")
        if not self.tree.exists(_BUS):
            attributes = {"drivers_autoprobe": Attribute("1\n", 0o644), "drivers_probe": wo(), "uevent": wo()}
            self.tree.place(_BUS, {**attributes, "devices": Directory(), "drivers": Directory()})
        self.vfio.load()
        parent = MdevParent(self, owner, types, driver, exclusive)
        self._parents.append(parent)
        parent.publish()
        return parent

    def holds(self, uuid: str) -> bool:
        """Whether an instance with this UUID exists anywhere."""
        return any(uuid in parent.mdevs for parent in self._parents)

    def load(self, driver: str) -> None:
        """The driver that takes the instances; its `bind` and `unbind` do not act."""
        if driver in self._drivers:
            return
        self._drivers.add(driver)
        module = f"sys/module/{driver.replace('-', '_')}"
        self.tree.write(f"{module}/initstate", Attribute("live\n"))
        entries: dict[str, Entry] = {"bind": wo(), "unbind": wo(), "uevent": wo(), "module": Link(module)}
        self.tree.place(f"{_BUS}/drivers/{driver}", entries)


def _on_remove(mdev: Mdev, text: str) -> None:
    if parse_number(text):
        mdev.remove()
