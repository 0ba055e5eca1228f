"""matchAttribute and distinctAttribute: what the devices of a claim must share, or must not.

Each keeps what it has seen so far. `add` and `remove` come in pairs, last in first out. The variants that make
Kubernetes 1.36's mistakes may remember things past a `remove`; then `is_clean` is False, and no step of the search may
be left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Any, Final

from dray.allocation.candidates import Candidate
from dray.allocation.faults import AllocationError
from dray.allocation.features import Features, Tier
from dray.allocation.profiles import Profile
from dray.allocation.requests import Request, claim_name
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.slice import DeviceAttribute

Value = tuple[str, Any]
"""The kind of an attribute and its value; with list attributes a frozenset of them."""

MISSING: Final = ("missing", None)
UNKNOWN: Final = ("unknown", None)
"""Set, but none of the kinds known here."""


def attribute_of(candidate: Candidate, name: str) -> DeviceAttribute | None:
    """By its full name, or by the bare one where the domain is the driver's."""
    attributes = candidate.device.attributes
    if name in attributes:
        return attributes[name]
    domain, slash, bare = name.partition("/")
    return attributes.get(bare) if slash and domain == candidate.id.driver else None


def scalar(attribute: DeviceAttribute | None) -> Value:
    """The value as it compares without list attributes. Versions compare as text."""
    if attribute is None:
        return MISSING
    if attribute.string_value is not None:
        return "string", attribute.string_value
    if attribute.int_value is not None:
        return "int", attribute.int_value
    if attribute.bool_value is not None:
        return "bool", attribute.bool_value
    if attribute.version_value is not None:
        return "version", attribute.version_value
    return UNKNOWN


def value_set(attribute: DeviceAttribute | None) -> Value:
    """The values as they compare with list attributes: one value is a set of one. A list wins over a single value."""
    if attribute is None:
        return MISSING
    for kind, values in (
        ("int", attribute.int_values),
        ("bool", attribute.bool_values),
        ("string", attribute.string_values),
        ("version", attribute.version_values),
    ):
        if values:
            return kind, frozenset(values)
    for kind, value in (
        ("int", attribute.int_value),
        ("bool", attribute.bool_value),
        ("string", attribute.string_value),
        ("version", attribute.version_value),
    ):
        if value is not None:
            return kind, frozenset((value,))
    return UNKNOWN


class Constraint(ABC):
    """What all have in common: which requests are meant, and a device's value, read once."""

    def __init__(self, requests: Iterable[str], attribute: str, *, lists: bool) -> None:
        self._requests = frozenset(requests)
        self._attribute = attribute
        self.has_lists = lists
        self._values: dict[int, Value] = {}

    def applies(self, request: Request) -> bool:
        """Whether the request's devices are meant."""
        names = self._requests
        return not names or request.base_name in names or request.full_name in names

    def value(self, candidate: Candidate) -> Value:
        """The device's value of the attribute."""
        value = self._values.get(candidate.slot)
        if value is None:
            attribute = attribute_of(candidate, self._attribute)
            value = value_set(attribute) if self.has_lists else scalar(attribute)
            self._values[candidate.slot] = value
        return value

    def elements(self, value: Value) -> tuple[Value, ...]:
        """The values that devices may have in common, one by one: of a list each of its own."""
        if not self.has_lists or value in (MISSING, UNKNOWN):
            return (value,)
        kind, values = value
        return tuple([(kind, one) for one in values])

    def add(self, request: Request, candidate: Candidate) -> bool:
        """Take the device in, unless the constraint forbids it."""
        if not self.applies(request):
            return True
        value = self.value(candidate)
        if value == MISSING or not self.accepts(value):
            return False
        self.push(request, value)
        return True

    def remove(self, request: Request) -> None:
        """Undo the last successful `add`, which was for this request."""
        if self.applies(request):
            self.pop(request)

    def allows(self, request: Request, candidate: Candidate) -> bool:
        """Whether `add` would take the device now."""
        if not self.applies(request):
            return True
        value = self.value(candidate)
        return value != MISSING and self.accepts(value)

    def is_clean(self, requests: Iterable[Request], devices: Iterable[Candidate]) -> bool:
        """Whether `remove` leaves no trace, for these requests and devices."""
        return True

    @abstractmethod
    def state(self) -> Hashable:
        """What decides about further devices; equal states decide alike."""

    @abstractmethod
    def accepts(self, value: Value) -> bool:
        """Whether the value goes with those taken."""

    @abstractmethod
    def push(self, request: Request, value: Value) -> None:
        """Take the value in."""

    @abstractmethod
    def pop(self, request: Request) -> None:
        """Forget the last value."""


class Match(Constraint):
    """All devices have one value, or with lists at least one value in common. `_common` is a stack."""

    def __init__(self, requests: Iterable[str], attribute: str, *, lists: bool) -> None:
        super().__init__(requests, attribute, lists=lists)
        self._common: list[Value] = []

    def state(self) -> Hashable:
        """What is common now."""
        return self._common[-1] if self._common else None

    def accepts(self, value: Value) -> bool:
        """The first device decides; without lists it may even have a value of no known kind."""
        if value == UNKNOWN:
            return not self.has_lists and not self._common
        if not self._common:
            return True
        common = self._common[-1]
        if not self.has_lists:
            return value == common
        return value[0] == common[0] and not value[1].isdisjoint(common[1])

    def push(self, request: Request, value: Value) -> None:
        """Narrow what is common."""
        if self._common and self.has_lists:
            value = (value[0], self._common[-1][1] & value[1])
        self._common.append(value)

    def pop(self, request: Request) -> None:
        """Back to what was common before."""
        self._common.pop()


class StickyMatch(Match):
    """Q2: with lists, a step back does not widen what is common again, until no device is left."""

    def is_clean(self, requests: Iterable[Request], devices: Iterable[Candidate]) -> bool:
        """Sets of one never get narrower."""
        values = (self.value(one) for one in devices)
        return all(value in (MISSING, UNKNOWN) or len(value[1]) == 1 for value in values)

    def pop(self, request: Request) -> None:
        """All that remain get the narrowest value."""
        narrowest = self._common.pop()
        if self._common:
            self._common[-1] = narrowest


class Distinct(Constraint):
    """No two devices share a value."""

    def __init__(self, requests: Iterable[str], attribute: str, *, lists: bool) -> None:
        super().__init__(requests, attribute, lists=lists)
        self._taken: list[Value] = []

    def state(self) -> Hashable:
        """The values taken."""
        return frozenset(self._taken)

    def accepts(self, value: Value) -> bool:
        """A value of no known kind goes only with nothing, and with lists not at all."""
        return self._differs(value, self._taken)

    def _differs(self, value: Value, taken: Iterable[Value]) -> bool:
        if self.has_lists:
            if value == UNKNOWN:
                return False
            return not any(
                value[0] == other[0] and not value[1].isdisjoint(other[1])
                for other in taken
                if other != UNKNOWN
            )
        return not any(value in (UNKNOWN, other) for other in taken)

    def push(self, request: Request, value: Value) -> None:
        """One more."""
        self._taken.append(value)

    def pop(self, request: Request) -> None:
        """One less."""
        self._taken.pop()


class DistinctByRequest(Distinct):
    """Q1: one value per request, overwritten by its next device and forgotten with any of them."""

    def __init__(self, requests: Iterable[str], attribute: str, *, lists: bool) -> None:
        super().__init__(requests, attribute, lists=lists)
        self._by_request: dict[str, Value] = {}
        self._devices = 0

    def is_clean(self, requests: Iterable[Request], devices: Iterable[Candidate]) -> bool:
        """With one device a request, nothing is overwritten."""
        return all(request.count <= 1 for request in requests if self.applies(request))

    def state(self) -> Hashable:
        """The values that are remembered."""
        return self._devices > 0, frozenset(self._by_request.values())

    def accepts(self, value: Value) -> bool:
        """The first device may have any value."""
        return not self._devices or self._differs(value, self._by_request.values())

    def push(self, request: Request, value: Value) -> None:
        """Overwrites."""
        self._by_request[request.base_name] = value
        self._devices += 1

    def pop(self, request: Request) -> None:
        """Forgets, also the value of a device that stays."""
        self._by_request.pop(request.base_name, None)
        self._devices -= 1


def constraints_of(
    claim: ResourceClaim, features: Features, tier: Tier, profile: Profile
) -> tuple[Constraint, ...]:
    """The claim's constraints, fresh; raises where one is of no known kind. The stable tier has no distinctAttribute."""
    made: list[Constraint] = []
    lists = features.list_type_attributes
    match = StickyMatch if lists and profile.intersection_sticks else Match
    distinct = DistinctByRequest if profile.distinct_by_request else Distinct
    for number, one in enumerate(claim.spec.devices.constraints):
        has_distinct = one.distinct_attribute is not None and tier is not Tier.STABLE
        if one.match_attribute is not None:
            made.append(match(one.requests, one.match_attribute, lists=lists))
            has_distinct = has_distinct and not profile.match_hides_distinct
        elif not has_distinct:
            raise AllocationError(
                f"claim {claim_name(claim)}, constraint #{number}: "
                "empty constraint (unsupported constraint type?)"
            )
        if has_distinct:
            made.append(distinct(one.requests, one.distinct_attribute or "", lists=lists))
    return tuple(made)
