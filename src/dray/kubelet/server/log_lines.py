"""A container's log as CRI has it on disk, line by line, and as it is shown. Pure.

One line is `TIME stdout|stderr F|P TEXT`; P marks a piece of a line that goes on in the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from dray.errors import InvalidError

_STREAMS = {"": b"", "All": b"", "Stdout": b"stdout", "Stderr": b"stderr"}
_TRUE, _FALSE = ("true", "1"), ("", "false", "0")


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What a caller wants to see; None: no limit. `stream` empty: both."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: datetime | None = None
    limit: int | None = None
    stream: bytes = b""


def log_options(query: Mapping[str, str], now: datetime) -> LogOptions:
    """From the names that kubectl's requests have. InvalidError names the one that is wrong; others are not looked at."""
    if "sinceSeconds" in query and "sinceTime" in query:
        raise InvalidError(
            "sinceSeconds and sinceTime exclude each other: give one of them", field="sinceTime"
        )
    seconds = _number(query, "sinceSeconds", least=1)
    since = now - timedelta(seconds=seconds) if seconds is not None else _moment(query, "sinceTime")
    stream = query.get("stream", "")
    if stream not in _STREAMS:
        raise InvalidError(f"stream must be All, Stdout or Stderr, not {stream!r}", field="stream")
    return LogOptions(
        follow=_flag(query, "follow"),
        previous=_flag(query, "previous"),
        timestamps=_flag(query, "timestamps"),
        tail=_number(query, "tailLines", least=0),
        since=since,
        limit=_number(query, "limitBytes", least=1),
        stream=_STREAMS[stream],
    )


def _flag(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "").lower()
    if text not in (*_TRUE, *_FALSE):
        raise InvalidError(f"{name} must be true or false, not {text!r}", field=name)
    return text in _TRUE


def _number(query: Mapping[str, str], name: str, *, least: int) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) >= least):
        raise InvalidError(f"{name} must be a number, {least} or more, not {text!r}", field=name)
    return int(text)


def _moment(query: Mapping[str, str], name: str) -> datetime | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise InvalidError(f"{name} must be a time like 2030-01-02T15:04:05Z, not {text!r}", field=name)
    return found


class Shown:
    """Turns what is on disk into what is shown, piece by piece as it is read. `is_full`: nothing more will be shown."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._since = options.since
        self._rest = b""
        self._left = options.limit
        self._at_start = True

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return self._left == 0

    def take(self, data: bytes) -> bytes:
        """The next bytes of the file. A line without its end waits for the rest."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return self._limited(b"".join(map(self._line, lines)))

    def end(self) -> bytes:
        """Nothing more comes: a last line that was cut off, by a power cut for example, is shown as far as it goes."""
        rest, self._rest = self._rest, b""
        return self._limited(self._line(rest)) if rest else b""

    def _limited(self, shown: bytes) -> bytes:
        if self._left is None:
            return shown
        shown = shown[: self._left]
        self._left -= len(shown)
        return shown

    def _line(self, line: bytes) -> bytes:
        """Nothing for a line that is none: what a crash left must not hide the rest."""
        parts = line.split(b" ", 3)
        if len(parts) < 3 or parts[1] not in (b"stdout", b"stderr") or self._is_older(parts[0]):
            return b""
        if self._options.stream not in (b"", parts[1]):
            return b""
        text = parts[3] if len(parts) == 4 else b""
        head = parts[0] + b" " if self._options.timestamps and self._at_start else b""
        self._at_start = not parts[2].startswith(b"P")
        return head + text + (b"\n" if self._at_start else b"")

    def _is_older(self, time: bytes) -> bool:
        """Lines are in the order of their times: once one is new enough, so are all that follow."""
        if self._since is None:
            return False
        try:
            if datetime.fromisoformat(time.decode()) < self._since:
                return True
        except (ValueError, TypeError):
            return True
        self._since = None
        return False
