"""`ContainerEdits`: the parcel that drivers fill. What is added to a container so that it can use its devices."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dray.cdi.names import parse_qualified
from dray.errors import InvalidError

_PERMISSIONS = "rwm"


class DeviceNode(msgspec.Struct, frozen=True):
    """A device node in the container. `permissions` are the cgroup's: r(ead), w(rite), m(knod), in any order."""

    host_path: str
    container_path: str
    permissions: str = "rw"

    def __post_init__(self) -> None:
        _check_paths(self.host_path, self.container_path)
        letters = set(self.permissions)
        if not letters or len(letters) != len(self.permissions) or not letters <= set(_PERMISSIONS):
            raise InvalidError(
                f"permissions {self.permissions!r} of {self.host_path} must be some of r, w and m, each once",
                field="permissions",
            )


class Mount(msgspec.Struct, frozen=True):
    """A file or directory of the host in the container."""

    host_path: str
    container_path: str
    read_only: bool = False

    def __post_init__(self) -> None:
        _check_paths(self.host_path, self.container_path)


class ContainerEdits(msgspec.Struct, frozen=True):
    """All that is added to one container. Order is kept as given: the same input gives the same bytes on the wire.

    `env` and `annotations` are pairs of name and value, each name once. `cdi_devices` are whole names of devices that
    CDI files of somebody describe (`nvidia.com/gpu=0`); only the device plugin's door can hand on names. The value can be
    stored and compared.
    """

    env: tuple[tuple[str, str], ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    cdi_devices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.cdi_devices:
            parse_qualified(name)

    def __bool__(self) -> bool:
        return bool(self.env or self.device_nodes or self.mounts or self.annotations or self.cdi_devices)


def merge(parcels: Iterable[ContainerEdits]) -> ContainerEdits:
    """All of them as one: what is said twice counts once, at its first place.

    Two parcels may ask for one node with different permissions (the container gets both) and for one mount (writable if
    one needs it). InvalidError where they contradict: two values of a variable, two sources of a path in the container.
    """
    env: dict[str, str] = {}
    annotations: dict[str, str] = {}
    nodes: dict[str, DeviceNode] = {}
    mounts: dict[str, Mount] = {}
    cdi_devices: dict[str, None] = {}
    for parcel in parcels:
        _add_pairs(env, parcel.env, "environment variable")
        _add_pairs(annotations, parcel.annotations, "annotation")
        for node in parcel.device_nodes:
            nodes[node.container_path] = _both_nodes(nodes.get(node.container_path, node), node)
        for mount in parcel.mounts:
            mounts[mount.container_path] = _both_mounts(mounts.get(mount.container_path, mount), mount)
        cdi_devices |= dict.fromkeys(parcel.cdi_devices)
    return ContainerEdits(
        tuple(env.items()),
        tuple(nodes.values()),
        tuple(mounts.values()),
        tuple(annotations.items()),
        tuple(cdi_devices),
    )


def _add_pairs(known: dict[str, str], pairs: tuple[tuple[str, str], ...], what: str) -> None:
    for name, value in pairs:
        if known.setdefault(name, value) != value:
            raise InvalidError(
                f"{what} {name} would be {known[name]!r} and {value!r}: two devices of one container claim it",
                field=name,
            )


def _both_nodes(first: DeviceNode, second: DeviceNode) -> DeviceNode:
    _check_source(first, second)
    if set(second.permissions) <= set(first.permissions):
        return first
    letters = set(first.permissions + second.permissions)
    permissions = "".join(letter for letter in _PERMISSIONS if letter in letters)
    return DeviceNode(first.host_path, first.container_path, permissions)


def _both_mounts(first: Mount, second: Mount) -> Mount:
    _check_source(first, second)
    return Mount(first.host_path, first.container_path, first.read_only and second.read_only)


def _check_source(first: DeviceNode | Mount, second: DeviceNode | Mount) -> None:
    if first.host_path != second.host_path:
        raise InvalidError(
            f"{first.container_path} in the container would be the host's {first.host_path} and {second.host_path}",
            field=first.container_path,
        )


def _check_paths(*paths: str) -> None:
    for path in paths:
        if not path.startswith("/") or "\0" in path:
            raise InvalidError(f"path {path!r} must be absolute", field="path")
