"""Every fault of a KubeVirt configuration that would make its devices never match, or match by chance.

KubeVirt itself takes most of these and then serves nothing, or whatever entry came last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from dray.api import names
from dray.api.field_errors import FieldError, Path
from dray.api.kubevirt.permanent import HYPERVISORS, RESERVED_RESOURCES, tdx_attestation
from dray.api.kubevirt.types import (
    Configuration,
    MediatedDevicesConfiguration,
    MediatedHostDevice,
    NodeMediatedDeviceTypes,
    PciHostDevice,
    PermittedHostDevices,
    UsbHostDevice,
)
from dray.api.validation.faults import by_rule, invalid, not_supported, required, too_many

MAX_COUNT: Final = 50_000
"""Of one resource: a list of more does not fit into the 4 MiB the kubelet accepts."""

_is_pci_ids: Final = re.compile(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{4}").fullmatch
_is_usb_id: Final = re.compile(r"[0-9A-Fa-f]{1,4}").fullmatch
_PCI_IDS_RULE: Final = "must be vendor and device as four hexadecimal digits each, like '10de:1eb8'"
_USB_ID_RULE: Final = "must be one to four hexadecimal digits without 0x, like '46f4'"


def validate_configuration(configuration: Configuration, path: Path) -> list[FieldError]:
    """What is wrong with each value by itself; `path` is where the configuration stands."""
    permitted = configuration.permitted_host_devices or PermittedHostDevices()
    here = path.child("permittedHostDevices")
    errors: list[FieldError] = []
    for position, pci in enumerate(permitted.pci_host_devices):
        errors += _pci(pci, here.child("pciHostDevices").index(position))
    for position, mdev in enumerate(permitted.mediated_devices):
        errors += _mdev(mdev, here.child("mediatedDevices").index(position))
    for position, usb in enumerate(permitted.usb):
        errors += _usb(usb, here.child("usb").index(position))
    errors += _mdev_types(configuration, path.child("mediatedDevicesConfiguration"))
    return errors + _settings(configuration, path)


def check_pci_ids(value: str, path: Path) -> list[FieldError]:
    """A `vendor:device` selector."""
    if not value:
        return [required(path)]
    return [] if _is_pci_ids(value) else [invalid(path, value, _PCI_IDS_RULE)]


def check_resource_name(value: str, path: Path) -> list[FieldError]:
    """The name of a resource that a device plugin may register and KubeVirt has not taken."""
    if not value:
        return [required(path)]
    if value in RESERVED_RESOURCES:
        return [invalid(path, value, "is the name of one of KubeVirt's own devices")]
    return by_rule(names.extended_resource_name, value, path)


def check_count(value: int, path: Path) -> list[FieldError]:
    """How often one device may be handed out."""
    return [] if 1 <= value <= MAX_COUNT else [invalid(path, value, f"must be between 1 and {MAX_COUNT}")]


def check_absolute_path(value: str, path: Path) -> list[FieldError]:
    """A path on the host, spelled in the one clean way."""
    if not value:
        return [required(path)]
    parts = value.split("/")[1:]
    if not value.startswith("/") or not value.isprintable():
        return [invalid(path, value, "must be an absolute path")]
    if any(part in ("", ".", "..") for part in parts):
        return [invalid(path, value, "must not hold '//', '.' or '..', nor end in '/'")]
    return []


def check_labels(labels: Mapping[str, str], path: Path) -> list[FieldError]:
    """Labels of a node, or a selector made of them."""
    errors: list[FieldError] = []
    for key, value in sorted(labels.items()):
        errors += by_rule(names.label_key, key, path.key(key)) + by_rule(
            names.label_value, value, path.key(key)
        )
    return errors


def _pci(entry: PciHostDevice, path: Path) -> list[FieldError]:
    return check_pci_ids(entry.pci_vendor_selector, path.child("pciVendorSelector")) + check_resource_name(
        entry.resource_name, path.child("resourceName")
    )


def _mdev(entry: MediatedHostDevice, path: Path) -> list[FieldError]:
    return _type_name(entry.mdev_name_selector, path.child("mdevNameSelector")) + check_resource_name(
        entry.resource_name, path.child("resourceName")
    )


def _usb(entry: UsbHostDevice, path: Path) -> list[FieldError]:
    errors = check_resource_name(entry.resource_name, path.child("resourceName"))
    if not entry.selectors:
        errors.append(required(path.child("selectors"), "without one no device matches"))
    for position, selector in enumerate(entry.selectors):
        here = path.child("selectors").index(position)
        errors += _usb_id(selector.vendor, here.child("vendor"))
        errors += _usb_id(selector.product, here.child("product"))
    return errors


def _usb_id(value: str, path: Path) -> list[FieldError]:
    if not value:
        return [required(path)]
    return [] if _is_usb_id(value) else [invalid(path, value, _USB_ID_RULE)]


def _type_name(value: str, path: Path) -> list[FieldError]:
    if not value.strip():
        return [required(path, "the name or id of a type of mediated devices")]
    return [] if value.isprintable() else [invalid(path, value, "must be printable text on one line")]


def _mdev_types(configuration: Configuration, path: Path) -> list[FieldError]:
    wanted = configuration.mediated_devices_configuration
    if wanted is None:
        return []
    errors = _type_lists(wanted, path)
    for position, entry in enumerate(wanted.node_mediated_device_types):
        here = path.child("nodeMediatedDeviceTypes").index(position)
        errors += check_labels(entry.node_selector, here.child("nodeSelector")) + _type_lists(entry, here)
    return errors


def _type_lists(
    entry: MediatedDevicesConfiguration | NodeMediatedDeviceTypes, path: Path
) -> list[FieldError]:
    errors: list[FieldError] = []
    for field, types in (
        ("mediatedDeviceTypes", entry.mediated_device_types),
        ("mediatedDevicesTypes", entry.mediated_devices_types),
    ):
        for position, name in enumerate(types):
            errors += _type_name(name, path.child(field).index(position))
    return errors


def _settings(configuration: Configuration, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    limit = configuration.virtual_machine_instances_per_node
    if limit is not None:
        errors += check_count(limit, path.child("virtualMachineInstancesPerNode"))
    socket = tdx_attestation(configuration).qgs_socket_path
    if socket is not None:
        here = path.child("confidentialCompute", "tdx", "attestation", "qgsSocketPath")
        errors += check_absolute_path(socket, here)
    hypervisors = path.child("hypervisors")
    if len(configuration.hypervisors) > 1:
        errors.append(too_many(hypervisors, len(configuration.hypervisors), 1))
    for position, hypervisor in enumerate(configuration.hypervisors):
        if hypervisor.name not in HYPERVISORS:
            here = hypervisors.index(position).child("name")
            errors.append(not_supported(here, hypervisor.name, HYPERVISORS))
    return errors
