"""Find generic devices: each is a path, and it is healthy while a device node is there."""

from __future__ import annotations

from dataclasses import dataclass, field

from dray.drivers.contract import Device, Discovery, Health, Problem
from dray.errors import Error, NotFoundError
from dray.hardware.device_nodes import DeviceNode, read_device_node
from dray.hardware.host_root import HostRoot

KIND = "generic"
RESOURCE_PREFIX = "devices.kubevirt.io/"
_NOT_OPENED = "this user may not open {}; the agent needs root to hand it out"

# KubeVirt's names, so that its launcher pods find them.
PATHS = {
    "kvm": "/dev/kvm",
    "sev": "/dev/sev",
    "tun": "/dev/net/tun",
    "vhost-net": "/dev/vhost-net",
    "vhost-vsock": "/dev/vhost-vsock",
}


@dataclass(frozen=True, slots=True)
class GenericDriver:
    """Shared devices by name; `paths` says where each one is."""

    paths: dict[str, str] = field(default_factory=lambda: dict(PATHS))
    kind: str = KIND

    def discover(self, root: HostRoot) -> Discovery:
        """All of `paths`, by name; one that is not there is unhealthy, and the others are not disturbed by it."""
        devices: list[Device] = []
        problems: list[Problem] = []
        for name, path in sorted(self.paths.items()):
            try:
                node = read_device_node(root, path)
            except NotFoundError:
                devices.append(_unhealthy(name, path, f"{path} does not exist"))
            except Error as error:
                devices.append(_unhealthy(name, path, str(error)))
                problems.append(Problem(path, str(error)))
            else:
                devices.append(_healthy(name, node))
                problems += [] if node.may_open else [Problem(path, _NOT_OPENED.format(path))]
        return Discovery(tuple(devices), tuple(problems), tuple(sorted(self.paths.values())))


def _healthy(name: str, node: DeviceNode) -> Device:
    attributes: dict[str, str | int | bool] = {"node": node.kind.value}
    if node.major is not None and node.minor is not None:
        attributes |= {"major": node.major, "minor": node.minor}
    return Device(
        name, KIND, RESOURCE_PREFIX + name, Health.HEALTHY, attributes=attributes, paths=(node.path,)
    )


def _unhealthy(name: str, path: str, reason: str) -> Device:
    return Device(name, KIND, RESOURCE_PREFIX + name, Health.UNHEALTHY, reason, paths=(path,))
