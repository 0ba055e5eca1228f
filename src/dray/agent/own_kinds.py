"""Kinds that a program brings along itself, beside those of the configuration: what `dray.sdk` serves."""

from __future__ import annotations

from dataclasses import dataclass

from dray.drivers.contract import Driver
from dray.inventory.doors import Offered


@dataclass(frozen=True, slots=True)
class OwnKind:
    """A driver of somebody else: `name` as a DRA driver, `resources` as device plugins, and the doors it is offered through."""

    driver: Driver
    name: str
    resources: tuple[str, ...] = ()
    doors: Offered = Offered.BOTH
