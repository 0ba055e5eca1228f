"""What Dray adds to KubeVirt's configuration, under `dray:`, and the rules for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from dray.agent.config.doors import validate_doors
from dray.api import names
from dray.api.field_errors import FieldError, Path
from dray.api.kubevirt.validation import (
    check_absolute_path,
    check_count,
    check_labels,
    check_pci_ids,
    check_resource_name,
)
from dray.api.meta import Int64, Model
from dray.api.names import size
from dray.api.validation.faults import (
    by_rule_or_required,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from dray.drivers.nvidia.config import NvidiaConfig
from dray.drivers.nvidia.validation import validate_nvidia
from dray.drivers.sim.config import SimConfig
from dray.drivers.sim.validation import validate_sim
from dray.hardware.parse import pci_address

DEFAULT_DOMAIN: Final = "dray.internal"
MAX_DOMAIN: Final = 55
"""What 63 bytes of a driver's name leave after the longest kind and a dot."""
_WILDCARDS: Final = frozenset("*?[")
_is_usb_port: Final = re.compile(r"[1-9][0-9]*-[1-9][0-9]*(?:\.[1-9][0-9]*)*").fullmatch
_MAX_PROFILE: Final = 999_999_999


class Role(StrEnum):
    """`replace`: serve what virt-handler would. `beside-kubevirt`: only what KubeVirt leaves to others."""

    REPLACE = "replace"
    BESIDE_KUBEVIRT = "beside-kubevirt"


class Unit(StrEnum):
    """How PCI devices are named: by IOMMU group, or by function where the config names one of the group."""

    IOMMU_GROUP = "iommu-group"
    FUNCTION = "function"


class GenericPath(Model, frozen=True, kw_only=True):
    """A device node, or all that match a pattern; each may be handed out `count` times at once."""

    name: str = ""
    path: str = ""
    glob: str = ""
    count: Int64 = 1
    pre_open: bool = False
    resource_name: str = ""
    """Empty is `<domain>/<name>`."""


class Selection(Model, frozen=True, kw_only=True):
    """One device by its place or serial number; it goes before every selector by vendor."""

    pci_address: str = ""
    usb_port: str = ""
    usb_serial: str = ""
    resource_name: str = ""


class VgpuProfile(Model, frozen=True, kw_only=True):
    """The vGPU profile to write to a virtual function: NVIDIA's number or name for it."""

    address: str = ""
    pci_vendor_selector: str = ""
    profile: int | str = ""


class DraSettings(Model, frozen=True, kw_only=True):
    """How the DRA door works. `metadata`: a file about its devices for each claim; `create_classes`: DeviceClasses are made."""

    metadata: bool = True
    create_classes: bool = True


class Additions(Model, frozen=True, kw_only=True):
    """The content of `dray:`."""

    role: str = ""
    domain: str = DEFAULT_DOMAIN
    unit: str = Unit.IOMMU_GROUP.value
    node_labels: dict[str, str] = msgspec.field(default_factory=dict)
    generic: tuple[GenericPath, ...] = ()
    select: tuple[Selection, ...] = ()
    vgpu_profiles: tuple[VgpuProfile, ...] = ()
    sim: SimConfig = SimConfig()
    nvidia: NvidiaConfig | None = None
    """None: GPUs are left to others; `{}` serves them as NVIDIA's own driver would."""
    doors: dict[str, str] = msgspec.field(default_factory=dict)
    """`*`, a kind or a resource, to `plugin`, `dra` or `both`."""
    dra: DraSettings = DraSettings()


def validate_additions(additions: Additions, path: Path) -> list[FieldError]:
    """What is wrong with each value by itself, and what is there twice."""
    errors = _choice(additions.role, (*Role, ""), path.child("role")) + _choice(
        additions.unit, tuple(Unit), path.child("unit")
    )
    errors += _domain(additions.domain, path.child("domain"))
    errors += check_labels(additions.node_labels, path.child("nodeLabels"))
    for position, generic in enumerate(additions.generic):
        errors += _generic(generic, additions.domain, path.child("generic").index(position))
    for position, selection in enumerate(additions.select):
        errors += _selection(selection, path.child("select").index(position))
    for position, profile in enumerate(additions.vgpu_profiles):
        errors += _profile(profile, path.child("vgpuProfiles").index(position))
    errors += validate_sim(additions.sim, path.child("sim"), additions.domain)
    if additions.nvidia is not None:
        errors += validate_nvidia(additions.nvidia, path.child("nvidia"))
    errors += validate_doors(additions.doors, path.child("doors"))
    return errors + _repeated(additions, path)


def resource_of(generic: GenericPath, additions: Additions) -> str:
    """The resource a generic path is served as."""
    return generic.resource_name or f"{additions.domain}/{generic.name}"


def _choice(value: str, allowed: Sequence[str], path: Path) -> list[FieldError]:
    return [] if value in allowed else [not_supported(path, value, [one for one in allowed if one])]


def _domain(value: str, path: Path) -> list[FieldError]:
    """Driver names are made of it: `<kind>.<domain>`, in lower case."""
    if size(value) > MAX_DOMAIN:
        return [too_long(path, MAX_DOMAIN)]
    return by_rule_or_required(names.dns_subdomain, value, path)


def _generic(entry: GenericPath, domain: str, path: Path) -> list[FieldError]:
    errors = by_rule_or_required(names.dns_label, entry.name, path.child("name"))
    errors += check_count(entry.count, path.child("count"))
    if entry.resource_name or not (errors or names.dns_subdomain(domain)):
        resource = entry.resource_name or f"{domain}/{entry.name}"
        errors += check_resource_name(resource, path.child("resourceName"))
    if bool(entry.path) == bool(entry.glob):
        text = "give a path or a glob, not both"
        return [
            *errors,
            forbidden(path.child("glob"), text) if entry.path else required(path.child("path"), text),
        ]
    if entry.path:
        here = path.child("path")
        hint = [invalid(here, entry.path, "holds wildcards: say glob instead of path")]
        return errors + (hint if _WILDCARDS & set(entry.path) else check_absolute_path(entry.path, here))
    errors += check_absolute_path(entry.glob, path.child("glob"))
    if not _WILDCARDS & set(entry.glob):
        errors.append(invalid(path.child("glob"), entry.glob, "holds no wildcard: say path instead of glob"))
    return errors


def _selection(entry: Selection, path: Path) -> list[FieldError]:
    errors = check_resource_name(entry.resource_name, path.child("resourceName"))
    if entry.pci_address:
        errors += _pci_address(entry.pci_address, path.child("pciAddress"))
    if entry.usb_port and not _is_usb_port(entry.usb_port):
        text = "must be a bus and the ports from there, like '1-2.3'"
        errors.append(invalid(path.child("usbPort"), entry.usb_port, text))
    if entry.usb_serial and not entry.usb_serial.isprintable():
        errors.append(
            invalid(path.child("usbSerial"), entry.usb_serial, "must be printable text on one line")
        )
    is_usb = bool(entry.usb_port or entry.usb_serial)
    if is_usb == bool(entry.pci_address):
        text = "give a pciAddress, or a usbPort or usbSerial or both"
        errors.append(forbidden(path, text) if is_usb else required(path, text))
    return errors


def _profile(entry: VgpuProfile, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    if entry.address:
        errors += _pci_address(entry.address, path.child("address"))
    if entry.pci_vendor_selector:
        errors += check_pci_ids(entry.pci_vendor_selector, path.child("pciVendorSelector"))
    if bool(entry.address) == bool(entry.pci_vendor_selector):
        text = "give an address or a pciVendorSelector, not both"
        errors.append(forbidden(path, text) if entry.address else required(path, text))
    return errors + _profile_value(entry.profile, path.child("profile"))


def _profile_value(value: int | str, path: Path) -> list[FieldError]:
    if isinstance(value, str) and not value.strip():
        return [required(path, "the number or the name of a vGPU type")]
    if isinstance(value, str) and not (value.isascii() and value.isdigit()):
        return [] if value.isprintable() else [invalid(path, value, "must be printable text on one line")]
    is_number = len(str(value)) <= len(str(_MAX_PROFILE)) and int(value) >= 1
    return [] if is_number else [invalid(path, value, f"must be between 1 and {_MAX_PROFILE}")]


def _pci_address(value: str, path: Path) -> list[FieldError]:
    if pci_address(value) is not None:
        return []
    text = "must be domain:bus:device.function as lspci -D shows it, like '0000:05:00.0'"
    return [invalid(path, value, text)]


def _repeated(additions: Additions, path: Path) -> list[FieldError]:
    generic, select, profiles = path.child("generic"), path.child("select"), path.child("vgpuProfiles")
    return [
        *_twice(((one.name, generic.index(at).child("name")) for at, one in enumerate(additions.generic))),
        *_twice(
            (
                (resource_of(one, additions) if one.name else "", generic.index(at).child("resourceName"))
                for at, one in enumerate(additions.generic)
            )
        ),
        *_twice(
            (pci_address(one.pci_address) or "", select.index(at).child("pciAddress"))
            for at, one in enumerate(additions.select)
        ),
        *_twice(
            (_usb_key(one), select.index(at).child("usbPort" if one.usb_port else "usbSerial"))
            for at, one in enumerate(additions.select)
        ),
        *_twice(
            (pci_address(one.address) or "", profiles.index(at).child("address"))
            for at, one in enumerate(additions.vgpu_profiles)
        ),
        *_twice(
            (one.pci_vendor_selector.lower(), profiles.index(at).child("pciVendorSelector"))
            for at, one in enumerate(additions.vgpu_profiles)
        ),
    ]  # fmt: skip


def _usb_key(entry: Selection) -> str:
    parts = (("port", entry.usb_port), ("serial", entry.usb_serial))
    return ", ".join(f"{name} {value}" for name, value in parts if value)


def _twice(keys: Iterable[tuple[str, Path]]) -> list[FieldError]:
    """The entries whose key an earlier one has; empty keys do not count."""
    seen: set[str] = set()
    errors = []
    for key, path in keys:
        if key and key in seen:
            errors.append(duplicate(path, key))
        seen.add(key)
    return errors
