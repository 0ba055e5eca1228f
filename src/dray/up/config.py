"""The agent's configuration of `dray up`, where the user gives none: what this machine has, offered and not touched.

KubeVirt's permanent devices go through device plugins, as they do there. What is found beyond goes through DRA: GPUs,
mediated devices that exist, USB devices, and PCI functions that somebody has given to vfio-pci before. A PCI function that
a driver of the host has is the host's, and no mediated device is made or removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dray.agent.config import load_agent_config
from dray.agent.config.additions import DEFAULT_DOMAIN
from dray.api.codec import dump_yaml
from dray.api.kubevirt.mdev_types import normalize_type_name
from dray.api.names import extended_resource_name
from dray.drivers.contract import Device
from dray.errors import InvalidError
from dray.runtime.logs import get_log

_log = get_log("up")

_DOORS: Final = {
    "generic": "plugin",
    "mdev": "dra",
    "nvidia": "dra",
    "pci": "dra",
    "sim": "dra",
    "usb": "dra",
}
"""One door each: what two doors offer can be promised twice in the same moment, and then somebody has to wait."""


def usable_config(found: Sequence[Device], sim: Mapping[str, Any] | None = None) -> str:
    """`machine_config`; where something about the devices is so odd that it would be refused, one without those of them
    that are not permanent: the machine comes up all the same, and the log says what is missing."""
    text = machine_config(found, sim)
    try:
        load_agent_config(text, "what was found")
    except InvalidError as error:
        _log.warning("devices that were found cannot be offered", error=str(error))
        return machine_config((), sim)
    return text


def machine_config(found: Iterable[Device], sim: Mapping[str, Any] | None = None) -> str:
    """The text of a configuration for these devices; the same devices, the same text.

    `sim` is the content of `dray.sim`. Simulated devices go through DRA, but those with a resource name of their own, which
    go through a device plugin.
    """
    devices = sorted(found, key=lambda one: (one.kind, one.id))
    additions: dict[str, Any] = {"doors": dict(_DOORS), "select": [*_pci(devices), *_usb(devices)]}
    if any(one.kind == "nvidia" for one in devices):
        additions["nvidia"] = {}
    if sim:
        additions["sim"] = dict(sim)
        named = {one.get("resourceName") for one in sim.get("devices", ())}
        additions["doors"] |= dict.fromkeys(sorted(filter(None, named)), "plugin")
    return dump_yaml(
        {
            "permittedHostDevices": {"mediatedDevices": _mdevs(devices)},
            "mediatedDevicesConfiguration": {"enabled": False},
            "dray": additions,
        }
    )


def _pci(devices: Iterable[Device]) -> list[dict[str, str]]:
    """One entry a device: the function that leads its IOMMU group."""
    return [
        {
            "pciAddress": str(one.attributes["address"]),
            "resourceName": _resource(f"pci-{one.attributes['vendor']}-{one.attributes['device']}"),
        }
        for one in devices
        if one.kind == "pci"
    ]


def _usb(devices: Iterable[Device]) -> list[dict[str, str]]:
    return [
        {
            "usbPort": str(one.attributes["ports"]),
            "resourceName": _resource(f"usb-{one.attributes.get('id', 'device')}"),
        }
        for one in devices
        if one.kind == "usb"
    ]


def _mdevs(devices: Iterable[Device]) -> list[dict[str, str]]:
    """One entry a type. Types whose name is cut in the device's attributes, or has no letters, are left out."""
    types = {str(one.attributes["type"]) for one in devices if one.kind == "mdev"}
    named = {normalize_type_name(name): name for name in sorted(types, reverse=True) if name}
    return [
        {"mdevNameSelector": name, "resourceName": resource}
        for _, name in sorted(named.items())
        if not extended_resource_name(resource := _resource(name))
    ]


def _resource(name: str) -> str:
    return f"{DEFAULT_DOMAIN}/{''.join(one if one.isalnum() and one.isascii() else '-' for one in name).strip('-')}"
