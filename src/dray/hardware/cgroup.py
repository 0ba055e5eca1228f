"""The host's cgroup version: what a container may do with a device node hangs on it."""

from __future__ import annotations

from enum import StrEnum

from dray.errors import Error
from dray.hardware.facts import problem_of
from dray.hardware.host_root import Place

_TOP = "/sys/fs/cgroup"


class CgroupVersion(StrEnum):
    """HYBRID has the controllers, devices among them, in version 1 and an empty version 2 tree beside them."""

    V1 = "v1"
    HYBRID = "hybrid"
    V2 = "v2"

    @property
    def device_permissions(self) -> str:
        """What KubeVirt asks for a generic device: `m` (mknod) joins under version 2."""
        return "rwm" if self is CgroupVersion.V2 else "rw"


def read_cgroup_version(root: Place) -> CgroupVersion:
    """Version 2 has its list of controllers at the top. V1 where nothing is mounted: it asks for the least."""
    if _has(root, f"{_TOP}/cgroup.controllers"):
        return CgroupVersion.V2
    return CgroupVersion.HYBRID if _has(root, f"{_TOP}/unified/cgroup.controllers") else CgroupVersion.V1


def _has(root: Place, path: str) -> bool:
    try:
        return root.exists(path)
    except Error as error:
        problem_of(error, path)  # raises what is not the host's fault
        return False
