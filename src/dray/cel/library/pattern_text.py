"""What the text of a pattern tells before RE2 reads it: what only Go refuses, and how large the compiled pattern can be.

One pass from left to right. Nothing is looked for twice: texts are a tenant's, and a search to the end from every bracket
would take time by the square of their length.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

NESTING_LIMIT: Final = 1000
CLASS_LIMIT: Final = 128
"""The most Unicode classes in a pattern: reading each takes up to 0.4 ms, before RE2 knows how large the pattern will be."""
REPEATED_LIMIT: Final = 100_000
"""Single characters, repeated by numbers: RE2 writes all of them down before it refuses a pattern at half as many."""
MOST: Final = 1_000_000
"""Estimates stop here."""
TOO_LARGE: Final = "expression too large"
_CHARACTER: Final = 6
"""Instructions for a character of the text: `(?i)ß` has 5, `[^k-ſ]` 31."""
_ANY: Final = 16
_CLASS: Final = 1300
"""Of a Unicode class: `\\pL` has 1,200."""
_OPPOSITE: Final = 30
_OPPOSITES: Final = ("D", "S", "W")
_NAME: Final = 40
"""The longest name in braces, as in `\\p{Old_North_Arabian}`."""
_SIGNS: Final = "+?*|^$"
_REPETITION: Final = re.compile(r"\{([0-9]{1,4})(?:(,)([0-9]{0,4}))?\}")
_IN_CLASS: Final = re.compile(r"[]\\[]")
_POSIX: Final = re.compile(r"\[:\w*:\]")


class Preview(NamedTuple):
    """`fault` is what is wrong with the pattern, if it is known by now; `size` the instructions it may have, about, at most."""

    fault: str
    size: int


@lru_cache(maxsize=256)
def preview(pattern: str) -> Preview:
    """What is told by the text alone. Recent ones are remembered: it is asked before a pattern is paid for, and when it is made."""
    if pattern.count("\\p") + pattern.count("\\P") > CLASS_LIMIT:
        return Preview(TOO_LARGE, MOST)
    reading = _Reading(pattern)
    while reading.at < len(pattern) and not reading.fault:
        reading.step()
    if reading.repeated > REPEATED_LIMIT:
        return Preview(TOO_LARGE, MOST)
    return Preview(reading.fault, min(sum(reading.sizes), MOST))


class _Reading:
    """How far a pattern is read. `sizes` are those of the groups that are open; `last` is the size of what was read last,
    which a repetition multiplies."""

    __slots__ = (
        "_are_captured",
        "_depth",
        "_is_single",
        "_pattern",
        "at",
        "fault",
        "last",
        "repeated",
        "sizes",
    )

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.at = 0
        self.sizes = [0]
        self.last = 0
        self.fault = ""
        self.repeated = 0
        self._is_single = False
        self._are_captured: list[bool] = []
        self._depth = 0

    def step(self) -> None:
        match self._pattern[self.at]:
            case "\\":
                self._escape()
            case "[":
                self._class()
            case "(":
                self._open()
            case ")":
                self._close()
            case "{":
                self._repeat()
            case ".":
                self._add(1, _ANY)
            case sign:
                self._add(1, _CHARACTER, is_single=sign not in _SIGNS)

    def _add(self, length: int, size: int, *, is_single: bool = False) -> None:
        self.at += length
        self.last = size
        self.sizes[-1] += size
        self._is_single = is_single

    def _escape(self) -> None:
        pattern, at = self._pattern, self.at
        kind = pattern[at + 1 : at + 2]
        if kind == "C":
            self.fault = "invalid escape sequence: `\\C`"
        elif kind == "Q":
            end = pattern.find("\\E", at + 2)
            quoted = (end if end >= 0 else len(pattern)) - at - 2
            self._add(quoted + 4, quoted * _CHARACTER)
        elif kind in ("p", "P", "x") and pattern[at + 2 : at + 3] == "{":
            end = pattern.find("}", at + 3, at + 3 + _NAME)
            self._add(end + 1 - at if end >= 0 else 3, _CHARACTER if kind == "x" else _CLASS)
        elif kind in ("p", "P"):
            self._add(3, _CLASS)
        else:
            self._add(2, _OPPOSITE if kind in _OPPOSITES else 2 * _CHARACTER)

    def _class(self) -> None:
        start, pattern = self.at, self._pattern
        at = start + 1 + (pattern[start + 1 : start + 2] == "^")
        at += pattern[at : at + 1] == "]"
        while (found := _IN_CLASS.search(pattern, at)) is not None:
            at = found.end()
            if found[0] == "]":
                break
            if found[0] == "\\":
                at += 1
            elif (named := _POSIX.match(pattern, found.start())) is not None:
                at = named.end()
        else:
            at = len(pattern)
        text = pattern[start:at]
        classes = text.count("\\p") + text.count("\\P")
        self._add(len(text), len(text) * _CHARACTER + classes * _CLASS)

    def _open(self) -> None:
        pattern, at = self._pattern, self.at
        is_captured = not pattern.startswith("(?", at) or pattern.startswith(("(?<", "(?P<"), at)
        self._are_captured.append(is_captured)
        self._depth += is_captured
        if self._depth >= NESTING_LIMIT:
            self.fault = f"expression nests too deeply: `{pattern}`"
        self.sizes.append(_CHARACTER)
        self.at += 1 if is_captured or not pattern.startswith("(?", at) else 2

    def _close(self) -> None:
        if self._are_captured:
            self._depth -= self._are_captured.pop()
            self._add(1, self.sizes.pop())
        else:
            self._add(1, 0)

    def _repeat(self) -> None:
        found = _REPETITION.match(self._pattern, self.at)
        if found is None:
            self._add(1, _CHARACTER)
            return
        times = int(found[3] or found[1]) + (found[2] is not None and not found[3])
        self.at = found.end()
        self.repeated += times if self._is_single and times <= NESTING_LIMIT else 0
        self._is_single = False
        more = min(self.last * max(times - 1, 0), MOST)
        self.sizes[-1] += more
        self.last += more
