"""What entry points lead to, good and bad."""

from __future__ import annotations

from dray.sdk import Config
from tests.sdk.lamps import PlainLamps


class Desk(PlainLamps):
    name = "desk.example.com"
    resource = "example.com/desk"


class Floor(PlainLamps):
    name = "floor.example.com"
    resource = "example.com/floor"


class SameResource(PlainLamps):
    name = "other.example.com"
    resource = "example.com/desk"


class TooNew(PlainLamps):
    contract = 99


class NoName(PlainLamps):
    name = ""


class Fails(PlainLamps):
    def __init__(self) -> None:
        raise RuntimeError("no bulb")


class Misspelt(Config):
    level: Intt = 0  # type: ignore[name-defined]  # noqa: F821


class Levels(Config):
    level: int = 0

    def __post_init__(self) -> None:
        if self.level == 13:
            raise KeyError(self.level)  # no rule, but a fault in the code


class Dimmed(PlainLamps):
    name = "dimmed.example.com"
    resource = "example.com/dimmed"
    config = Levels


class BadConfig(PlainLamps):
    config = Misspelt


desk = Desk()
NOTHING = 5
