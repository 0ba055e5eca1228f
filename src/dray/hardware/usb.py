"""USB devices: what /sys/bus/usb/devices says about each. The port is what stays when a device is plugged again."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dray.errors import Error, HardwareError, InvalidError
from dray.hardware.device_nodes import has_device_node
from dray.hardware.facts import Found, Problem, problem_of, showable
from dray.hardware.host_root import Place
from dray.hardware.parse import decimal, hexadecimal, is_pci_address, pairs
from dray.hardware.sweep import Sweep, SysDirectory

DEVICES = "/sys/bus/usb/devices"
_PORT = re.compile(r"[0-9]{1,5}-[0-9]{1,5}(?:\.[0-9]{1,5})*", re.ASCII)
_NODE = re.compile(r"[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*", re.ASCII)
_HUB = 9


@dataclass(frozen=True, slots=True)
class UsbDevice:
    """One device, hubs included. Ids are four lower-case hexadecimal digits.

    `port` is the path of ports from the bus (`1-2.3`) and the only stable name: `number` and `node` change with every
    plugging. `serial`, `manufacturer` and `text` are the device's own words, empty where it gives none. `controller` is
    the PCI function behind the bus.
    """

    port: str
    bus: int
    number: int
    vendor: str
    product: str
    release: str
    node: str
    has_node: bool
    serial: str = ""
    manufacturer: str = ""
    text: str = ""
    is_hub: bool = False
    controller: str | None = None

    @property
    def id(self) -> str:
        """`vendor:product`."""
        return f"{self.vendor}:{self.product}"


def read_usb(root: Place) -> Found[UsbDevice]:
    """All devices, by port in the order of their text; root hubs (`usb1`) and interfaces (`1-2:1.0`) are none."""
    with root.sweep() as sweep:
        return sweep.read_each(
            DEVICES,
            lambda directory, problems: _read_device(sweep, directory, problems),
            wanted=lambda name: not name.startswith("usb") and ":" not in name,
        )


def _read_device(sweep: Sweep, directory: SysDirectory, problems: list[Problem]) -> UsbDevice:
    if not _PORT.fullmatch(directory.name):
        raise HardwareError(f"{directory.path} has no port for a name", path=directory.path)
    if "idVendor" not in directory:
        raise HardwareError(f"{directory.path} has no idVendor, so it is no USB device", path=directory.path)
    event = pairs(directory.text("uevent"))
    bus, number = _number(directory, event, "BUSNUM"), _number(directory, event, "DEVNUM")
    vendor, product, release = _ids(directory, event)
    node = _node(directory, event.get("DEVNAME") or f"bus/usb/{bus:03}/{number:03}")
    return UsbDevice(
        port=directory.name,
        bus=bus,
        number=number,
        vendor=vendor,
        product=product,
        release=release,
        node=node,
        has_node=has_device_node(sweep, node, problems),
        serial=_words(directory, "serial", problems),
        manufacturer=_words(directory, "manufacturer", problems),
        text=_words(directory, "product", problems),
        is_hub=decimal(event.get("TYPE", "").partition("/")[0]) == _HUB,
        controller=_controller(sweep, directory.path),
    )


def _number(directory: SysDirectory, event: dict[str, str], key: str) -> int:
    number = decimal(event.get(key, ""))
    if number is None or number < 0:
        raise _bad(directory, event, key, "a decimal number")
    return number


def _ids(directory: SysDirectory, event: dict[str, str]) -> tuple[str, str, str]:
    """`46f4/1/100`: vendor, product and release without leading zeros."""
    parts = [hexadecimal(part, 4) for part in event.get("PRODUCT", "").split("/")]
    ids = tuple(part for part in parts if part is not None)
    if len(parts) != 3 or len(ids) != 3:
        raise _bad(directory, event, "PRODUCT", "three hexadecimal numbers")
    return (ids[0], ids[1], ids[2])


def _bad(directory: SysDirectory, event: dict[str, str], key: str, wanted: str) -> HardwareError:
    path = f"{directory.path}/uevent"
    return HardwareError(f"{path} has {key}={event.get(key, '')!r}, not {wanted}", path=path)


def _node(directory: SysDirectory, name: str) -> str:
    if not _NODE.fullmatch(name):
        path = f"{directory.path}/uevent"
        raise HardwareError(f"{path} has DEVNAME={name!r}, not a path below /dev", path=path)
    return f"/dev/{name}"


def _words(directory: SysDirectory, name: str, problems: list[Problem]) -> str:
    """Text out of the device itself: it may hold anything, so control characters are replaced."""
    if name not in directory:
        return ""
    try:
        return showable(directory.text(name).strip())
    except Error as error:
        problems.append(problem_of(error, f"{directory.path}/{name}"))
        return ""


def _controller(sweep: Sweep, path: str) -> str | None:
    """The last PCI address on the way to the device; None where the bus hangs on something else."""
    try:
        parts = sweep.read_link(path).split("/")
    except InvalidError:  # a directory in place of the link, in a tree that somebody made by hand
        return None
    return next((part for part in reversed(parts) if is_pci_address(part)), None)
