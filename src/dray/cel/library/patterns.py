"""Regular expressions in Go's syntax, matched in time linear in the text: RE2, which Go's package follows.

Compiled patterns are remembered, and so are answers for short texts: names repeat, and a call into RE2 costs 20 times as
much as a lookup. A pattern may need 1 MiB, and then takes some 20 ms to compile; Go lets larger ones pass, like `\\pL{300}`,
and we do not. A pattern has at most 10 KiB: one that stands in a selector cannot be longer, one that it makes could be, and
RE2 reads it to the end, with the interpreter held, and complains on stderr, whatever it is told. What is remembered is
bounded in bytes: RE2 uses all the memory that a pattern may need, if the texts are such.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import re2  # type: ignore[import-untyped]

from dray.cel.faults import EvaluationError
from dray.cel.library.pattern_text import TOO_LARGE, preview
from dray.cel.memo import Memo
from dray.cel.values import EvaluationCancelledError

LONGEST: Final = 10 << 10
"""Bytes of a pattern. Kubernetes has no such limit; but no selector has more, and no attribute more than 64 characters."""
_SMALL: Final = 256 << 10
"""What a pattern may need where that is enough for it."""
_MEMORY: Final = 1 << 20
_KEPT_BYTES: Final = 64 << 20
_LARGEST_PROGRAM: Final = 40_000
"""Instructions of a pattern that is just refused."""
_REMEMBERED_LENGTH: Final = 256
_WORK: Final = 20_000_000
"""Characters that one `findAll` may look at, weighted by the instructions of the pattern."""
_WORDS: Final = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "trailing \\": "trailing backslash at end of expression",
}
"""RE2's words for what is wrong, and Go's."""
_TOO_LONG: Final = f"{TOO_LARGE}: a pattern has at most {LONGEST} bytes"


def search(pattern: str, text: str) -> bool:
    """Whether the pattern is found anywhere in the text; an `EvaluationError` in Go's words if it is no pattern."""
    if len(text) > _REMEMBERED_LENGTH or len(pattern) > _REMEMBERED_LENGTH:
        return _search(pattern, text)
    return _remembered_search(pattern, text)


def find(pattern: str, text: str) -> str:
    """The first, leftmost match; empty if there is none."""
    data = text.encode(errors="replace")
    found = _compiled(pattern).search(data)
    return "" if found is None else found.group().decode()


def find_all(pattern: str, text: str, limit: int = -1) -> tuple[str, ...]:
    """All matches that do not overlap, `limit` at most if it is not negative. An empty one right behind a match does not
    count."""
    compiled, data = _compiled(pattern), text.encode(errors="replace")
    found: list[str] = []
    at, last_end, looked = 0, -1, 0
    weight = 1 + (compiled.programsize >> 6)
    while at <= len(data) and (limit < 0 or len(found) < limit):
        match = compiled.search(data, at)
        if match is None:
            break
        start, end = match.span()
        if end > at or start != last_end:
            found.append(data[start:end].decode())
        at = end if end > at else _next_character(data, at)
        looked += (len(data) - start + 1) * weight
        _check_work(looked)
        last_end = end
    return tuple(found)


def _check_work(steps: int) -> None:
    """A pattern like `.*y|` looks at all that is left of the text before each of its empty matches."""
    if steps > _WORK:
        raise EvaluationCancelledError("operation cancelled: too many matches in a long text")


def fault(pattern: str) -> str | None:
    """What Go says is wrong with the pattern; None if nothing is."""
    try:
        _compiled(pattern)
    except EvaluationError as error:
        return str(error)
    return None


def _search(pattern: str, text: str) -> bool:
    return _compiled(pattern).search(text.encode(errors="replace")) is not None


_remembered_search = lru_cache(maxsize=8192)(_search)


def program_size(pattern: str) -> int:
    """The instructions of a pattern, which is compiled for it; of one that is refused, those of the largest."""
    compiled = _compile(pattern)
    if compiled.__class__ is str:
        return _LARGEST_PROGRAM if compiled == TOO_LARGE else 1
    return int(compiled.programsize)


def size_ahead(pattern: str) -> int:
    """The instructions that a pattern may have, about: told by its text, before it is compiled."""
    return min(preview(pattern).size, _LARGEST_PROGRAM) if _fits(pattern) else 1


def is_remembered(pattern: str) -> bool:
    """Whether nothing is to be compiled where it is searched for now."""
    return _KNOWN.get(pattern) is not None


def _fits(pattern: str) -> bool:
    return len(pattern) <= LONGEST and (pattern.isascii() or len(pattern.encode(errors="replace")) <= LONGEST)


def _next_character(data: bytes, at: int) -> int:
    at += 1
    while at < len(data) and data[at] & 0xC0 == 0x80:
        at += 1
    return at


def _compiled(pattern: str) -> Any:
    compiled = _compile(pattern)
    if compiled.__class__ is str:
        raise EvaluationError(f"error parsing regexp: {compiled}")
    return compiled


def _compile(pattern: str) -> Any:
    """The pattern, or what is wrong with it: finding that out may take long, too."""
    if not _fits(pattern):
        return _TOO_LONG
    known: Any = _KNOWN.get(pattern)
    if known is None:
        known = preview(pattern).fault or _tried(pattern)
        # RE2 has a machine for each direction.
        size = len(known) if known.__class__ is str else 2 * known.options.max_mem
        _KNOWN.put(pattern, known, size + 4 * len(pattern))
    return known


def _tried(pattern: str) -> Any:
    made = _made(pattern, _SMALL)
    return _made(pattern, _MEMORY) if made == TOO_LARGE else made


_KNOWN: Final[Memo[str, Any]] = Memo(_KEPT_BYTES)


def _made(pattern: str, memory: int) -> Any:
    options = re2.Options()
    options.max_mem = memory
    options.log_errors = False
    options.never_capture = True  # Nobody asks for groups, and keeping track of hundreds makes RE2 slow.
    try:
        return re2.compile(pattern.encode(errors="replace"), options)
    except re2.error as error:
        return _translate(error.args[0].decode(errors="replace"))
    finally:
        re2.purge()  # The package keeps patterns as well; ours is the memory that is bounded.


def _translate(words: str) -> str:
    if words.startswith("pattern too large"):
        return TOO_LARGE
    known = next((known for known in _WORDS if words.startswith(known)), "")
    kind, place = (known, words[len(known) :].removeprefix(": ")) if known else words.split(": ", 1)
    return f"{_WORDS.get(kind, kind)}: `{place}`"
