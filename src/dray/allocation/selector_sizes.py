"""How large a device can be, as Kubernetes assumes when it estimates what a selector may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from dray.allocation.device_values import ATTRIBUTES, CAPACITY, DRIVER, MULTIPLE
from dray.api.limits import (
    MAX_ATTRIBUTE_VALUE_LENGTH,
    MAX_ATTRIBUTE_VALUES,
    MAX_ATTRIBUTES_AND_CAPACITIES,
    MAX_DOMAIN_LENGTH,
    MAX_DRIVER_NAME_LENGTH,
    MAX_ID_LENGTH,
)
from dray.cel.costs.cost import Range, SizedNode


@dataclass(frozen=True, slots=True)
class _Sized:
    """A part of a device: at most so many characters or entries, and what lies below it."""

    most: int
    fields: Mapping[str, _Sized] = field(default_factory=dict)
    keys: _Sized | None = None
    values: _Sized | None = None
    has_any_name: bool = False
    """Its values can be selected by name: Kubernetes knows that of attributes, not of capacities or domains."""

    def step(self, name: str) -> _Sized | None:
        if name == "@keys":
            return self.keys
        if name in ("@items", "@values"):
            return self.values
        return self.fields.get(name) or (self.values if self.has_any_name else None)


def _map(keys: _Sized, values: _Sized, *, has_any_name: bool = False) -> _Sized:
    return _Sized(MAX_ATTRIBUTES_AND_CAPACITIES, keys=keys, values=values, has_any_name=has_any_name)


_DOMAIN: Final = _Sized(MAX_DOMAIN_LENGTH)
_ID: Final = _Sized(MAX_ID_LENGTH)
_VALUE: Final = _Sized(max(MAX_ATTRIBUTE_VALUE_LENGTH, MAX_ATTRIBUTE_VALUES))
_DEVICE: Final = _Sized(
    0,
    {
        DRIVER: _Sized(MAX_DRIVER_NAME_LENGTH),
        MULTIPLE: _Sized(1),
        ATTRIBUTES: _map(_DOMAIN, _map(_ID, _VALUE, has_any_name=True)),
        CAPACITY: _map(_DOMAIN, _map(_ID, _Sized(0))),
    },
)


def size_hint(node: SizedNode) -> Range | None:
    """For the estimate; None where nothing is known."""
    if not node.path or node.path[0] != "device":
        return None
    place: _Sized | None = _DEVICE
    for name in node.path[1:]:
        if place is None:
            return None
        place = place.step(name)
    return None if place is None else Range(0, place.most)
