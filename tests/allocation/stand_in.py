"""Selectors for tests of the allocator alone: each expression is looked up by its text. CEL itself is tested in cel/."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dray.allocation.faults import SelectorError
from dray.allocation.features import Features
from dray.api.quantity import Quantity
from dray.api.resource.slice import Device, DeviceAttribute
from dray.api.semver import is_semver

Predicate = Callable[[str, Device], bool]


def attribute(driver: str, device: Device, name: str) -> Any:
    """An attribute in driver-a's domain, or the evaluator's error."""
    found = device.attributes.get(f"driver-a/{name}")
    if found is None and driver == "driver-a":
        found = device.attributes.get(name)
    if found is None:
        raise SelectorError(f"no such key: {name}")
    return next(
        value
        for value in (found.string_value, found.int_value, found.bool_value, found.version_value)
        if value is not None
    )


def capacity(driver: str, device: Device, name: str) -> Quantity:
    if driver != "driver-a" or name not in device.capacity:
        raise SelectorError(f"no such key: {name}")
    return device.capacity[name].value


def _is(name: str, *values: Any) -> Predicate:
    return lambda driver, device: attribute(driver, device, name) in values


def _at_least(name: str, amount: str) -> Predicate:
    return lambda driver, device: capacity(driver, device, name) >= Quantity(amount)


def _driver(wanted: str, multiple: bool | None = None) -> Predicate:
    return lambda driver, device: (
        driver == wanted and (multiple is None or bool(device.allow_multiple_allocations) is multiple)
    )


def _no_such_variable(driver: str, device: Device) -> bool:
    raise SelectorError(
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'noSuchVar' (in container '')",
        compiled=False,
    )


EXPRESSIONS: dict[str, Predicate] = {
    "true": lambda driver, device: True,
    "false": lambda driver, device: False,
    "noSuchVar": _no_such_variable,
    'device.driver == "driver-a"': _driver("driver-a"),
    'device.driver == "driver-b"': _driver("driver-b"),
    'device.driver == "driver-a" && device.allowMultipleAllocations == true': _driver("driver-a", True),
    'device.driver == "driver-a" && device.allowMultipleAllocations == false': _driver("driver-a", False),
    'device.attributes["driver-a"].mode == "b"': _is("mode", "b"),
    'device.attributes["driver-a"].type == "X"': _is("type", "X"),
    'device.attributes["driver-a"].type == "Y"': _is("type", "Y"),
    'device.attributes["driver-a"].kind == "shared"': _is("kind", "shared"),
    'device.attributes["driver-a"].kind == "gate"': _is("kind", "gate"),
    'device.attributes["driver-a"].kind == "shared" || device.attributes["driver-a"].kind == "fallback"': _is(
        "kind", "shared", "fallback"
    ),
    'device.attributes["driver-a"].generation == "v5"': _is("generation", "v5"),
    'device.attributes["driver-a"].generation == "v6"': _is("generation", "v6"),
    'device.driver == "driver-a" && device.attributes["driver-a"].selected': lambda driver, device: (
        driver == "driver-a" and bool(attribute(driver, device, "selected"))
    ),
    'device.capacity["driver-a"]["capacity-0"].compareTo(quantity("4")) >= 0': _at_least("capacity-0", "4"),
    'device.capacity["driver-a"]["capacity-0"].compareTo(quantity("2")) >= 0': _at_least("capacity-0", "2"),
    **{
        f'device.capacity["driver-a"].memory.compareTo(quantity("{amount}")) >= 0': _at_least(
            "memory", amount
        )
        for amount in ("1Gi", "2Gi", "4Gi", "6Gi")
    },
}


class StandIn:
    """Counts its evaluations; every attribute must be of a known kind before anything is evaluated, as with CEL."""

    def __init__(self, features: Features, expressions: dict[str, Predicate] | None = None) -> None:
        self.lists = features.list_type_attributes
        self.expressions = EXPRESSIONS if expressions is None else EXPRESSIONS | expressions
        self.evaluations = 0

    def matches(self, expression: str, driver: str, device: Device) -> bool:
        self.evaluations += 1
        for name, value in sorted(device.attributes.items()):
            if not self._is_known(value):
                raise SelectorError(f"attribute {name}: unsupported attribute value")
            versions = (
                (value.version_value,) if value.version_value is not None else value.version_values or ()
            )
            if not all(is_semver(one) for one in versions):
                raise SelectorError(f"attribute {name}: parse semantic version")
        return self.expressions[expression](driver, device)

    def _is_known(self, value: DeviceAttribute) -> bool:
        scalars = (value.int_value, value.bool_value, value.string_value, value.version_value)
        lists = (value.int_values, value.bool_values, value.string_values, value.version_values)
        return any(one is not None for one in scalars) or (
            self.lists and any(one is not None for one in lists)
        )
