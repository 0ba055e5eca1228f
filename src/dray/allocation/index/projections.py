"""What selectors read of devices: keys for the devices of a group, and the columns of a group.

The key of a projection is made from the device as it was published: no value for CEL is made unless something has to be
evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from dray.allocation.device_values import ATTRIBUTES, CAPACITY, DRIVER, MULTIPLE, Place
from dray.allocation.index.columns import Layout, amounts_of
from dray.api.resource.slice import Device

Keys = Callable[[str, Sequence[Device]], Sequence[Hashable]]
"""For devices of one driver, in their order, something hashable of each."""


def is_one_for_all(places: Sequence[Place]) -> bool:
    """Whether a selector that reads these places cannot tell devices of one driver apart."""
    return all(one.kind == DRIVER for one in places)


def keys_of(places: Sequence[Place]) -> Keys | None:
    """What sound devices have at these places; equal keys mean equal answers. None where a selector reads more than
    single attributes and capacities.
    """
    found = [_column(one) for one in places]
    columns = [one for one in found if one is not None]
    if len(columns) < len(found):
        return None
    if len(columns) == 1:
        return columns[0]
    return lambda driver, devices: list(zip(*[read(driver, devices) for read in columns], strict=True))


def positions_of(places: Iterable[Place], layout: Layout) -> tuple[int, ...]:
    """The columns that tell what the group's devices have at these places. Only for places that `keys_of` can read."""
    found: set[int | None] = set()
    for kind, domain, name, _ in places:
        if kind in {DRIVER, MULTIPLE}:  # in the layout
            continue
        columns = layout.attributes if kind == ATTRIBUTES else layout.capacity
        found.add(columns.get(f"{domain}/{name}"))
        if layout.driver == domain:
            found.add(columns.get(name))
    return tuple(sorted(one for one in found if one is not None))


def _column(place: Place) -> Keys | None:
    if place.kind == DRIVER:
        return lambda driver, devices: [driver] * len(devices)
    if place.kind == MULTIPLE:
        return lambda driver, devices: [bool(one.allow_multiple_allocations) for one in devices]
    if not place.domain or not place.name:
        return None
    if place.kind == ATTRIBUTES:
        return _attributes(place.domain, place.name)
    return _capacities(place.domain, place.name) if place.kind == CAPACITY else None


def _attributes(domain: str, name: str) -> Keys:
    """In its driver's domain an attribute may be there under both names; then both belong to the key."""
    full = f"{domain}/{name}"

    def read(driver: str, devices: Sequence[Device]) -> Sequence[Hashable]:
        if driver != domain:
            return [one.attributes.get(full) for one in devices]
        every = [one.attributes for one in devices]
        if True in [full in one for one in every]:
            return [(one.get(name), one.get(full)) for one in every]
        return [one.get(name) for one in every]

    return read


def _capacities(domain: str, name: str) -> Keys:
    """As `_attributes`."""
    full = f"{domain}/{name}"

    def read(driver: str, devices: Sequence[Device]) -> Sequence[Hashable]:
        every = [one.capacity for one in devices]
        if driver != domain:
            return amounts_of([one.get(full) for one in every])
        if True in [full in one for one in every]:
            both = (amounts_of([one.get(which) for one in every]) for which in (name, full))
            return list(zip(*both, strict=True))
        return amounts_of([one.get(name) for one in every])

    return read
