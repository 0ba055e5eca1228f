"""cel-go's functions on strings (version 2). Positions count code points."""

from __future__ import annotations

import string
from collections.abc import Sequence

from dray.cel import types as t
from dray.cel.ast import Literal
from dray.cel.costs.actual_cost import actual_size, of_first, string_cost
from dray.cel.costs.cost import (
    MAXIMUM,
    NOTHING,
    STRING_FACTOR,
    CallEstimate,
    EstimateCall,
    Range,
    SizedNode,
    Sizes,
)
from dray.cel.faults import EvaluationError
from dray.cel.functions import ActualCost, Implementation, Library, Overload
from dray.cel.library import formatting
from dray.cel.library.costs import search_items, searched, walk_target, walked
from dray.cel.types import Type
from dray.cel.values import EvaluationCancelledError, Value, text_of

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_UPPER = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
"""What Go calls white space."""
_ESCAPED = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)
_SIZE_LIMIT = 10_000_000
"""Characters of a result. As many as a cost limit of a million allows; costs are counted only afterwards."""


def _check_size(size: int) -> None:
    if size > _SIZE_LIMIT:
        raise EvaluationCancelledError(f"operation cancelled: string of more than {_SIZE_LIMIT} characters")


def _check_index(index: int, text: str) -> None:
    if not 0 <= index <= len(text):
        raise EvaluationError(f"index out of range: {index}")


def _char_at(text: str, index: int) -> Value:
    _check_index(index, text)
    return text[index : index + 1]


def _index_of(text: str, part: str, start: int = 0) -> Value:
    if not part:
        return start
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    return text.find(part, start)


def _last_index_of(text: str, part: str, start: int | None = None) -> Value:
    if not part:
        return len(text) if start is None else start
    if start is None:
        return _last(text, part)
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    return -1 if start >= len(text) else _last(text[: start + len(part)], part)


def _last(text: str, part: str) -> int:
    """Python's search from the end takes the product of both lengths, its search from the start their sum."""
    found = text[::-1].find(part[::-1])
    return found if found < 0 else len(text) - found - len(part)


def _lower(text: str) -> Value:
    return text.translate(_LOWER)


def _upper(text: str) -> Value:
    return text.translate(_UPPER)


def _replace(text: str, old: str, new: str, limit: int = -1) -> Value:
    count = text.count(old)
    count = count if limit < 0 else min(count, limit)
    _check_size(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new, count)


def _split(text: str, separator: str, limit: int = -1) -> Value:
    if limit == 0:
        return ()
    if separator:
        return tuple(text.split(separator, limit - 1 if limit > 0 else -1))
    if 0 < limit < len(text):
        return (*text[: limit - 1], text[limit - 1 :])
    return tuple(text)


def _substring(text: str, start: int, end: int | None = None) -> Value:
    if end is None:
        _check_index(start, text)
        return text[start:]
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    _check_index(start, text)
    _check_index(end, text)
    return text[start:end]


def _trim(text: str) -> Value:
    return text.strip(_SPACES)


def _join(parts: Sequence[Value], separator: str = "") -> Value:
    size = 0
    for part in parts:
        if part.__class__ is not str:
            raise EvaluationError(f"join: invalid input: {text_of(part)}")
        size += len(part) + len(separator)
        _check_size(size - len(separator))
    return separator.join(parts)


def _quote(text: str) -> Value:
    return f'"{text.translate(_ESCAPED)}"'


# Estimates.


def _estimate_replace(
    sizes: Sizes, target: SizedNode | None, arguments: Sequence[SizedNode]
) -> CallEstimate | None:
    """The result is longest where the shortest text is replaced by the longest as often as it fits."""
    if target is None or len(arguments) < 2:
        return None
    size, old, new = sizes.size(target), sizes.size(arguments[0]), sizes.size(arguments[1])
    if old.min == 0:
        most, kept_most = min(size.max + 1, MAXIMUM), size.max
    elif new.max <= old.min:
        most, kept_most = 0, size.max
    else:
        most, kept_most = _quotient(size.max, old.min), 0
    if old.max == 0:
        least, kept_least = min(size.min + 1, MAXIMUM), size.min
    elif old.max <= new.min:
        least, kept_least = 0, size.min
    else:
        least, kept_least = _quotient(size.min, old.max), 0
    result = Range(least, most).times(new).plus(Range(kept_least, kept_most))
    return CallEstimate(size.scaled(2 * STRING_FACTOR), result)


def _quotient(size: int, part: int) -> int:
    """Rounded up; in doubles, as Kubernetes computes it."""
    exact = float(size) / float(part)
    return min(int(exact) + (exact > int(exact)), MAXIMUM)


def _estimate_split(
    sizes: Sizes, target: SizedNode | None, arguments: Sequence[SizedNode]
) -> CallEstimate | None:
    """At worst each character is a part, or there are as many parts as the text of the expression says."""
    if target is None:
        return None
    size = sizes.size(target)
    most = size.max
    if len(arguments) > 1:
        limit = arguments[1].expr
        if isinstance(limit, Literal) and limit.value.__class__ is int:
            most = int(limit.value) & MAXIMUM
    return CallEstimate(size.scaled(2 * STRING_FACTOR), Range(0, most))


def _estimate_join(
    sizes: Sizes, target: SizedNode | None, arguments: Sequence[SizedNode]
) -> CallEstimate | None:
    if target is None:
        return None
    count, item = sizes.size(target), sizes.items(target)
    size = NOTHING if item is None else count.times(sizes.size(item))
    if arguments:
        between = Range(max(count.min - 1, 0), max(count.max - 1, 0))
        size = size.plus(sizes.size(arguments[0]).times(between))
    return CallEstimate(size.scaled(STRING_FACTOR), size)


def _estimate_quote(_: Sizes, __: SizedNode | None, arguments: Sequence[SizedNode]) -> CallEstimate:
    """At worst each character is escaped; sums wrap around, as in cel-go."""
    size = arguments[0].size or Range(0, MAXIMUM)
    return CallEstimate(size.scaled(STRING_FACTOR), Range(size.min + 2 & MAXIMUM, size.max * 2 + 2 & MAXIMUM))


def _estimate_format(_: Sizes, target: SizedNode | None, __: Sequence[SizedNode]) -> CallEstimate | None:
    if target is None:
        return None
    return CallEstimate((target.size or Range(0, MAXIMUM)).scaled(STRING_FACTOR))


def _cost_of_join(_: Sequence[Value], result: Value) -> int:
    return string_cost(actual_size(result), 2)


def _member(
    name: str,
    function: str,
    parameters: tuple[Type, ...],
    result: Type,
    call: Implementation,
    costs: tuple[EstimateCall | None, ActualCost | None] = (None, None),
) -> Overload:
    return Overload(
        name, function, parameters, result, call, is_member=True, estimate=costs[0], cost=costs[1]
    )


_S, _I, _LIST = t.STRING, t.INT, t.list_of(t.STRING)
_SEARCH = (search_items, searched)
_WALK = (walk_target(keeps_size=True), walked())
_REPLACE = (_estimate_replace, walked(2))
_SPLIT = (_estimate_split, walked(2))
_JOIN = (_estimate_join, _cost_of_join)

LIBRARY = Library(
    name="cel.lib.ext.strings",
    validators=(formatting.validate,),
    mixed_literals_in=("format",),
    overloads=(
        _member("string_char_at_int", "charAt", (_S, _I), _S, _char_at),
        _member("string_index_of_string", "indexOf", (_S, _S), _I, _index_of, _SEARCH),
        _member("string_index_of_string_int", "indexOf", (_S, _S, _I), _I, _index_of, _SEARCH),
        _member("string_last_index_of_string", "lastIndexOf", (_S, _S), _I, _last_index_of, _SEARCH),
        _member("string_last_index_of_string_int", "lastIndexOf", (_S, _S, _I), _I, _last_index_of, _SEARCH),
        _member("string_lower_ascii", "lowerAscii", (_S,), _S, _lower, _WALK),
        _member("string_replace_string_string", "replace", (_S, _S, _S), _S, _replace, _REPLACE),
        _member("string_replace_string_string_int", "replace", (_S, _S, _S, _I), _S, _replace, _REPLACE),
        _member("string_split_string", "split", (_S, _S), _LIST, _split, _SPLIT),
        _member("string_split_string_int", "split", (_S, _S, _I), _LIST, _split, _SPLIT),
        _member("string_substring_int", "substring", (_S, _I), _S, _substring, _WALK),
        _member("string_substring_int_int", "substring", (_S, _I, _I), _S, _substring, _WALK),
        _member("string_trim", "trim", (_S,), _S, _trim, _WALK),
        _member("string_upper_ascii", "upperAscii", (_S,), _S, _upper, _WALK),
        _member(
            formatting.OVERLOAD,
            "format",
            (_S, t.list_of(t.DYN)),
            _S,
            formatting.format_text,
            (_estimate_format, of_first),
        ),
        Overload(
            "strings_quote", "strings.quote", (_S,), _S, _quote, estimate=_estimate_quote, cost=of_first
        ),
        _member("list_join", "join", (_LIST,), _S, _join, _JOIN),
        _member("list_join_string", "join", (_LIST, _S), _S, _join, _JOIN),
    ),
)
