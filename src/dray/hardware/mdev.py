"""Mediated devices: parents, the types they offer, and the instances that were made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from dray.errors import Error, HardwareError, NotFoundError
from dray.hardware.facts import Found, Problem, problem_of, showable
from dray.hardware.host_root import Place
from dray.hardware.numa import read_numa_node
from dray.hardware.parse import decimal, is_pci_address, link_name
from dray.hardware.pci import read_iommu_group, read_vfio_devices
from dray.hardware.sweep import Sweep, SysDirectory

PARENTS = "/sys/class/mdev_bus"
INSTANCES = "/sys/bus/mdev/devices"
_TYPES = "mdev_supported_types"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MdevType:
    """A type that a parent offers. `name` is the one to select by: spaces are `_`, and the id where a driver names none.

    `available` is how many more can be made now; `label` is the driver's own name, for people.
    """

    id: str
    name: str
    available: int
    label: str = ""
    description: str = ""
    device_api: str = ""


@dataclass(frozen=True, slots=True)
class MdevParent:
    """A device that makes instances: a PCI function (`name` is its address) or a virtual device like mtty."""

    name: str
    types: tuple[MdevType, ...]
    numa_node: int | None = None

    @property
    def is_pci(self) -> bool:
        """Whether the parent is a PCI function."""
        return is_pci_address(self.name)


@dataclass(frozen=True, slots=True)
class Mdev:
    """One instance. `type_name` is as in `MdevType`; the NUMA node is its parent's."""

    uuid: str
    type_id: str
    type_name: str
    parent: str
    iommu_group: int | None
    numa_node: int | None
    vfio_devices: tuple[str, ...] = ()


def selectable_name(text: str) -> str:
    """A type's name as configurations write it, KubeVirt's way: spaces first become `_`, then the ends are trimmed."""
    return showable(text.replace(" ", "_").strip())


def read_mdev_parents(root: Place) -> Found[MdevParent]:
    """All parents, by name; a type that cannot be read is left out of its parent's."""
    with root.sweep() as sweep:
        return sweep.read_each(PARENTS, lambda directory, problems: _read_parent(sweep, directory, problems))


def read_mdevs(root: Place) -> Found[Mdev]:
    """All instances, by UUID."""
    with root.sweep() as sweep:
        nodes: dict[str, int | None] = {}
        return sweep.read_each(
            INSTANCES, lambda directory, problems: _read_instance(sweep, directory, nodes, problems)
        )


def read_mdev_cards(root: Place) -> Mapping[str, str]:
    """The parent of each instance, by UUID, out of its link alone: known even of one whose directory cannot be read.

    Empty text where not even the link says it. An empty mapping where the instances cannot be listed.
    """
    with root.sweep() as sweep:
        try:
            names = sweep.names(INSTANCES)
        except Error as error:
            problem_of(error, INSTANCES)  # our own lack of descriptors is no answer
            return {}
        return {name.lower(): _read_card(sweep, name) for name in names if _UUID.fullmatch(name)}


def _read_card(sweep: Sweep, uuid: str) -> str:
    path = f"{INSTANCES}/{uuid}"
    try:
        return _parent_in(sweep.read_link(path))
    except Error as error:
        problem_of(error, path)
        return ""


def _parent_in(link: str) -> str:
    """`0000:06:00.0` out of `../../../devices/pci0000:00/0000:06:00.0/<uuid>`; empty where the link says none."""
    parts = link.split("/")
    parent = showable(parts[-2]) if len(parts) > 1 else ""
    return "" if parent in (".", "..") else parent


def _read_parent(sweep: Sweep, directory: SysDirectory, problems: list[Problem]) -> MdevParent:
    types = sweep.read_each(f"{directory.path}/{_TYPES}", _read_type)
    problems += types.problems
    return MdevParent(showable(directory.name), types.items, read_numa_node(directory, problems))


def _read_type(directory: SysDirectory, problems: list[Problem]) -> MdevType:
    path = f"{directory.path}/available_instances"
    text = directory.text("available_instances").partition("\n")[0]
    available = decimal(text)
    if available is None or available < 0:
        raise HardwareError(f"{path} holds {text!r}, not a number", path=path)
    label = _optional(directory, "name", problems)
    type_id = showable(directory.name)
    return MdevType(
        type_id,
        selectable_name(label) or type_id,
        available,
        showable(label.strip()),
        showable(_optional(directory, "description", problems).strip().replace("\n", ", ")),
        showable(_optional(directory, "device_api", problems).strip()),
    )


def _read_instance(
    sweep: Sweep, directory: SysDirectory, nodes: dict[str, int | None], problems: list[Problem]
) -> Mdev:
    uuid = directory.name
    if not _UUID.fullmatch(uuid):
        raise HardwareError(f"{directory.path} has no UUID for a name", path=directory.path)
    parent = _parent_in(sweep.read_link(directory.path))
    if not parent:
        raise HardwareError(f"the link {directory.path} does not say its parent", path=directory.path)
    if parent not in nodes:
        nodes[parent] = _read_parents_node(sweep, parent, problems)
    type_id = link_name(directory.link("mdev_type"))
    return Mdev(
        uuid,
        type_id,
        _read_type_name(sweep, directory.path, type_id, problems),
        parent,
        read_iommu_group(directory),
        nodes[parent],
        read_vfio_devices(directory),
    )


def _read_type_name(sweep: Sweep, path: str, type_id: str, problems: list[Problem]) -> str:
    """The id stands in where the driver gives no name, or one that is no text: then no selector by name will match."""
    path = f"{path}/mdev_type/name"
    try:
        return selectable_name(sweep.read_text(path)) or type_id
    except NotFoundError:
        return type_id
    except Error as error:
        problems.append(problem_of(error, path, before="type name not known: "))
        return type_id


def _read_parents_node(sweep: Sweep, parent: str, problems: list[Problem]) -> int | None:
    if not is_pci_address(parent):
        return None
    path = f"/sys/bus/pci/devices/{parent}"
    try:
        with sweep.directory(path) as directory:
            return read_numa_node(directory, problems)
    except Error as error:
        problems.append(problem_of(error, path, before="NUMA node not known: "))
        return None


def _optional(directory: SysDirectory, name: str, problems: list[Problem]) -> str:
    """A text that a driver need not give, without the newline at its end."""
    if name not in directory:
        return ""
    try:
        return directory.text(name)
    except Error as error:
        problems.append(problem_of(error, f"{directory.path}/{name}"))
        return ""
