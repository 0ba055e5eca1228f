"""What a PCI function is: the facts a test states, checked and in the kernel's spelling."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from dray.errors import InvalidError
from dray.hardware.parse import pci_address


@dataclass(frozen=True, slots=True)
class Sriov:
    """What a physical function can make: `total` functions, and what each will be.

    `vf_driver` is the driver that takes a new one by itself (none: it stays free). `offset` and `stride` place them:
    0000:41:00.0 with offset 4 and stride 1 has 0000:41:00.4, 0000:41:00.5, …
    """

    total: int
    offset: int = 4
    stride: int = 1
    vf_device: str = ""
    vf_driver: str = ""
    vf_vgpu_types: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PciFacts:
    """One function. Ids are hexadecimal text without 0x; `iommu_group` None is a machine without IOMMU.

    `class_code` has six digits (030200: 3D controller). `secondary_bus` makes a bridge. `vgpu_types` are the NVIDIA vGPU
    profiles a virtual function offers, by number.
    """

    address: str
    vendor: str
    device: str
    class_code: str = "000000"
    subsystem_vendor: str = ""
    subsystem_device: str = "0000"
    revision: str = "00"
    numa_node: int = -1
    iommu_group: int | None = None
    link_speed: str = "16.0 GT/s PCIe"
    link_width: int = 16
    secondary_bus: int | None = None
    vgpu_types: Mapping[int, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """`vendor:device`, in lower case."""
        return f"{self.vendor}:{self.device}"

    @property
    def bus(self) -> str:
        """`domain:bus`."""
        return self.address.rsplit(":", 1)[0]

    @property
    def modalias(self) -> str:
        """What the kernel matches drivers by."""
        base, sub, interface = (self.class_code[i : i + 2].upper() for i in (0, 2, 4))
        names = (
            ("v", self.vendor),
            ("d", self.device),
            ("sv", self.subsystem_vendor),
            ("sd", self.subsystem_device),
        )
        ids = "".join(f"{name}0000{value.upper()}" for name, value in names)
        return f"pci:{ids}bc{base}sc{sub}i{interface}"


class PciOptions(TypedDict, total=False):
    """The fields of `PciFacts` by name, where a function is made or changed."""

    vendor: str
    device: str
    class_code: str
    subsystem_vendor: str
    subsystem_device: str
    revision: str
    numa_node: int
    iommu_group: int | None
    link_speed: str
    link_width: int
    secondary_bus: int | None
    vgpu_types: Mapping[int, str]


def checked(facts: PciFacts) -> PciFacts:
    """The same facts in the kernel's spelling, or InvalidError."""
    address = pci_address(facts.address)
    if address is None:
        raise InvalidError(
            f"{facts.address!r} is not a PCI address: write it like 0000:05:00.0", field="address"
        )
    ids: dict[str, Any] = {
        name: _hexadecimal(name, getattr(facts, name), digits)
        for name, digits in (
            ("vendor", 4),
            ("device", 4),
            ("class_code", 6),
            ("subsystem_device", 4),
            ("revision", 2),
        )
    }
    ids["subsystem_vendor"] = _hexadecimal("subsystem_vendor", facts.subsystem_vendor or ids["vendor"], 4)
    return replace(facts, address=address, **ids)


def vf_address(physical: str, sriov: Sriov, index: int) -> str:
    """The address of the virtual function `index`, by its routing id."""
    domain, bus, rest = physical.split(":")
    slot, _, function = rest.partition(".")
    routing = (int(bus, 16) << 8 | int(slot, 16) << 3 | int(function)) + sriov.offset + sriov.stride * index
    return f"{domain}:{routing >> 8:02x}:{routing >> 3 & 0x1F:02x}.{routing & 7}"


def _hexadecimal(name: str, value: str, digits: int) -> str:
    text = value.lower().removeprefix("0x")
    if not re.fullmatch(rf"[0-9a-f]{{1,{digits}}}", text):
        raise InvalidError(
            f"{name} {value!r} is not a hexadecimal number of up to {digits} digits", field=name
        )
    return text.zfill(digits)
