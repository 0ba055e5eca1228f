"""Hand out sockets: the directory, because a socket that its daemon makes anew would not be seen through a mount of itself."""

from __future__ import annotations

from collections.abc import Sequence

from dray.cdi.edits import ContainerEdits, Mount, merge
from dray.drivers.contract import Device, Prepared


def prepare(devices: Sequence[Device]) -> Prepared:
    """Each directory once, writable, under its own name."""
    mounts = (Mount(path, path) for device in devices for path in device.paths)
    return Prepared(merge(ContainerEdits(mounts=(mount,)) for mount in mounts))
