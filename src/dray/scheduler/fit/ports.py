"""Ports of the host: two pods on a node cannot have the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from dray.api.core import Pod
from dray.scheduler.fit.rejection import NODE_PORTS, Rejection

_ANY: Final = "0.0.0.0"
_REFUSED: Final = Rejection(
    check=NODE_PORTS,
    reasons=("node(s) didn't have free ports for the requested pod ports",),
    can_resolve=True,
)


class HostPort(NamedTuple):
    """A port on one address of the host, or on all of them."""

    address: str
    protocol: str
    port: int


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The host ports of containers and sidecars; an init container that ends has given its ports back."""
    sidecars = (one for one in pod.spec.init_containers if one.restart_policy == "Always")
    return tuple(
        HostPort(port.host_ip or _ANY, port.protocol or "TCP", port.host_port)
        for container in (*sidecars, *pod.spec.containers)
        for port in container.ports
        if port.host_port > 0
    )


class UsedPorts:
    """The host ports of one node's pods. Counted: pods that name their node themselves can share one by mistake.

    There kube-scheduler sees the port as free when the first of them goes.
    """

    def __init__(self, ports: Iterable[HostPort] = ()) -> None:
        self._addresses: dict[tuple[str, int], Counter[str]] = {}
        for port in ports:
            self.add(port)

    def add(self, port: HostPort) -> None:
        """One more pod has it."""
        self._addresses.setdefault((port.protocol, port.port), Counter())[port.address] += 1

    def remove(self, port: HostPort) -> None:
        """One pod that had it is gone."""
        key = (port.protocol, port.port)
        addresses = self._addresses[key]
        addresses[port.address] -= 1
        if not addresses[port.address]:
            del addresses[port.address]
        if not addresses:
            del self._addresses[key]

    def conflicts(self, port: HostPort) -> bool:
        """Whether it is taken: all addresses stand against each one, and the other way round."""
        addresses = self._addresses.get((port.protocol, port.port))
        if addresses is None:
            return False
        return port.address == _ANY or _ANY in addresses or port.address in addresses

    def __len__(self) -> int:
        return sum(map(len, self._addresses.values()))


def refused(wanted: Iterable[HostPort], used: UsedPorts) -> Rejection | None:
    """Whether one of the ports is taken. Ports of the same pod do not stand against each other."""
    return _REFUSED if any(map(used.conflicts, wanted)) else None
