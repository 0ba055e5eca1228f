"""A device as CEL selectors see it: made once, read by every selector, and compared by what a selector reads of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from dray.api.resource.slice import Device, DeviceAttribute
from dray.cel.faults import EvaluationError
from dray.cel.library.quantity import QuantityValue
from dray.cel.library.semver import parse_semver
from dray.cel.reads import Read
from dray.cel.values import MISSING, DefaultMap, Value

DRIVER: Final = "driver"
ATTRIBUTES: Final = "attributes"
CAPACITY: Final = "capacity"
MULTIPLE: Final = "allowMultipleAllocations"
EVERYTHING: Final = ""

_NOTHING: Final[dict[str, Value]] = {}


@dataclass(frozen=True, slots=True)
class DeviceValue:
    """What `device` stands for. With a `fault`, one of the attributes has no value, and no selector has an answer."""

    value: dict[str, Any]
    fault: str = ""


def prepare(driver: str, device: Device, *, lists: bool) -> DeviceValue:
    """The value for all selectors; it does not change. `lists`: whether list attributes are known (a feature).

    Maps are in the order of their keys: an expression that walks over them has one answer.
    """
    attributes: dict[tuple[str, str], Value] = {}
    for name, attribute in sorted(device.attributes.items()):
        try:
            attributes[_qualified(name, driver)] = _attribute_value(attribute, lists)
        except EvaluationError as error:
            return DeviceValue({}, f"attribute {name}: {error}")
    amounts = {
        _qualified(name, driver): QuantityValue(capacity.value)
        for name, capacity in sorted(device.capacity.items())
    }
    return DeviceValue(
        {
            DRIVER: driver,
            MULTIPLE: bool(device.allow_multiple_allocations),
            ATTRIBUTES: _by_domain(attributes),
            CAPACITY: _by_domain(amounts),
        }
    )


def _qualified(name: str, driver: str) -> tuple[str, str]:
    """A name without a domain is in its driver's."""
    domain, slash, rest = name.partition("/")
    return (domain, rest) if slash else (driver, name)


def _attribute_value(attribute: DeviceAttribute, lists: bool) -> Value:
    """Raises `EvaluationError` where it has none."""
    if lists:
        for values in (attribute.int_values, attribute.bool_values, attribute.string_values):
            if values is not None:
                return values
        if attribute.version_values is not None:
            return tuple(map(_version, attribute.version_values))
    for value in (attribute.int_value, attribute.bool_value, attribute.string_value):
        if value is not None:
            return value
    if attribute.version_value is not None:
        return _version(attribute.version_value)
    raise EvaluationError("unsupported attribute value")


def _version(text: str) -> Value:
    try:
        return parse_semver(text)
    except EvaluationError as error:
        raise EvaluationError(f"parse semantic version: {error}") from None


def _by_domain(values: dict[tuple[str, str], Value]) -> DefaultMap:
    """Every domain can be looked up: one that the device does not have is empty."""
    domains: dict[str, dict[str, Value]] = {}
    for (domain, name), value in sorted(values.items(), key=lambda entry: entry[0]):
        domains.setdefault(domain, {})[name] = value
    return DefaultMap(domains, _NOTHING)


class Place(NamedTuple):
    """Something that a selector reads. Without a name it is a whole domain, without a domain all of its kind, and kind
    EVERYTHING is the whole device. With `is_test` only whether it is there."""

    kind: str
    domain: str = ""
    name: str = ""
    is_test: bool = False

    def __str__(self) -> str:
        text = f"device.{self.kind}" if self.kind else "device"
        if self.domain:
            text += f'["{self.domain}"]'
        return f"{text}.{self.name}" if self.name else text

    def find(self, device: DeviceValue) -> Value:
        """What is there, MISSING if nothing; for a test whether something is there."""
        return _finder(self)(device.value)


def _finder(place: Place) -> Callable[[dict[str, Any]], Value]:
    kind, domain, name, is_test = place
    if not kind:
        return lambda value: value
    if not domain:
        return lambda value: value[kind]
    if not name:
        if is_test:
            return lambda value: domain in value[kind]
        return lambda value: value[kind][domain]
    if is_test:
        return lambda value: name in value[kind][domain]
    return lambda value: value[kind][domain].get(name, MISSING)


def places_of(reads: Iterable[Read]) -> tuple[Place, ...]:
    """The places that an expression reads, sorted. Below an attribute there is nothing: then all of it is read."""
    found = set()
    for read in reads:
        kind, domain, name = (*read.path[1:4], "", "", "")[:3]
        found.add(Place(kind, domain, name, read.is_test and 3 <= len(read.path) <= 4))
    return tuple(sorted(found))


Projection = Callable[[DeviceValue], Hashable]


def projection_to(places: tuple[Place, ...]) -> Projection:
    """A function to the values at these places. Devices for which it gives the same are the same to whoever reads no more."""

    finders = tuple(map(_finder, places))

    def project(device: DeviceValue) -> Hashable:
        if device.fault:
            return device.fault
        value = device.value
        return tuple([_key(find(value)) for find in finders])

    return project


def _key(value: Value) -> Hashable:
    """Two values have the same key only if no expression can tell them apart: true is not 1, nor 1Gi 1024Mi."""
    kind = value.__class__
    if kind is str or kind is int or value is MISSING:
        return value  # type: ignore[no-any-return]
    if kind is QuantityValue:
        return str(value.quantity), value.quantity.kind
    if isinstance(value, dict):
        return tuple([(name, _key(inner)) for name, inner in value.items()])
    if kind is tuple:
        return ("list", *map(_key, value))
    return kind.__name__, str(value)
