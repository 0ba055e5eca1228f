"""What a check says: how bad it is, why it matters, and what to do."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Level(StrEnum):
    """Only a FAULT keeps something from working. A NOTE is what could not be looked at, or is good to know."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAULT = "fault"


class Finding(msgspec.Struct, frozen=True):
    """One line each. `check` is a fixed name, by which programs find it."""

    check: str
    level: Level
    what: str
    why: str = ""
    fix: str = ""


def ok(check: str, what: str) -> Finding:
    """As it should be."""
    return Finding(check, Level.OK, what)


def note(check: str, what: str, why: str = "", fix: str = "") -> Finding:
    """Good to know."""
    return Finding(check, Level.NOTE, what, why, fix)


def warning(check: str, what: str, why: str, fix: str) -> Finding:
    """Something will not work, or works worse, some day."""
    return Finding(check, Level.WARNING, what, why, fix)


def fault(check: str, what: str, why: str, fix: str) -> Finding:
    """Something does not work."""
    return Finding(check, Level.FAULT, what, why, fix)


def cannot_look(check: str, what: str) -> Finding:
    """For lack of rights."""
    return note(check, f"cannot look at {what}", fix="run as root")
