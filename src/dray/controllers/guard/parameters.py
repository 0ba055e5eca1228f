"""Opaque parameters of known drivers, checked when a claim, template or class is written instead of at prepare. Pure.

A driver is in the registry, or nobody here knows its parameters and they pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from dray.errors import HardwareError, InvalidError

Validator = Callable[[Mapping[str, Any]], None]
"""Raises InvalidError for parameters that the driver would refuse at prepare; `field` is the place within them.

HardwareError: the check of somebody's driver has a fault of its own. It would fail at prepare just so."""

PLACES: Final = {
    "resourceclaims": ("spec", "devices", "config"),
    "resourceclaimtemplates": ("spec", "spec", "devices", "config"),
    "deviceclasses": ("spec", "config"),
}
"""Where a kind has its configuration; the same in every version of the API."""


class Parameters:
    """Which drivers' parameters are checked, and by whom."""

    def __init__(self, validators: Mapping[str, Validator]) -> None:
        self._validators = dict(validators)

    @property
    def drivers(self) -> tuple[str, ...]:
        """Whose parameters are checked."""
        return tuple(sorted(self._validators))

    def check(self, resource: str, new: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> None:
        """InvalidError names every fault with its field and the requests it is for; kinds without any pass.

        Configuration that is stored already passes too: an object that was there before the check must not get stuck.
        """
        place = PLACES.get(resource, ())
        config = _at(place, new)
        if old is not None and _at(place, old) == config:
            return
        faults = tuple(self._faults(".".join(place), config))
        if faults:
            raise InvalidError("; ".join(faults))

    def _faults(self, place: str, config: object) -> Iterator[str]:
        for number, entry in enumerate(config if isinstance(config, list) else ()):
            opaque = entry.get("opaque") if isinstance(entry, Mapping) else None
            if not isinstance(opaque, Mapping):
                continue
            driver = opaque.get("driver")
            validator = self._validators.get(driver) if isinstance(driver, str) else None
            if validator is not None:
                path = f"{place}[{number}].opaque.parameters"
                yield from _ask(validator, opaque.get("parameters"), path, _whose(driver, entry))


def _at(place: tuple[str, ...], document: Mapping[str, Any]) -> object:
    found: Any = document if place else None
    for key in place:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _ask(validator: Validator, parameters: object, path: str, whose: str) -> Iterator[str]:
    if not isinstance(parameters, Mapping):
        yield f"{path}: must be an object ({whose})"
        return
    try:
        validator(parameters)
    except InvalidError as error:
        field = f"{path}.{error.field}" if error.field else path
        yield f"{field}: {str(error).removeprefix(f'{error.field}: ')} ({whose})"
    except HardwareError as error:
        yield f"{path}: {error} ({whose})"


def _whose(driver: object, entry: Mapping[str, Any]) -> str:
    requests = entry.get("requests")
    named = ", ".join(map(str, requests)) if isinstance(requests, list) and requests else "all"
    return f"driver {driver}, requests: {named}"
