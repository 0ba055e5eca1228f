"""Names that others see: drivers, devices in slices, CDI devices and files."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from dray.drivers.contract import Device

NVIDIA: Final = "gpu.nvidia.com"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LONGEST: Final = 63
_DIGEST: Final = 8


def driver_name(kind: str, domain: str) -> str:
    """The DRA driver of a kind: `pci.dray.internal`. NVIDIA's GPUs go by NVIDIA's own name."""
    return NVIDIA if kind == "nvidia" else f"{kind}.{domain}"


def device_name(device: Device) -> str:
    """The name in the pool: the device's own, or its id as a DNS label. Two ids never make one name."""
    if device.name:
        return device.name
    plain = re.sub(r"[^a-z0-9]+", "-", device.id.lower()).strip("-")
    if plain == device.id and len(plain) <= _LONGEST and _LABEL.fullmatch(plain):
        return plain
    digest = hashlib.sha256(device.id.encode()).hexdigest()[:_DIGEST]
    return f"{plain[: _LONGEST - _DIGEST - 1].rstrip('-') or device.kind}-{digest}"


def cdi_kind(driver: str) -> str:
    """The CDI kind of a driver's claims."""
    return f"k8s.{driver}/claim"


def cdi_device(claim_uid: str, request: str) -> str:
    """The CDI device of one request. It carries the claim's UID, so that no runtime finds an older one under the name."""
    return f"{claim_uid}-{request.replace('/', '-')}"
