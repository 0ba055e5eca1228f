"""What claims can see of devices: two that look the same to every selector and constraint are of one kind."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from contextlib import suppress

from dray.allocation.allocator import Allocator
from dray.allocation.cluster.situation import Situation
from dray.allocation.device_values import ATTRIBUTES, Place
from dray.allocation.explanation.looks import LOOKS
from dray.allocation.faults import SelectorError
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.slice import ResourceSlice


def number_in(known: dict[Hashable, int], contents: Hashable) -> int:
    """One number for equal contents: it is compared often."""
    return known.setdefault(contents, len(known))


class Sight:
    """What claims can see of devices, in the eyes of all these situations."""

    def __init__(self, claims: Iterable[ResourceClaim], situations: Iterable[Situation]) -> None:
        places = set[Place]()
        names = set[str]()
        for claim in claims:
            for situation in situations:
                places |= _places(claim, situation)
            for one in claim.spec.devices.constraints:
                names |= {name for name in (one.match_attribute, one.distinct_attribute) if name is not None}
        self._reads_all = any(
            not one.kind or (one.kind == ATTRIBUTES and not (one.domain and one.name)) for one in places
        )
        names |= {f"{one.domain}/{one.name}" for one in places if one.kind == ATTRIBUTES}
        self._full_names = sorted(names)
        self._names: dict[str, tuple[str, ...]] = {}
        self._kinds: dict[Hashable, int] = {}
        self._slices: dict[Hashable, tuple[int, ...]] = {}

    def of(self, one: ResourceSlice) -> tuple[int, ...]:
        """For each device of the slice a number: the same for those that are the same to the claims as long as nobody
        uses them, taints aside."""
        looks, devices = LOOKS.of(one), one.spec.devices or ()
        if self._reads_all:
            read: list[Hashable] = [tuple(sorted(each.attributes.items())) for each in devices]
        else:
            names = self._names_for(one.spec.driver)
            read = [tuple([each.attributes.get(name) for name in names]) for each in devices]
        # Most slices of a fleet are like another one.
        key = looks, tuple(read)
        found = self._slices.get(key)
        if found is None:
            found = tuple([number_in(self._kinds, pair) for pair in zip(looks, read, strict=True)])
            self._slices[key] = found
        return found

    def _names_for(self, driver: str) -> tuple[str, ...]:
        """In its driver's domain an attribute may be there under both names."""
        found = self._names.get(driver)
        if found is None:
            own = f"{driver}/"
            bare = [one.removeprefix(own) for one in self._full_names if one.startswith(own)]
            found = self._names[driver] = (*self._full_names, *bare)
        return found


def _places(claim: ResourceClaim, situation: Situation) -> set[Place]:
    """What the claim's selectors read, and those of its classes."""
    found = set[Place]()
    for expression in _expressions(claim, situation.allocator):
        # A text that is no selector fails on every device, whatever it has.
        with suppress(SelectorError):
            found |= set(situation.selectors.selector(expression).places)
    return found


def _expressions(claim: ResourceClaim, allocator: Allocator) -> Iterator[str]:
    for request in claim.spec.devices.requests:
        exactly = (request.exactly,) if request.exactly is not None else ()
        for wish in (*exactly, *request.first_available):
            of_class = allocator.classes.get(wish.device_class_name)
            for one in (*(of_class.spec.selectors if of_class else ()), *wish.selectors):
                if one.cel is not None:
                    yield one.cel.expression
