"""Which devices selectors accept, evaluated once for each distinct projection of what they read.

The key of a projection is taken from the device as it was published: no value for CEL is made unless something has to be
evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final

from dray.allocation.device_values import ATTRIBUTES, CAPACITY, DRIVER, MULTIPLE, Place, prepare
from dray.allocation.faults import SelectorError
from dray.allocation.requests import Request
from dray.allocation.selector import CompiledSelectors
from dray.api.resource.device_class import DeviceSelector
from dray.api.resource.slice import Device, DeviceAttribute
from dray.cel.faults import EvaluationError
from dray.cel.library.semver import parse_semver

KEPT_PROJECTIONS: Final = 100_000
"""For each selector; one that reads something unique to a device would otherwise grow without end."""
KEPT_MATCHERS: Final = 1024

Key = Callable[[str, Device], Hashable]
Answer = bool | None
"""None where the selector fails on the device."""


class Answers:
    """What one selector says to devices."""

    def __init__(self, selectors: CompiledSelectors, expression: str) -> None:
        self._selectors = selectors
        self._expression = expression
        self._known: dict[Hashable, Answer] = {}
        self.evaluations = 0
        self._key: Key | None = None
        try:
            self._key = key_of(selectors.selector(expression).places)
        except SelectorError:
            self._key = lambda driver, device: None

    def of(self, driver: str, device: Device, is_sound: bool) -> Answer:
        """The answer; a device that is not `is_sound` is asked about itself, for its fault may be its own."""
        if not is_sound or self._key is None:
            return self._evaluate(driver, device)
        key = self._key(driver, device)
        try:
            return self._known[key]
        except KeyError:
            if len(self._known) >= KEPT_PROJECTIONS:
                self._known.clear()
            answer = self._known[key] = self._evaluate(driver, device)
            return answer

    def _evaluate(self, driver: str, device: Device) -> Answer:
        self.evaluations += 1
        try:
            return self._selectors.matches(self._expression, driver, device)
        except SelectorError:
            return None


class Matcher:
    """The selectors of a class and of a request, in the order in which they are asked; the first `false` ends it."""

    def __init__(self, answers: Sequence[Answers | None]) -> None:
        self._answers = answers

    def of(self, driver: str, device: Device, is_sound: bool) -> Answer:
        """Whether all accept; None where one fails that is reached."""
        for one in self._answers:
            answer = None if one is None else one.of(driver, device, is_sound)
            if not answer:
                return answer
        return True


class Matchers:
    """One matcher for each combination of selectors that was asked for. Owned by one index."""

    def __init__(self, selectors: CompiledSelectors) -> None:
        self._selectors = selectors
        self._answers: dict[str, Answers] = {}
        self._matchers: dict[tuple[Hashable, Hashable], Matcher] = {}

    def of(self, request: Request) -> Matcher:
        """The same object for the same selectors, for as long as it is remembered."""
        own, of_class = request.wish.selectors, request.device_class.spec.selectors
        found = self._matchers.get((of_class, own))
        if found is None:
            if len(self._matchers) >= KEPT_MATCHERS:
                self._matchers.clear()
                self._answers.clear()
            found = Matcher([self._of_selector(one) for one in (*of_class, *own)])
            self._matchers[of_class, own] = found
        return found

    @property
    def evaluations(self) -> int:
        """How often an expression was evaluated."""
        return sum(one.evaluations for one in self._answers.values())

    def _of_selector(self, selector: DeviceSelector) -> Answers | None:
        """None for a selector without an expression, which is an error on every device."""
        if selector.cel is None:
            return None
        expression = selector.cel.expression
        if expression not in self._answers:
            self._answers[expression] = Answers(self._selectors, expression)
        return self._answers[expression]


def is_sound(device: Device, *, lists: bool) -> bool:
    """Whether every attribute has a value, so that selectors have answers at all."""
    for one in device.attributes.values():
        if lists and one.version_values is not None:
            return not prepare("", device, lists=lists).fault
        has_value = one.int_value is not None or one.string_value is not None or one.bool_value is not None
        if not has_value and not _has_version(one):
            return not prepare("", device, lists=lists).fault
    return True


def _has_version(attribute: DeviceAttribute) -> bool:
    if attribute.version_value is None:
        return False
    try:
        parse_semver(attribute.version_value)
    except EvaluationError:
        return False
    return True


def key_of(places: Sequence[Place]) -> Key | None:
    """A function to what a sound device has at these places; equal keys mean equal answers. None where a selector
    reads more than single attributes and capacities.
    """
    readers = [_reader(one) for one in places]
    known = [one for one in readers if one is not None]
    if len(known) < len(readers):
        return None
    if len(known) == 1:
        return known[0]
    return lambda driver, device: tuple([read(driver, device) for read in known])


def _reader(place: Place) -> Key | None:
    if place.kind == DRIVER:
        return lambda driver, device: driver
    if place.kind == MULTIPLE:
        return lambda driver, device: bool(device.allow_multiple_allocations)
    if not place.domain or not place.name:
        return None
    if place.kind == ATTRIBUTES:
        return _attribute_reader(place.domain, place.name)
    return _capacity_reader(place.domain, place.name) if place.kind == CAPACITY else None


def _attribute_reader(domain: str, name: str) -> Key:
    """In its driver's domain an attribute may be there under both names; then both belong to the key."""
    full = f"{domain}/{name}"

    def read(driver: str, device: Device) -> Hashable:
        attributes = device.attributes
        if driver == domain:
            return attributes.get(name), attributes.get(full)
        return attributes.get(full)

    return read


def _capacity_reader(domain: str, name: str) -> Key:
    full = f"{domain}/{name}"

    def read(driver: str, device: Device) -> Hashable:
        capacity = device.capacity
        if driver == domain and name in capacity:
            bare = capacity[name].value
            if full not in capacity:
                return str(bare), bare.kind
            value = capacity[full].value
            return str(bare), bare.kind, str(value), value.kind
        if full not in capacity:
            return None
        value = capacity[full].value
        return str(value), value.kind

    return read
