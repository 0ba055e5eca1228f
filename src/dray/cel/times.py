"""Durations and timestamps: read, write, shift, and look at in a time zone. Ranges and texts are Go's."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from dray.cel.faults import EvaluationError
from dray.cel.values import INT_MAX, INT_MIN, Duration, Timestamp, text_of

SECOND = 1_000_000_000
_MIN_SECONDS, _MAX_SECONDS = -62_135_596_800, 253_402_300_799
_UNITS = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
}
_DURATION_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_LONGEST_ZONE = 255
"""No file has a longer name."""
_MOST_DIGITS = 19
"""No duration has more, in nanoseconds; Python refuses to read thousands."""


def parse_duration(text: str) -> Duration | None:
    """A duration in Go's notation, like `1h30m` or `-1.5s`; None if it is none, or too long."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return Duration(0)
    total, at = 0, 0
    while at < len(rest):
        part = _DURATION_PART.match(rest, at)
        if part is None or not (part[1] or part[2]):
            return None
        unit = _UNITS[part[3]]
        whole, digits = part[1].lstrip("0"), (part[2] or "")[:18]
        if len(whole) > _MOST_DIGITS:
            return None
        total += int(whole or 0) * unit + int(digits or 0) * unit // 10 ** len(digits)
        at = part.end()
    if not rest or not INT_MIN <= sign * total <= INT_MAX:
        return None
    return Duration(sign * total)


def write_duration(duration: Duration) -> str:
    """In seconds, like `1.5s`."""
    whole, rest = divmod(abs(duration.nanoseconds), SECOND)
    seconds = float(whole) + rest / 1e9
    text = format(Decimal(repr(seconds)), "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return ("-" if duration.nanoseconds < 0 else "") + text + "s"


def parse_timestamp(text: str) -> Timestamp | None:
    """RFC 3339; None if it is not. Outside of the years 1 to 9999 in UTC it is an error of its own."""
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[part]) for part in range(1, 7))
    # The calendar repeats after 400 years; Python's knows no year 0.
    years = 400 if year < 5000 else -400
    try:
        days = (date(year + years, month, day) - date(1970 + years, 1, 1)).days
    except ValueError:
        return None
    offset = _offset(found[8])
    if hour > 23 or minute > 59 or second > 59 or offset is None:
        return None
    nanoseconds = int((found[7] or "0")[:9].ljust(9, "0"))
    return timestamp_at(days * 86400 + hour * 3600 + minute * 60 + second - offset, nanoseconds, offset)


def _offset(zone: str) -> int | None:
    if zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[4:])
    if hours > 24 or minutes > 60:
        return None
    return (-1 if zone[0] == "-" else 1) * (hours * 3600 + minutes * 60)


def timestamp_at(seconds: int, nanoseconds: int = 0, offset: int = 0) -> Timestamp:
    """A moment by its seconds since 1970; an error outside of the years 1 to 9999."""
    if not _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        raise EvaluationError("timestamp overflow")
    return Timestamp(seconds * SECOND + nanoseconds, offset)


def shift(moment: Timestamp, nanoseconds: int) -> Timestamp:
    """A moment later (or earlier, if negative)."""
    seconds, rest = divmod(moment.nanoseconds + nanoseconds, SECOND)
    return timestamp_at(seconds, rest, moment.offset)


def _civil(seconds: int) -> tuple[datetime, int]:
    """The calendar of seconds since 1970, and how many years to add to it: at the ends of the range a time zone can lead
    out of the years that Python knows."""
    years = 400 if seconds < 0 else -400 if seconds > _MAX_SECONDS // 2 else 0
    days = 146_097 * (years // 400)
    return datetime(1970, 1, 1) + timedelta(days=days, seconds=seconds), -years  # noqa: DTZ001


def write_timestamp(moment: Timestamp) -> str:
    """RFC 3339, with the offset it was read with and only as many digits as needed."""
    seconds, rest = divmod(moment.nanoseconds, SECOND)
    local, years = _civil(seconds + moment.offset)
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    minutes = abs(moment.offset) // 60
    zone = (
        f"{'-' if moment.offset < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}" if moment.offset else "Z"
    )
    return f"{local.year + years:04}-{local:%m-%dT%H:%M:%S}{fraction}{zone}"


def _zone_offset(zone: str, seconds: int) -> int:
    """Seconds east of UTC: of an IANA name at that moment, or of `+01:00`."""
    if len(zone) > _LONGEST_ZONE:
        raise EvaluationError(f"unknown time zone {text_of(zone)}")
    if ":" in zone:
        hours, _, minutes = zone.partition(":")
        if not (_NUMBER.fullmatch(hours) and _NUMBER.fullmatch(minutes)):
            raise EvaluationError(f"invalid time zone offset {zone!r}")
        signed = int(hours) * 60 + (-int(minutes) if zone[0] == "-" else int(minutes))
        if abs(signed) > 60 * 24 * 365:
            raise EvaluationError(f"invalid time zone offset {zone!r}")
        return signed * 60
    if zone in ("", "UTC", "Local"):
        return 0
    try:
        found = ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise EvaluationError(f"unknown time zone {zone}") from None
    safe = min(max(seconds, _MIN_SECONDS + 86400 * 2), _MAX_SECONDS - 86400 * 2)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=safe)
    offset = moment.astimezone(found).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def _getter(pick: Callable[[datetime, int], int]) -> Callable[..., int]:
    def get(moment: Timestamp, zone: str = "UTC") -> int:
        seconds = moment.nanoseconds // SECOND
        local, years = _civil(seconds + _zone_offset(zone, seconds))
        return pick(local, years)

    return get


get_full_year = _getter(lambda local, years: local.year + years)
get_month = _getter(lambda local, _: local.month - 1)
get_day_of_year = _getter(lambda local, _: local.timetuple().tm_yday - 1)
get_day_of_month = _getter(lambda local, _: local.day - 1)
get_date = _getter(lambda local, _: local.day)
get_day_of_week = _getter(lambda local, _: local.isoweekday() % 7)
get_hours = _getter(lambda local, _: local.hour)
get_minutes = _getter(lambda local, _: local.minute)
get_seconds = _getter(lambda local, _: local.second)


def get_milliseconds(moment: Timestamp, zone: str = "UTC") -> int:
    """Of the second, which no time zone changes."""
    _zone_offset(zone, 0)
    return moment.nanoseconds % SECOND // 1_000_000


def duration_in(unit: int) -> Callable[[Duration], int]:
    """Whole units of so many nanoseconds, cut towards zero."""

    def count(duration: Duration) -> int:
        whole = abs(duration.nanoseconds) // unit
        return -whole if duration.nanoseconds < 0 else whole

    return count
