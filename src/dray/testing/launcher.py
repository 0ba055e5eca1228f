"""The consumer's side: what KubeVirt's virt-launcher makes of a container's environment.

It looks for addresses in one variable a resource and takes one for each device of the VM. Written from its rules and not
from our own naming, so that the two can be compared; `tests/e2e/test_launcher_agrees.py` compares it with KubeVirt's own
code. Entries that name a DRA claim instead of a resource are not its matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dray.errors import InvalidError, NotFoundError

_PCI, _MDEV, _USB = "PCI_RESOURCE", "MDEV_PCI_RESOURCE", "USB_RESOURCE"
_PCI_ADDRESS = re.compile(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")


@dataclass(frozen=True, slots=True)
class Assigned:
    """A device of the VM: its name there, and what the hypervisor is told. `bus` is pci, mdev or usb."""

    name: str
    bus: str
    address: str


class AddressPool:
    """The addresses of some resources. One that was taken is gone from all of them."""

    def __init__(self, prefix: str, resources: Iterable[str], environment: Mapping[str, str]) -> None:
        self._addresses: dict[str, list[str]] = {}
        for resource in resources:
            name = "_".join([prefix, *resource.upper().replace(".", "/").split("/")])
            if name in environment:
                text = environment[name].removesuffix(",")
                self._addresses[resource] = text.split(",") if text else []

    def pop(self, resource: str) -> str:
        """The next address; NotFoundError where the resource has no variable, or none is left in it."""
        if resource not in self._addresses:
            raise NotFoundError(f"resource {resource} does not exist", kind="resource", name=resource)
        if not self._addresses[resource]:
            raise NotFoundError(
                f"no more addresses to allocate for resource {resource}", kind="resource", name=resource
            )
        address = self._addresses[resource][0]
        for known in self._addresses:
            self._addresses[known] = [other for other in self._addresses[known] if other != address]
        return address


def take_gpus(devices: Mapping[str, str], environment: Mapping[str, str]) -> list[Assigned]:
    """The addresses for a VM's `gpus`, name → deviceName; InvalidError unless it is one for each."""
    return _take(devices, environment, {"pci": _PCI, "mdev": _MDEV}, "GPU/s")


def take_host_devices(devices: Mapping[str, str], environment: Mapping[str, str]) -> list[Assigned]:
    """The addresses for a VM's `hostDevices`, name → deviceName; InvalidError unless it is one for each."""
    return _take(devices, environment, {"pci": _PCI, "mdev": _MDEV, "usb": _USB}, "HostDevice/s")


def _take(
    devices: Mapping[str, str], environment: Mapping[str, str], prefixes: Mapping[str, str], what: str
) -> list[Assigned]:
    taken: list[Assigned] = []
    for bus, prefix in prefixes.items():
        taken += _take_of_bus(bus, AddressPool(prefix, devices.values(), environment), devices)
    if len(taken) != len(devices):
        raise InvalidError(
            f"the number of device plugin {what} do not match the number of devices: "
            f"{len(devices)} wanted, {len(taken)} found",
            field="devices",
        )
    return taken


def _take_of_bus(bus: str, pool: AddressPool, devices: Mapping[str, str]) -> Iterable[Assigned]:
    for name, resource in devices.items():
        try:
            address = pool.pop(resource)
        except NotFoundError:  # another bus may have it; the number tells in the end
            continue
        if address:  # an empty one, as in ",1:2", is used up and stands for nothing
            yield Assigned(name, bus, _checked(name, bus, address))


def _checked(name: str, bus: str, address: str) -> str:
    """An address that the hypervisor's configuration can hold. UUIDs are not looked at."""
    if bus == "pci" and _PCI_ADDRESS.fullmatch(address) is None:
        raise InvalidError(f"device {name}: failed to parse pci address {address}", field=name)
    if bus == "usb" and address.count(":") != 1:
        raise InvalidError(f"device {name}: bad value {address}: want bus:device", field=name)
    return address
