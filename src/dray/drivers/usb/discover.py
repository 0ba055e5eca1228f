"""Find sets of USB devices. A set is known by its ports, which stay when a device is plugged again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dray.drivers.contract import Device, Discovery
from dray.drivers.health import health_for
from dray.drivers.naming import ATTRIBUTE_BYTES, attribute_text, slice_name, usb_id
from dray.drivers.usb.config import UsbConfig, UsbResource, UsbSelector
from dray.hardware.host_root import Place
from dray.hardware.usb import DEVICES, UsbDevice, read_usb

KIND = "usb"
NODES = "/dev/bus/usb"

_Free = dict[str, UsbDevice]


@dataclass(frozen=True, slots=True)
class _Set:
    """Devices for the selectors of a resource, in their order; None where the device on that port is gone."""

    resource: str
    ports: tuple[str, ...]
    members: tuple[UsbDevice | None, ...]


def discover(config: UsbConfig, root: Place, known: Sequence[Device] = ()) -> Discovery:
    """The sets by resource as configured, then by port. A device is in one set only, and in that of `known` where it was."""
    found = read_usb(root)
    free: _Free = {device.port: device for device in found.items}
    sets = [kept for entry in config.resources for kept in _kept(entry, free, known)]
    for entry in config.resources:
        while members := _complete(entry.selectors, free):
            ports = tuple(member.port for member in members)
            sets.append(_Set(entry.resource, ports, members))
    if config.everything:
        sets += [_Set("", (device.port,), (device,)) for device in free.values() if not device.is_hub]
    order = {entry.resource: index for index, entry in reversed(list(enumerate(config.resources)))}
    sets.sort(key=lambda one: (order.get(one.resource, len(order)), one.ports))
    buses = sorted({f"{NODES}/{device.bus:03}" for device in found.items})
    return Discovery(tuple(map(_device, sets)), found.problems, (DEVICES,), (NODES, *buses))


def _kept(entry: UsbResource, free: _Free, known: Sequence[Device]) -> Iterable[_Set]:
    """The sets of before of which something is left: else an unplugged device would tear apart a set in use."""
    for device in sorted(known, key=lambda device: device.id):
        ports = tuple(str(device.attributes.get("ports", "")).split(","))
        if device.resource != entry.resource or len(ports) != len(entry.selectors):
            continue
        pairs = list(zip(ports, entry.selectors, strict=True))
        members = tuple(
            free[port] if port in free and selector.matches(free[port]) else None for port, selector in pairs
        )
        if any(members):
            for port, member in zip(ports, members, strict=True):
                if member is not None:
                    del free[port]
            yield _Set(entry.resource, ports, members)


def _complete(selectors: Sequence[UsbSelector], free: _Free) -> tuple[UsbDevice, ...]:
    """One free device for each selector, taken out of `free`; none where not all are there.

    Exact selectors choose first, so that a loose one does not take the only device that suits them.
    """
    chosen: dict[int, UsbDevice] = {}
    for index in sorted(range(len(selectors)), key=lambda index: (not selectors[index].is_exact, index)):
        taken = {device.port for device in chosen.values()}
        suits = (
            device
            for device in free.values()
            if device.port not in taken and selectors[index].matches(device)
        )
        device = next(suits, None)
        if device is None:
            return ()
        chosen[index] = device
    for device in chosen.values():
        del free[device.port]
    return tuple(chosen[index] for index in range(len(selectors)))


def _device(one: _Set) -> Device:
    members = [member for member in one.members if member is not None]
    reason = _why_unhealthy(one)
    nodes = tuple(member.node for member in members)
    return Device(
        id=usb_id(one.resource, one.ports) if one.resource else one.ports[0],
        kind=KIND,
        resource=one.resource,
        health=health_for(reason),
        reason=reason,
        label=",".join(one.ports),
        attributes=_attributes(one, members),
        paths=nodes,
        watch=nodes,
        addresses=tuple(f"{member.bus}:{member.number}" for member in members),
        name=_name(one.ports),
        hardware=tuple(f"usb:{port}" for port in one.ports),
    )


def _name(ports: Sequence[str]) -> str:
    """`usb-1-2-3`, of a set `usb-2-1--2-2`."""
    first, *others = (port.replace(".", "-") for port in ports)
    return slice_name(f"usb-{first}", *others)


def _why_unhealthy(one: _Set) -> str:
    for port, member in zip(one.ports, one.members, strict=True):
        if member is None:
            return f"the USB device on port {port} is gone: plug it in again"
        if not member.has_node:
            return f"{member.node} does not exist"
    return ""


def _attributes(one: _Set, members: list[UsbDevice]) -> dict[str, str | int | bool]:
    """`ports` is whole, because the next look needs it. What identifies is whole or left out, what describes is cut."""
    attributes: dict[str, str | int | bool] = {"ports": ",".join(one.ports)}
    texts = {
        "id": [member.id for member in members],
        "manufacturer": [member.manufacturer for member in members],
        "product": [member.text for member in members],
        "serial": [member.serial for member in members],
    }
    joined = {name: ",".join(found) for name, found in texts.items() if any(found)}
    joined |= {name: attribute_text(joined[name]) for name in ("manufacturer", "product") if name in joined}
    return attributes | {name: text for name, text in joined.items() if len(text.encode()) <= ATTRIBUTE_BYTES}
