"""Devices and selectors for tests."""

from __future__ import annotations

from typing import Any

from dray.allocation.device_values import DeviceValue
from dray.allocation.features import Features
from dray.allocation.selector import Selector, compile_selector
from dray.api.quantity import Quantity
from dray.api.resource.slice import Device, DeviceAttribute, DeviceCapacity
from dray.api.semver import SemVer

DRIVER = "d.example.com"
A = f'device.attributes["{DRIVER}"]'
C = f'device.capacity["{DRIVER}"]'
LISTS = Features(consumable_capacity=True, list_type_attributes=True)
PLAIN = Features()


def attribute(value: Any) -> DeviceAttribute:
    """By the kind of the value; None has none."""
    match value:
        case bool():
            return DeviceAttribute(bool_value=value)
        case int():
            return DeviceAttribute(int_value=value)
        case str():
            return DeviceAttribute(string_value=value)
        case SemVer():
            return DeviceAttribute(version_value=str(value))
        case list():
            if isinstance(value[0], bool):
                return DeviceAttribute(bool_values=tuple(value))
            if isinstance(value[0], int):
                return DeviceAttribute(int_values=tuple(value))
            return DeviceAttribute(string_values=tuple(value))
    return DeviceAttribute()


def device(amounts: dict[str, str] | None = None, multiple: bool | None = None, **attributes: Any) -> Device:
    """A device with these attributes and capacities; two underscores stand for the slash of a name."""
    return Device(
        name="device",
        attributes={name.replace("__", "/"): attribute(value) for name, value in attributes.items()},
        capacity={name: DeviceCapacity(value=Quantity(amount)) for name, amount in (amounts or {}).items()},
        allow_multiple_allocations=multiple,
    )


def selector(text: str, features: Features = LISTS, *, stored: bool = True) -> Selector:
    return compile_selector(text, features, stored=stored)


def prepared(one: Device, features: Features = LISTS) -> DeviceValue:
    return selector("true", features).prepare(DRIVER, one)
