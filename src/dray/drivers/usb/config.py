"""What the USB kind serves."""

from __future__ import annotations

import msgspec

from dray.errors import InvalidError
from dray.hardware.parse import hexadecimal
from dray.hardware.usb import UsbDevice


class UsbSelector(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One USB device: all that is given must be so. Ids are hexadecimal without 0x, in any case; `port` is like 1-2.3."""

    vendor: str = ""
    product: str = ""
    port: str = ""
    serial: str = ""

    def __post_init__(self) -> None:
        for field, text in (("vendor", self.vendor), ("product", self.product)):
            if text and (hexadecimal(text, 4) is None or text.lower().startswith("0x")):
                raise InvalidError(
                    f"{field} {text!r} must be up to four hexadecimal digits without 0x", field=field
                )
        if not (self.port or self.serial or (self.vendor and self.product)):
            raise InvalidError(
                "a USB selector needs vendor and product, or a port, or a serial", field="vendor"
            )

    @property
    def is_exact(self) -> bool:
        """Whether it means one device and no equal one."""
        return bool(self.port or self.serial)

    def matches(self, device: UsbDevice) -> bool:
        """Whether the device is one that is meant."""
        wanted = (
            (hexadecimal(self.vendor, 4), device.vendor),
            (hexadecimal(self.product, 4), device.product),
            (self.port or None, device.port),
            (self.serial or None, device.serial),
        )
        return all(value is None or value == found for value, found in wanted)


class UsbResource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A resource: one USB device for each selector make one device to hand out."""

    resource: str
    selectors: tuple[UsbSelector, ...]


class UsbConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which devices; earlier entries take first. `everything` also lists what is left, hubs aside."""

    resources: tuple[UsbResource, ...] = ()
    everything: bool = False
