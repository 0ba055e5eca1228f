"""How many resources a plugin may bring, and how many devices.

Each resource has a connection and, for some minutes after it went, a name in the Node; a device takes some hundreds of bytes here.
"""

from __future__ import annotations

from pathlib import Path

from dray.errors import UnavailableError
from dray.kubelet.devices.known import GRACE

OF_ONE, OF_ALL = 64, 1024
DEVICES_OF_SOCKET, DEVICES_OF_NODE = 131_072, 524_288
DEVICES_OF_ANY = 256
"""A resource may have so many in any case: whoever lists without end takes nothing from those who come later."""


def most_devices(of_socket: int, of_node: int) -> int:
    """How many a resource may list, where the others of its socket and of the node have so many."""
    return max(DEVICES_OF_ANY, min(DEVICES_OF_SOCKET - of_socket, DEVICES_OF_NODE - of_node))


class Quota:
    """Names by socket, those of the last minutes; the same name again costs nothing."""

    def __init__(self, of_one: int = OF_ONE, of_all: int = OF_ALL) -> None:
        self._of_one = of_one
        self._of_all = of_all
        self._names: dict[Path, dict[str, float]] = {}

    def take(self, path: Path, resource: str, now: float) -> None:
        """Count it in. UnavailableError, with what to do, where there are too many."""
        self._forget(now)
        own = self._names.get(path, {})
        if resource not in own:
            if len(own) >= self._of_one:
                raise UnavailableError(
                    f"the device plugin at {path} has brought {self._of_one} resources within {GRACE / 60:.0f} minutes: "
                    "use another socket for more"
                )
            if sum(len(names) for names in self._names.values()) >= self._of_all:
                raise UnavailableError(
                    f"device plugins have brought {self._of_all} resources within {GRACE / 60:.0f} minutes: "
                    "no more can be taken now"
                )
        self._names.setdefault(path, {})[resource] = now

    def _forget(self, now: float) -> None:
        for path, names in list(self._names.items()):
            kept = {name: at for name, at in names.items() if now - at < GRACE}
            if kept:
                self._names[path] = kept
            else:
                del self._names[path]
