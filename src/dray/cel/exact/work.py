"""The work of a call, told by its arguments before it is made: what `Run.spend` is charged.

A step of the evaluator is 1; so are 32 characters walked over or compared, and 4 characters or half an item of a list that
are made. The default is a walk over everything that the arguments hold; functions that do less, or make more, are below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from dray.cel import ast
from dray.cel.exact.run import Run
from dray.cel.library import patterns
from dray.cel.sizes import LARGEST, WALKED
from dray.cel.values import LIST_LIMIT, JoinedList, Value, is_list, is_map

Work = Callable[[Run, Sequence[Value]], int]

_MADE: Final = 2
"""Characters are made 2² at a step: their memory counts as well."""
_ITEM: Final = 4
"""Making an item of a list that was not there before."""
_TEXT_ITEM: Final = 6
_PARSED: Final = 30
_IDENTIFIER: Final = 40
_ZONE: Final = 500
"""Looking for a time zone, which may read a file."""
_COMPARISON: Final = 8
_INSTRUCTION: Final = 8
_MATCH: Final = 8
_SHORT, _SHORT_PART, _MEDIUM = 2_500, 100, 30_000
_COMPARED: Final = 8
"""Python compares 2⁸ characters in a step where it searches naively."""


def _everything(run: Run, values: Sequence[Value]) -> int:
    return 1 + sum(map(run.sizes.of, values))


def _nothing(_: Run, __: Sequence[Value]) -> int:
    return 1


def _smaller(run: Run, values: Sequence[Value]) -> int:
    """Two values are compared until one of them ends."""
    left, right = values
    if is_list(left) and is_list(right) and len(left) != len(right):
        return 1
    return min(run.sizes.of(left), run.sizes.of(right))


def _add(_: Run, values: Sequence[Value]) -> int:
    left, right = values
    if left.__class__ in (str, bytes) and right.__class__ in (str, bytes):
        return 1 + (len(left) + len(right) >> _MADE)
    return 16 if is_list(left) else 1


def _in(run: Run, values: Sequence[Value]) -> int:
    """Compared with each item, or looked for by its hash."""
    value, container = values
    if is_list(container):
        return _among(run, value, container)
    return 1 + run.sizes.of(value)


def _among(run: Run, value: Value, items: Sequence[Value]) -> int:
    count = len(items)
    return 1 + count + min(count * run.sizes.of(value), run.sizes.of(items))


def _search(text: Value, part: Value) -> int:
    """Python's search is naive for short texts, and takes time by both lengths for long ones."""
    if text.__class__ is not str or part.__class__ is not str:
        return 1
    size, wanted = len(text), len(part)
    is_naive = size < _SHORT or (wanted < _SHORT_PART and size < _MEDIUM)
    compared = min(wanted, size) * size >> _COMPARED if is_naive else wanted
    return 1 + (size >> WALKED) + compared


def _find(run: Run, values: Sequence[Value]) -> int:
    if is_list(values[0]):
        return _everything(run, values)
    return _search(values[0], values[1])


def _starts(_: Run, values: Sequence[Value]) -> int:
    return 1 + (len(values[1]) >> WALKED) if values[1].__class__ is str else 1


def _split(_: Run, values: Sequence[Value]) -> int:
    text, separator = values[0], values[1]
    work = _search(text, separator)
    if work == 1 or text.__class__ is not str:
        return work
    limit = values[2] if len(values) > 2 and values[2].__class__ is int else -1
    pieces = text.count(separator) + 1 if separator else len(text)
    return work + (len(text) >> _MADE) + _TEXT_ITEM * (min(pieces, limit) if limit >= 0 else pieces)


def _replace(run: Run, values: Sequence[Value]) -> int:
    text, old, new = values[:3]
    if not text.__class__ is old.__class__ is new.__class__ is str:
        return 1
    run.spend(_search(text, old))
    count = text.count(old)
    if len(values) > 3 and values[3].__class__ is int and values[3] >= 0:
        count = min(count, values[3])
    return 1 + (max(len(text) + count * (len(new) - len(old)), 0) >> _MADE)


def _join(run: Run, values: Sequence[Value]) -> int:
    if not is_list(values[0]):
        return 1
    size, between = run.sizes.of(values[0]), 0
    if len(values) > 1 and values[1].__class__ is str:
        between = len(values[0]) * len(values[1]) >> _MADE
    return (size << WALKED - _MADE) + between


def _format(run: Run, values: Sequence[Value]) -> int:
    """Writing a value takes some microseconds, and characters may be escaped; a width is limited by the function itself."""
    return (len(values[0]) if values[0].__class__ is str else 1) + (run.sizes.of(values[-1]) << WALKED + 1)


def _written(_: Run, values: Sequence[Value]) -> int:
    """A text of about the size of the first one."""
    return 1 + (len(values[0]) >> _MADE) if values[0].__class__ in (str, bytes) else 2


def _substring(_: Run, values: Sequence[Value]) -> int:
    text, start, end = (*values, None)[:3]
    if text.__class__ is not str or start.__class__ is not int:
        return 1
    last = end if end.__class__ is int else len(text)
    return 1 + (max(min(last, len(text)) - max(start, 0), 0) >> _MADE)


def _parsed(_: Run, values: Sequence[Value]) -> int:
    """Character by character, in Python."""
    return _PARSED + sum(len(value) for value in values if value.__class__ is str)


def _parsed_url(_: Run, values: Sequence[Value]) -> int:
    """Several times, and kept in parts."""
    return _PARSED + 8 * len(values[0]) if values[0].__class__ is str else 1


def _parsed_version(run: Run, values: Sequence[Value]) -> int:
    """Each identifier is kept, as a text and as what it is compared by."""
    text = values[0]
    if text.__class__ is not str:
        return 1
    run.spend(_PARSED + 2 * len(text))
    return _IDENTIFIER * text.count(".")


def _zoned(_: Run, values: Sequence[Value]) -> int:
    return _ZONE if len(values) > 1 and values[1] not in ("", "UTC", "Local") else 1


def _flatten(run: Run, values: Sequence[Value]) -> int:
    items = values[0]
    if not is_list(items):
        return 1
    depth = values[1] if len(values) > 1 else 1
    return 1 + 2 * _visits(run, items, depth, {}) if depth.__class__ is int else 1


def _visits(run: Run, items: Sequence[Value], depth: int, known: dict[tuple[int, int], int]) -> int:
    """Items that are met down to a depth; each list is looked at once for each depth."""
    found = known.get((id(items), depth))
    if found is None:
        run.spend(len(items))
        found = len(items)
        if depth > 0:
            for item in items:
                if is_list(item):
                    found = min(found + _visits(run, item, depth - 1, known), LARGEST)
        known[id(items), depth] = found
    return found


def _length(_: Run, values: Sequence[Value]) -> int:
    return 1 + len(values[0]) if is_list(values[0]) else 1


def _slice(_: Run, values: Sequence[Value]) -> int:
    items, start, end = values
    if items.__class__ is JoinedList or start.__class__ is not int or end.__class__ is not int:
        return _length(_, values)
    return 1 + max(min(end, len(items)) - max(start, 0), 0)


def _range(_: Run, values: Sequence[Value]) -> int:
    count = values[0]
    return 1 + _ITEM * min(max(count, 0), LIST_LIMIT) if count.__class__ is int else 1


def _sort(run: Run, values: Sequence[Value]) -> int:
    keys = values[-1]
    if not is_list(keys):
        return 1
    return (len(keys) * _COMPARISON + run.sizes.of(keys)) * len(keys).bit_length()


def _distinct(run: Run, values: Sequence[Value]) -> int:
    items = values[0]
    return 1 + (len(items) + 1) * run.sizes.of(items) // 2 if is_list(items) else 1


def _sets(run: Run, values: Sequence[Value]) -> int:
    left, right = values
    if not is_list(left) or not is_list(right):
        return 1
    once = min(len(left) * run.sizes.of(right), len(right) * run.sizes.of(left))
    return 1 + len(left) + len(right) + 2 * once


def _includes(run: Run, values: Sequence[Value]) -> int:
    held, wanted = values
    return _among(run, wanted, held) if is_list(held) else _smaller(run, values)


def _insert(run: Run, values: Sequence[Value]) -> int:
    """A map is copied for each entry that comes in."""
    added = len(values[1]) if len(values) == 2 and is_map(values[1]) else 1
    held = len(values[0]) if is_map(values[0]) else 1
    return sum(map(run.sizes.of, values[1:])) + added * (held + added) * 2


def pattern_work(run: Run, text: Value, pattern: Value, *, is_known: bool) -> int:
    """A pattern over a text, at worst each instruction at each character. What its compilation may take is paid for before:
    by the evaluation where the pattern is computed, by the budget where one that stands in the text was forgotten."""
    if text.__class__ is not str or pattern.__class__ is not str:
        return 1
    if not is_known:
        run.spend(1 + patterns.size_ahead(pattern) * _INSTRUCTION)
    elif run.budget is not None and not patterns.is_remembered(pattern):
        run.budget.charge(patterns.size_ahead(pattern) * _INSTRUCTION)
    size = patterns.program_size(pattern)
    return 1 + (len(text) >> _MADE) + (len(text) * size >> 6)


def _pattern(run: Run, values: Sequence[Value]) -> int:
    return pattern_work(run, values[0], values[1], is_known=False)


def _known_pattern(run: Run, values: Sequence[Value]) -> int:
    return pattern_work(run, values[0], values[1], is_known=True)


_BY_FUNCTION: dict[str, Work] = {
    **dict.fromkeys(("size", "type", "dyn", "first", "last", "value", "hasValue", "charAt"), _nothing),
    **dict.fromkeys(("optional.of", "optional.ofNonZeroValue", "optional.none"), _nothing),
    **dict.fromkeys((ast.SUBTRACT, ast.MULTIPLY, ast.DIVIDE, ast.MODULO, ast.NEGATE, ast.NOT), _nothing),
    **dict.fromkeys((ast.EQUALS, ast.NOT_EQUALS, ast.LESS, ast.LESS_EQUALS), _smaller),
    **dict.fromkeys((ast.GREATER, ast.GREATER_EQUALS), _smaller),
    ast.ADD: _add,
    ast.IN: _in,
    ast.MAP_INSERT: _insert,
    **dict.fromkeys(("contains", "indexOf", "lastIndexOf"), _find),
    **dict.fromkeys(("startsWith", "endsWith"), _starts),
    "split": _split,
    "replace": _replace,
    "join": _join,
    "format": _format,
    "substring": _substring,
    **dict.fromkeys(("trim", "lowerAscii", "upperAscii", "string", "bytes"), _written),
    "strings.quote": _parsed,
    **dict.fromkeys(("int", "uint", "double", "bool", "duration", "timestamp"), _parsed),
    **dict.fromkeys(("quantity", "isQuantity", "validate"), _parsed),
    **dict.fromkeys(("semver", "isSemver"), _parsed_version),
    **dict.fromkeys(("url", "isURL"), _parsed_url),
    **dict.fromkeys(
        ("ip", "isIP", "ip.isCanonical", "cidr", "isCIDR", "containsIP", "containsCIDR"), _parsed
    ),
    **dict.fromkeys(("getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate"), _zoned),
    **dict.fromkeys(("getDayOfWeek", "getHours", "getMinutes", "getSeconds", "getMilliseconds"), _zoned),
    "flatten": _flatten,
    "reverse": _length,
    "slice": _slice,
    "lists.range": _range,
    **dict.fromkeys(("sort", ast.SORT_BY_KEYS), _sort),
    "distinct": _distinct,
    **dict.fromkeys(("sets.contains", "sets.equivalent", "sets.intersects"), _sets),
    "includes": _includes,
    **dict.fromkeys(("optional.unwrap", "unwrapOpt"), _length),
    **dict.fromkeys(("matches", "find", "findAll"), _pattern),
}


def _with_matches(found: Work) -> Work:
    """A call for each match, and there may be one at each character."""

    def work(run: Run, values: Sequence[Value]) -> int:
        matches = len(values[0]) + 1 if values[0].__class__ is str else 0
        if len(values) > 2 and values[2].__class__ is int and values[2] >= 0:
            matches = min(matches, values[2])
        return found(run, values) + _MATCH * matches

    return work


def work_of(function: str, *, has_pattern: bool = False) -> Work:
    """The rule of a function; `has_pattern` where the pattern was compiled with the expression."""
    found = _known_pattern if has_pattern else _BY_FUNCTION.get(function, _everything)
    return _with_matches(found) if function == "findAll" else found
