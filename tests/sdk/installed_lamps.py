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


class BadConfig(PlainLamps):
    config = Misspelt


desk = Desk()
NOTHING = 5
