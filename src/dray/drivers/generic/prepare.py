"""Hand out generic devices: the node under its own name, with what the host's cgroup version allows to ask for."""

from __future__ import annotations

from collections.abc import Sequence

from dray.drivers.contract import Device, Prepared
from dray.drivers.parcels import node_edits


def prepare(devices: Sequence[Device]) -> Prepared:
    """However many shares of a device were asked for, the container gets its node once."""
    opened = dict.fromkeys(path for device in devices if device.open_first for path in device.paths)
    return Prepared(node_edits(devices), open_first=tuple(opened))
