"""Services behind a unix socket: a container gets the socket's directory. KubeVirt has two, pr-helper and TDX's QGS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dray.drivers.contract import Device, Discovery, Prepared
from dray.drivers.socket.config import SocketConfig
from dray.drivers.socket.discover import KIND, discover
from dray.drivers.socket.prepare import prepare
from dray.hardware.host_root import Place


@dataclass(frozen=True, slots=True)
class SocketDriver:
    """Sockets by name."""

    config: SocketConfig = field(default_factory=SocketConfig)
    kind: str = KIND

    def discover(self, root: Place, known: Sequence[Device] = ()) -> Discovery:
        """The sockets that the config names, there or not."""
        return discover(self.config, root)

    def prepare(self, resource: str, devices: Sequence[Device]) -> Prepared:
        """The directories."""
        return prepare(devices)
