"""What the socket kind serves."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from dray.drivers.naming import KUBEVIRT_PREFIX, SHARES, check_distinct
from dray.drivers.parcels import QEMU
from dray.errors import InvalidError


class SocketService(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A socket by name. An `optional` one is always healthy: a container gets its directory and looks for itself.

    `shares` is how many containers use it at once; with `capacity` that many as cgroup's misc controller has of this
    key. `owner` (user and group) is given the directory and the socket whenever they are made anew.
    """

    name: str
    path: str
    shares: int = SHARES
    capacity: str = ""
    optional: bool = False
    owner: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        parts: Sequence[str] = self.path.split("/")
        if parts[0] or len(parts) < 3 or any(part in ("", ".", "..") for part in parts[1:]):
            raise InvalidError(
                f"path {self.path!r} of socket {self.name!r} must be absolute, in a directory of its own",
                field="path",
            )

    @property
    def resource(self) -> str:
        """The extended resource, in KubeVirt's name."""
        return KUBEVIRT_PREFIX + self.name

    @property
    def directory(self) -> str:
        """What the container gets."""
        return self.path.rpartition("/")[0]


PR_HELPER = SocketService("pr-helper", "/var/run/kubevirt/daemons/pr/pr-helper.sock", owner=QEMU)
TDX = SocketService("tdx", "/var/run/tdx-qgs/qgs.socket", capacity="tdx", optional=True)


class SocketConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of them; none by default."""

    services: tuple[SocketService, ...] = ()

    def __post_init__(self) -> None:
        check_distinct([service.name for service in self.services])
