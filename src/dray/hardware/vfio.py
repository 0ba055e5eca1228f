"""VFIO's nodes: the container, one per IOMMU group, and on newer kernels one per device. Seen in /dev, not in sysfs.

Linux 6.1 lists `vfio-dev/vfio0` in sysfs and has no /dev/vfio/devices: a name there is no promise of a node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dray.errors import Error, NotFoundError
from dray.hardware.device_nodes import has_device_node
from dray.hardware.facts import Problem, problem_of
from dray.hardware.host_root import Place
from dray.hardware.sweep import Sweep

CONTAINER = "/dev/vfio/vfio"
IOMMUFD = "/dev/iommu"
_GROUPS = "/dev/vfio"
_DEVICES = "/dev/vfio/devices"
_GROUP = re.compile(r"(noiommu-)?([0-9]{1,9})", re.ASCII)
_DEVICE = re.compile(r"vfio[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Vfio:
    """The nodes that exist. `noiommu_groups` are those without protection (/dev/vfio/noiommu-3), which taint the kernel."""

    has_container: bool
    has_iommufd: bool
    groups: tuple[int, ...]
    noiommu_groups: tuple[int, ...]
    devices: tuple[str, ...]
    problems: tuple[Problem, ...] = ()

    def device_paths(self, names: Iterable[str]) -> tuple[str, ...]:
        """The nodes of a function's or mdev's `vfio_devices`; those that do not exist are left out."""
        return tuple(device_path(name) for name in names if name in self.devices)


def group_path(group: int) -> str:
    """The node of an IOMMU group."""
    return f"{_GROUPS}/{group}"


def device_path(name: str) -> str:
    """The node of one device, by its name in sysfs (`vfio0`)."""
    return f"{_DEVICES}/{name}"


def read_vfio(root: Place) -> Vfio:
    """Look at /dev. Names that VFIO does not use are passed over, and so are entries that are no device nodes."""
    problems: list[Problem] = []
    with root.sweep() as sweep:
        groups = [found for name in _nodes(sweep, _GROUPS, problems) if (found := _GROUP.fullmatch(name))]
        devices = [name for name in _nodes(sweep, _DEVICES, problems) if _DEVICE.fullmatch(name)]
        return Vfio(
            has_container=has_device_node(sweep, CONTAINER, problems),
            has_iommufd=has_device_node(sweep, IOMMUFD, problems),
            groups=tuple(sorted(int(found[2]) for found in groups if not found[1])),
            noiommu_groups=tuple(sorted(int(found[2]) for found in groups if found[1])),
            devices=tuple(sorted(devices, key=lambda name: int(name.removeprefix("vfio")))),
            problems=tuple(problems),
        )


def _nodes(sweep: Sweep, path: str, problems: list[Problem]) -> list[str]:
    try:
        names = sweep.names(path)
    except NotFoundError:
        return []
    except Error as error:
        problems.append(problem_of(error, path))
        return []
    return [name for name in names if has_device_node(sweep, f"{path}/{name}", problems)]
