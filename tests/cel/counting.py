"""Work in numbers that are the same on every machine: calls of functions, and steps of Python's regular expressions."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Iterator
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as sre_parse  # type: ignore[attr-defined]
from types import FrameType
from typing import Any


def calls(function: Callable[[], object]) -> int:
    """How many functions were called, of Python's and of C's, until it returned or raised what it should not."""
    count = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


def is_linear(work: Callable[[int], int], size: int) -> bool:
    """Whether twice the size is about twice the work: for the square of it, it would be four times."""
    return work(2 * size) < 2.5 * work(size) + 100


class Backtracking:
    """Matches like Python's `re`, in the same order, and counts the positions it looks at. For the syntax that we use."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        self._tree = sre_parse.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
        self.steps = 0

    def scan(self, text: str, last: str = "") -> int:
        """The steps of one match after the other: to the end, to what does not match, or to the group `last`."""
        at, self.steps = 0, 0
        while True:
            end = next(self._sequence(self._tree, 0, text, at), None)
            found = self._pattern.match(text, at)
            assert end == (found.end() if found else None), (text, at)
            if found is None or end is None or end == at or found.lastgroup == last:
                return self.steps
            at = end

    def _sequence(self, nodes: Any, number: int, text: str, at: int) -> Iterator[int]:
        if number == len(nodes):
            yield at
            return
        for end in self._node(nodes[number], text, at):
            yield from self._sequence(nodes, number + 1, text, end)

    def _node(self, node: tuple[Any, Any], text: str, at: int) -> Iterator[int]:
        kind, value = node
        self.steps += 1
        if kind is sre.MAX_REPEAT:
            least, most, body = value
            yield from self._repeat(least, most, body, text, at)
        elif kind is sre.SUBPATTERN:
            yield from self._sequence(value[3], 0, text, at)
        elif kind is sre.BRANCH:
            for branch in value[1]:
                yield from self._sequence(branch, 0, text, at)
        elif kind is sre.ASSERT_NOT:
            if next(self._sequence(value[1], 0, text, at), None) is None:
                yield at
        elif kind is sre.AT:
            assert value is sre.AT_END_STRING
            if at == len(text):
                yield at
        elif at < len(text) and _fits(node, ord(text[at])):
            yield at + 1

    def _repeat(self, least: int, most: int, body: Any, text: str, at: int) -> Iterator[int]:
        if len(body) == 1 and body[0][0] in _ONE_CHARACTER:
            end = at
            while end < len(text) and end - at < most and _fits(body[0], ord(text[end])):
                end += 1
            self.steps += end - at
            for stop in range(end, at + least - 1, -1):
                self.steps += 1
                yield stop
            return
        if most > 0:
            for end in self._sequence(body, 0, text, at):
                if end > at:
                    yield from self._repeat(max(least - 1, 0), most - 1, body, text, end)
        if least == 0:
            yield at


_ONE_CHARACTER = (sre.LITERAL, sre.NOT_LITERAL, sre.IN, sre.ANY)


def _fits(node: tuple[Any, Any], char: int) -> bool:
    kind, value = node
    if kind is sre.LITERAL:
        return bool(char == value)
    if kind is sre.NOT_LITERAL:
        return bool(char != value)
    if kind is sre.RANGE:
        return bool(value[0] <= char <= value[1])
    if kind is sre.CATEGORY:
        return chr(char).isspace() is (value is sre.CATEGORY_SPACE)
    assert kind is sre.IN, kind
    is_not = value[0][0] is sre.NEGATE
    return any(_fits(one, char) for one in value[is_not:]) is not is_not
