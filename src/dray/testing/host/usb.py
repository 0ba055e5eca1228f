"""The USB: buses with their root hubs, devices on ports, unplugging and replugging."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from dray.errors import ConflictError, InvalidError
from dray.testing.host.actions import Actions
from dray.testing.host.nodes import Nodes
from dray.testing.host.pci import PciFunction, parse_number
from dray.testing.host.tree import Attribute, Directory, Entry, Link, Tree, rw, verb, wo
from dray.testing.host.usb_files import (
    HUB_CLASS,
    UsbFacts,
    UsbOptions,
    device_entries,
    interface_entries,
    node_facts,
    port_entries,
)

_BUS = "sys/bus/usb"
_PORT = re.compile(r"[1-9][0-9]*-[1-9][0-9]*(\.[1-9][0-9]*)*")
_HEX = re.compile(r"[0-9a-f]{1,4}")
_MAX_NUMBER = 127


class UsbDevice:
    """A device on a port, plugged or not. Made by `Host.usb`."""

    def __init__(self, bus: UsbBus, facts: UsbFacts, directory: str) -> None:
        self._bus = bus
        self.tree = bus.tree
        self.facts = facts
        self.directory = directory
        self.number = 0

    def __repr__(self) -> str:
        return f"<UsbDevice {self.facts.port} {self.facts.vendor}:{self.facts.product} number {self.number}>"

    @property
    def path(self) -> Path:
        """Its directory in sysfs."""
        return self.tree.path(self.directory)

    @property
    def node(self) -> Path:
        """Its node below /dev/bus/usb; another one after each replug."""
        return self.tree.path(node_facts(self.facts, self.number, self.directory).path)

    @property
    def present(self) -> bool:
        """Whether it is plugged in."""
        return self._bus.is_plugged(self)

    @verb
    def unplug(self) -> None:
        """Pull it, and all that hangs on it."""
        self._bus.unplug(self)

    @verb
    def replug(self, number: int | None = None) -> None:
        """Put it back into the same port: it gets the next device number of its bus, or the one given."""
        if not self.present:
            self._bus.plug(self, number)

    @verb
    def set(self, **changes: Unpack[UsbOptions]) -> None:
        """Change facts by name (`serial="7"`); the port stays, and a plugged device comes back with the next number."""
        present = self.present
        self.unplug()
        self.facts = checked(replace(self.facts, **changes))
        if present:
            self._bus.plug(self, None)


class _Controller:
    """A host controller on a PCI function: its bus lives while a driver has the function."""

    def __init__(self, bus: UsbBus, number: int) -> None:
        self._bus = bus
        self._number = number

    def on_bind(self, driver: str) -> None:
        self._bus.enumerate(self._number)

    def on_unbind(self) -> None:
        self._bus.shut_down(self._number)


class UsbBus:
    """All buses and devices. A bus is made with its first device."""

    def __init__(self, tree: Tree, actions: Actions, nodes: Nodes) -> None:
        self.tree = tree
        self._actions = actions
        self._nodes = nodes
        self._devices: dict[str, UsbDevice] = {}
        self._plugged: set[str] = set()
        self._numbers: dict[int, int] = {}
        self._drivers: set[str] = set()
        self._asleep: dict[int, list[str]] = {}

    def add(self, facts: UsbFacts, number: int | None, controller: PciFunction | None) -> UsbDevice:
        """A new device, plugged in; hubs that its port needs are made on the way."""
        facts = checked(facts)
        if not _PORT.fullmatch(facts.port):
            raise InvalidError(f"{facts.port!r} is not a USB port: write it like 1-2 or 1-2.3", field="port")
        if facts.port in self._devices:
            raise ConflictError(f"the host has a USB device on port {facts.port} already")
        parent = self._parent(facts.port, controller)
        device = UsbDevice(self, facts, f"{parent.directory}/{facts.port}")
        self._devices[facts.port] = device
        self.plug(device, number)
        return device

    def is_plugged(self, device: UsbDevice) -> bool:
        """Whether it is there now."""
        return device.facts.port in self._plugged

    def plug(self, device: UsbDevice, number: int | None) -> None:
        """Show the device: directory, interface, links, and its node last."""
        facts = device.facts
        hub = device.directory.rsplit("/", 1)[0]
        if not self.tree.exists(hub):
            raise ConflictError(f"cannot plug in {facts.port}: its hub /{hub} is not there")
        device.number = self._next_number(facts.bus) if number is None else number
        node = node_facts(facts, device.number, device.directory)
        if node.path in self._nodes:
            raise ConflictError(f"device number {device.number} is in use on USB bus {facts.bus}")
        self._numbers[facts.bus] = device.number
        self._actions.register(device.directory, {"remove": partial(_on_remove, device)})
        entries = device_entries(facts, device.number, node)
        interface = facts.interface_name
        entries |= {f"{interface}/{key}": entry for key, entry in interface_entries(facts).items()}
        if not facts.is_root_hub:
            entries["port"] = Link(self._place_port(facts.port))
        self.tree.place(device.directory, entries)
        self._link(device, facts.port, device.directory, "usb")
        self._link(device, interface, f"{device.directory}/{interface}", facts.interface_driver)
        self._nodes.add(node)
        self._plugged.add(facts.port)

    def unplug(self, device: UsbDevice) -> None:
        """Take the device away, its node first. Nothing happens when it is not there."""
        facts = device.facts
        if facts.port not in self._plugged:
            return
        for other in self._below(device):
            self.unplug(other)
        self._plugged.discard(facts.port)
        self._nodes.remove(node_facts(facts, device.number, device.directory).path)
        for name, driver in ((facts.interface_name, facts.interface_driver), (facts.port, "usb")):
            self.tree.remove(f"{_BUS}/drivers/{driver}/{name}") if driver else None
            self.tree.remove(f"{_BUS}/devices/{name}")
        if not facts.is_root_hub:
            self.tree.remove(f"{self._port_directory(facts.port)}/device")
        self._actions.forget(device.directory)
        self.tree.remove(device.directory)

    def enumerate(self, bus: int) -> None:
        """The controller's driver came back: the root hub and what is plugged into it appear, with new numbers."""
        self._numbers[bus] = 0
        for port in self._asleep.pop(bus, []):
            self.plug(self._devices[port], None)

    def shut_down(self, bus: int) -> None:
        """The controller's driver goes: so does the whole bus."""
        root = self._devices[f"usb{bus}"]
        if root.present:
            below = [device.facts.port for device in self._below(root) if device.present]
            self._asleep[bus] = [root.facts.port, *below]
            self.unplug(root)

    def _below(self, device: UsbDevice) -> list[UsbDevice]:
        start = f"{device.directory}/"
        return [other for _, other in sorted(self._devices.items()) if other.directory.startswith(start)]

    def _parent(self, port: str, controller: PciFunction | None) -> UsbDevice:
        """The hub that has this port."""
        up, _, _ = port.rpartition(".")
        if up:
            hub = UsbFacts(up, "05e3", "0608", name="USB2.0 Hub", device_class=HUB_CLASS, interface=HUB_CLASS)
            return self._devices.get(up) or self.add(replace(hub, interface_driver="hub"), None, controller)
        bus = int(port.partition("-")[0])
        return self._devices.get(f"usb{bus}") or self._add_bus(bus, controller)

    def _add_bus(self, bus: int, controller: PciFunction | None) -> UsbDevice:
        if not self.tree.exists(_BUS):
            entries: dict[str, Entry] = {"drivers_autoprobe": rw(1), "drivers_probe": wo(), "uevent": wo()}
            self.tree.place(_BUS, {**entries, "devices": Directory(), "drivers": Directory()})
        home = controller.directory if controller else f"sys/devices/platform/dummy_hcd.{bus - 1}"
        self.tree.mkdir(home)
        facts = UsbFacts(
            port=f"usb{bus}",
            vendor="1d6b",
            product="0002",
            serial=home.rsplit("/", 1)[-1],
            manufacturer="Linux 6.1.0 host controller",
            name="Host Controller",
            release="0601",
            device_class=(9, 0, 1),
            interface=HUB_CLASS,
            interface_driver="hub",
        )
        root = UsbDevice(self, facts, f"{home}/usb{bus}")
        self._devices[facts.port] = root
        self.plug(root, None)
        if controller is not None:
            controller.followers.append(_Controller(self, bus))
        return root

    def _next_number(self, bus: int) -> int:
        """Numbers go up and come round after 127, as the kernel hands them out."""
        taken = {
            device.number
            for device in self._devices.values()
            if self.is_plugged(device) and device.facts.bus == bus
        }
        last = self._numbers.get(bus, 0)
        candidates = [*range(last + 1, _MAX_NUMBER + 1), *range(2, last + 1)]
        number: int | None = next((number for number in candidates if number not in taken), None)
        if number is None:
            raise ConflictError(f"USB bus {bus} has no free device number")
        return number

    def _link(self, device: UsbDevice, name: str, target: str, driver: str) -> None:
        self.tree.link(f"{_BUS}/devices/{name}", target)
        if not driver:
            return
        if driver not in self._drivers:
            self._drivers.add(driver)
            self._place_driver(driver)
        self.tree.link(f"{_BUS}/drivers/{driver}/{name}", target)

    def _place_driver(self, driver: str) -> None:
        """Drivers of interfaces take ids at run time, the driver of whole devices (`usb`) does not. None acts here."""
        module = f"sys/module/{'usbcore' if driver in ('usb', 'hub') else driver.replace('-', '_')}"
        self.tree.write(f"{module}/initstate", Attribute("live\n"))
        entries: dict[str, Entry] = {"bind": wo(), "unbind": wo(), "uevent": wo(), "module": Link(module)}
        if driver != "usb":
            entries |= {"new_id": Attribute("", 0o644), "remove_id": Attribute("", 0o644)}
        self.tree.place(f"{_BUS}/drivers/{driver}", entries)

    def _port_directory(self, port: str) -> str:
        """Where the hub shows the port: `1-0:1.0/usb1-port2` on a root hub, `1-2:1.0/1-2-port3` on another."""
        up, _, last = port.rpartition(".")
        hub = self._devices[up] if up else self._devices[f"usb{port.partition('-')[0]}"]
        number = last if up else port.partition("-")[2]
        return f"{hub.directory}/{hub.facts.interface_name}/{hub.facts.port}-port{number}"

    def _place_port(self, port: str) -> str:
        directory = self._port_directory(port)
        if not self.tree.exists(directory):
            self.tree.place(directory, port_entries())
        self.tree.link(f"{directory}/device", self._devices[port].directory)
        return directory


def checked(facts: UsbFacts) -> UsbFacts:
    """The same facts in the kernel's spelling, or InvalidError."""
    texts: dict[str, Any] = {}
    for name in ("vendor", "product", "release"):
        text = str(getattr(facts, name)).lower().removeprefix("0x")
        if not _HEX.fullmatch(text):
            raise InvalidError(
                f"{name} {getattr(facts, name)!r} is not a hexadecimal number of up to 4 digits", field=name
            )
        texts[name] = text.zfill(4)
    return replace(facts, **texts)


def _on_remove(device: UsbDevice, text: str) -> None:
    if parse_number(text):
        device.unplug()
