"""Drivers that are installed beside Dray: packages name theirs under the entry point group `dray.drivers`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from dray.agent.own_kinds import OwnKind
from dray.controllers.guard.parameters import Validator
from dray.drivers.contract import TakesClaims
from dray.errors import Error, InvalidError
from dray.runtime.logs import get_log
from dray.sdk.adapter import own_kind
from dray.sdk.driver import Driver
from dray.sdk.foreign import Foreign

_log = get_log("sdk")

GROUP: Final = "dray.drivers"


@dataclass(frozen=True, slots=True)
class Installed:
    """Those that can be served, by entry point, and what is wrong with each of the others."""

    kinds: tuple[OwnKind, ...] = ()
    broken: tuple[str, ...] = ()


def installed_drivers(taken: Collection[str] = (), found: Iterable[EntryPoint] | None = None) -> Installed:
    """Load them. One that is broken is logged and left out; it never keeps the others from being served.

    `taken` are names of drivers and resources that are in use already. Of two with one name the first stays, in the
    order of the entry points' names.
    """
    entries = entry_points(group=GROUP) if found is None else found
    kinds: list[OwnKind] = []
    broken: list[str] = []
    owners = dict.fromkeys(taken, "Dray itself")
    for entry in sorted(entries, key=lambda one: (one.name, one.value)):
        try:
            kind = _load(entry)
            _claim(kind, _origin(entry), owners)
        except Error as error:
            broken.append(f"{_origin(entry)}: {error}")
            _log.error("an installed driver is left out", driver=_origin(entry), error=str(error))
            continue
        kinds.append(kind)
    return Installed(tuple(kinds), tuple(broken))


def installed_validators(found: Iterable[EntryPoint] | None = None) -> dict[str, Validator]:
    """Who checks the parameters of claims for them, by the driver's name. Broken ones are logged and left out."""
    adapted = [kind.driver for kind in installed_drivers(found=found).kinds]
    return {one.kind: one.check_parameters for one in adapted if isinstance(one, TakesClaims)}


def _load(entry: EntryPoint) -> OwnKind:
    with Foreign(entry.name).calling(f"loading {entry.value}"):
        loaded = entry.load()
        driver = loaded() if isinstance(loaded, type) and issubclass(loaded, Driver) else loaded
        return own_kind(driver)


def _claim(kind: OwnKind, origin: str, owners: dict[str, str]) -> None:
    """InvalidError where another one has the name of the driver or of its resource."""
    for name in (kind.name, *kind.resources):
        if name in owners:
            raise InvalidError(f"{name} belongs to {owners[name]}: remove one of the two", field=name)
    owners |= dict.fromkeys((kind.name, *kind.resources), origin)


def _origin(entry: EntryPoint) -> str:
    package = f" of {entry.dist.name}" if entry.dist is not None else ""
    return f"{entry.name} ({entry.value}{package})"
