"""A USB device's directory in sysfs, as text: facts in, files out."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TypedDict

from dray.testing.host.nodes import NodeFacts
from dray.testing.host.tree import Attribute, Entry, Link, ro, rw, wo

USB_MAJOR = 189
HUB_CLASS = (9, 0, 0)


@dataclass(frozen=True, slots=True)
class UsbFacts:
    """One device. Ids are hexadecimal text without 0x; texts a device need not have are empty.

    `port` is the path of ports from the root hub, `bus-port[.port…]`: it stays while the device does.
    `interface` is class, subclass and protocol of its one interface, which `interface_driver` has.
    """

    port: str
    vendor: str
    product: str
    serial: str = ""
    manufacturer: str = ""
    name: str = ""
    release: str = "0100"
    speed: str = "480"
    device_class: tuple[int, int, int] = (0, 0, 0)
    interface: tuple[int, int, int] = (255, 0, 0)
    interface_driver: str = ""

    @property
    def is_root_hub(self) -> bool:
        """Whether this is the hub of a bus itself (`usb1`)."""
        return self.port.startswith("usb")

    @property
    def bus(self) -> int:
        """The bus number."""
        return int(self.port.removeprefix("usb").partition("-")[0])

    @property
    def interface_name(self) -> str:
        """The name of its interface: `1-2:1.0`, `1-0:1.0` for a root hub."""
        return f"{self.bus}-0:1.0" if self.is_root_hub else f"{self.port}:1.0"

    @property
    def modalias(self) -> str:
        """What the kernel matches interface drivers by."""
        device, interface = self.device_class, self.interface
        return (
            f"usb:v{self.vendor.upper()}p{self.product.upper()}d{self.release.upper()}"
            f"dc{device[0]:02X}dsc{device[1]:02X}dp{device[2]:02X}"
            f"ic{interface[0]:02X}isc{interface[1]:02X}ip{interface[2]:02X}in00"
        )


class UsbOptions(TypedDict, total=False):
    """The fields of `UsbFacts` by name, where a device is made or changed."""

    vendor: str
    product: str
    serial: str
    manufacturer: str
    name: str
    release: str
    speed: str
    device_class: tuple[int, int, int]
    interface: tuple[int, int, int]
    interface_driver: str


def node_facts(facts: UsbFacts, number: int, directory: str) -> NodeFacts:
    """Its node: /dev/bus/usb/001/002."""
    minor = (facts.bus - 1) * 128 + number - 1
    return NodeFacts(f"dev/bus/usb/{facts.bus:03}/{number:03}", "char", USB_MAJOR, minor, 0o600, directory)


def device_entries(facts: UsbFacts, number: int, node: NodeFacts) -> dict[str, Entry]:
    """The directory of the device (`1-2`), without its interface."""
    entries: dict[str, Entry] = {
        "authorized": rw(1),
        "avoid_reset_quirk": rw(0),
        "bConfigurationValue": rw(1),
        "bDeviceClass": ro(f"{facts.device_class[0]:02x}"),
        "bDeviceProtocol": ro(f"{facts.device_class[2]:02x}"),
        "bDeviceSubClass": ro(f"{facts.device_class[1]:02x}"),
        "bMaxPacketSize0": ro(64),
        "bMaxPower": ro("0mA" if facts.is_root_hub else "100mA"),
        "bNumConfigurations": ro(1),
        "bNumInterfaces": ro(" 1"),
        "bcdDevice": ro(facts.release),
        "bmAttributes": ro("a0"),
        "busnum": ro(facts.bus),
        "configuration": Attribute(""),
        "descriptors": Attribute(descriptors(facts)),
        "dev": ro(node.number),
        "devnum": ro(number),
        "devpath": ro("0" if facts.is_root_hub else facts.port.partition("-")[2]),
        "driver": Link("sys/bus/usb/drivers/usb"),
        "idProduct": ro(facts.product),
        "idVendor": ro(facts.vendor),
        "ltm_capable": ro("no"),
        "maxchild": ro(8 if facts.device_class[0] == HUB_CLASS[0] else 0),
        "quirks": ro("0x0"),
        "removable": ro("unknown"),
        "remove": wo(),
        "rx_lanes": ro(1),
        "speed": ro(facts.speed),
        "subsystem": Link("sys/bus/usb"),
        "tx_lanes": ro(1),
        "uevent": Attribute(_device_uevent(facts, number, node), 0o644),
        "urbnum": ro(0),
        "version": ro(" 2.00"),
    }
    texts = {"manufacturer": facts.manufacturer, "product": facts.name, "serial": facts.serial}
    entries |= {key: ro(text) for key, text in texts.items() if text}
    if facts.is_root_hub:
        entries |= {"authorized_default": rw(1), "interface_authorized_default": rw(1)}
    return entries | {f"ep_00/{key}": entry for key, entry in _control_endpoint().items()}


def interface_entries(facts: UsbFacts) -> dict[str, Entry]:
    """The directory of the device's one interface (`1-2:1.0`)."""
    driver = f"DRIVER={facts.interface_driver}\n" if facts.interface_driver else ""
    lines = (
        f"DEVTYPE=usb_interface\n{driver}PRODUCT={_product(facts)}\nTYPE={_slashed(facts.device_class)}\n"
        f"INTERFACE={_slashed(facts.interface)}\nMODALIAS={facts.modalias}\n"
    )
    entries: dict[str, Entry] = {
        "authorized": rw(1),
        "bAlternateSetting": ro(" 0"),
        "bInterfaceClass": ro(f"{facts.interface[0]:02x}"),
        "bInterfaceNumber": ro("00"),
        "bInterfaceProtocol": ro(f"{facts.interface[2]:02x}"),
        "bInterfaceSubClass": ro(f"{facts.interface[1]:02x}"),
        "bNumEndpoints": ro("00"),
        "modalias": ro(facts.modalias),
        "subsystem": Link("sys/bus/usb"),
        "supports_autosuspend": ro(1),
        "uevent": Attribute(lines, 0o644),
    }
    if facts.interface_driver:
        entries["driver"] = Link(f"sys/bus/usb/drivers/{facts.interface_driver}")
    return entries


def port_entries() -> dict[str, Entry]:
    """One port of a hub, in the hub's interface directory."""
    return {
        "connect_type": ro("unknown"),
        "disable": rw(0),
        "location": ro("0x00000000"),
        "over_current_count": ro(0),
        "quirks": rw("00000000"),
        "uevent": Attribute("", 0o644),
    }


def descriptors(facts: UsbFacts) -> bytes:
    """The device, configuration and interface descriptors, as a program gets them from the device."""
    vendor, product, release = (int(text, 16) for text in (facts.vendor, facts.product, facts.release))
    strings = [
        index if text else 0
        for index, text in enumerate((facts.manufacturer, facts.name, facts.serial), start=1)
    ]
    device = struct.pack(
        "<BBHBBBBHHHBBBB", 18, 1, 0x200, *facts.device_class, 64, vendor, product, release, *strings, 1
    )
    configuration = struct.pack("<BBHBBBBB", 9, 2, 18, 1, 1, 0, 0xA0, 50)
    return device + configuration + struct.pack("<BBBBBBBBB", 9, 4, 0, 0, 0, *facts.interface, 0)


def _device_uevent(facts: UsbFacts, number: int, node: NodeFacts) -> str:
    return (
        f"MAJOR={node.major}\nMINOR={node.minor}\nDEVNAME={node.path.removeprefix('dev/')}\nDEVTYPE=usb_device\n"
        f"DRIVER=usb\nPRODUCT={_product(facts)}\nTYPE={_slashed(facts.device_class)}\n"
        f"BUSNUM={facts.bus:03}\nDEVNUM={number:03}\n"
    )


def _product(facts: UsbFacts) -> str:
    return "/".join(f"{int(text, 16):x}" for text in (facts.vendor, facts.product, facts.release))


def _slashed(numbers: tuple[int, int, int]) -> str:
    return "/".join(str(number) for number in numbers)


def _control_endpoint() -> dict[str, Entry]:
    return {
        "bEndpointAddress": ro("00"),
        "bInterval": ro("00"),
        "bLength": ro("07"),
        "bmAttributes": ro("00"),
        "direction": ro("both"),
        "interval": ro("0ms"),
        "type": ro("Control"),
        "uevent": Attribute("", 0o644),
        "wMaxPacketSize": ro("0040"),
    }
