"""Values at run time. Most are Python's own; these are the ones that Python has no type for.

| CEL | Python | | CEL | Python |
|---|---|---|---|---|
| bool | bool | | list | tuple, list or `JoinedList` |
| int | int, within 64 bits | | map | dict, `DefaultMap` or `MixedMap` |
| uint | `Uint` | | null | None |
| double | float | | type | `types.Type` |
| string | str | | duration, timestamp | `Duration`, `Timestamp` |
| bytes | bytes | | optional | `Optional` |

Opaque values (quantity, semver, ip, …) are objects of their library's classes and derive from `Opaque`. True is an int in
Python and not in CEL: compare with `equality.equal` and `equality.compare` only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from typing import Any, ClassVar

from dray.cel import types
from dray.cel.faults import EvaluationError
from dray.cel.types import Type

Value = Any
"""One of the above."""

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
LIST_LIMIT = 1_000_000
"""No list grows longer: what walks over one would be cut off by its cost anyway, but only after the walk."""


class EvaluationCancelledError(EvaluationError):
    """The evaluation was cut off. Unlike other errors, `&&`, `||` and macros do not absorb it."""


class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time in nanoseconds, within 64 bits."""

    nanoseconds: int


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """Nanoseconds since 1970, years 1 to 9999. `offset` (seconds east of UTC) only shows when it is written as a string."""

    nanoseconds: int
    offset: int = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanoseconds == other.nanoseconds

    def __hash__(self) -> int:
        return hash(self.nanoseconds)


class _Missing:
    """Neither a value nor null."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing."""

    content: Value = MISSING

    @property
    def has_value(self) -> bool:
        """Whether there is one."""
        return self.content is not MISSING

    def value(self) -> Value:
        """The value; an error if there is none."""
        if self.content is MISSING:
            raise EvaluationError("optional.none() dereference")
        return self.content


NONE = Optional()


class Opaque:
    """A library's own value. Python's `==` on two of one class is CEL's."""

    __slots__ = ()

    cel_type: ClassVar[Type]
    is_refused: bool = False
    """Whether `==` refuses it on its right side: what Kubernetes does with the results of its own arithmetic."""

    @property
    def weight(self) -> int:
        """The work of comparing, hashing or writing it (`dray.cel.sizes`)."""
        return 8


class DefaultMap(dict[Any, Any]):
    """A map in which every key can be looked up: a missing one gives `default`. `in`, size and iteration tell the truth."""

    __slots__ = ("default",)

    def __init__(self, content: Mapping[Any, Any], default: Value) -> None:
        super().__init__(content)
        self.default = default

    def __missing__(self, key: object) -> Value:
        return self.default


class MixedMap(Mapping[Any, Any]):
    """A map with keys that Python would confuse: `true` and `1` are two, and `1u` is found by `1` but is not the same key."""

    __slots__ = ("_entries",)

    def __init__(self, pairs: Iterable[tuple[Value, Value]]) -> None:
        self._entries: dict[tuple[type, Value], tuple[Value, Value]] = {}
        for key, value in pairs:
            self._entries[key.__class__, hashable(key)] = key, value

    def find(self, key: Value) -> Value:
        """The value, or MISSING. Numbers find each other across types, but a double key is found by doubles only."""
        for kind in _LOOKED_FOR.get(key.__class__, (key.__class__,)):
            entry = self._entries.get((kind, hashable(key)))
            if entry is not None:
                return entry[1]
        return MISSING

    def __getitem__(self, key: Value) -> Value:
        value = self.find(key)
        if value is MISSING:
            raise KeyError(key)
        return value

    def __iter__(self) -> Iterator[Value]:
        return (key for key, _ in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> ValuesView[tuple[Value, Value]]:  # type: ignore[override]
        """Keys with their values, without a look for any of them: that would hash the key again."""
        return self._entries.values()


def hashable(key: Value) -> Value:
    """A map, or what holds one, is only itself, as in cel-go. The entry keeps it, so that its identity stays its own."""
    try:
        hash(key)
    except TypeError:
        return id(key)
    return key


_LOOKED_FOR: dict[type, tuple[type, ...]] = {
    int: (int, Uint),
    Uint: (Uint, int),
    float: (float, int, Uint),
}


def make_map(pairs: Sequence[tuple[Value, Value]]) -> Mapping[Any, Any]:
    """A map of these entries; later ones win."""
    if all(key.__class__ is str or key.__class__ is int for key, _ in pairs):
        return dict(pairs)
    return MixedMap(pairs)


class JoinedList(Sequence[Any]):
    """Two lists as one, without a copy: `a + a` repeated must not fill the memory."""

    __slots__ = ("_length", "depth", "left", "right")

    def __init__(self, left: Sequence[Any], right: Sequence[Any]) -> None:
        self.left, self.right = left, right
        self.depth: int = 1 + max(getattr(left, "depth", 0), getattr(right, "depth", 0))
        """Steps to an item."""
        self._length = len(left) + len(right)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self)[index]
        part: Sequence[Any] = self
        while isinstance(part, JoinedList):
            if index < len(part.left):
                part = part.left
            else:
                index, part = index - len(part.left), part.right
        return part[index]

    def __iter__(self) -> Iterator[Any]:
        waiting: list[Sequence[Any]] = [self]
        while waiting:
            part = waiting.pop()
            if isinstance(part, JoinedList):
                waiting += (part.right, part.left)
            else:
                yield from part


def join_lists(left: Sequence[Any], right: Sequence[Any]) -> Sequence[Any]:
    """`left + right`."""
    if not left or not right:
        return left or right
    length = len(left) + len(right)
    if length > LIST_LIMIT:
        raise EvaluationCancelledError(f"operation cancelled: list of {length} items")
    return (*left, *right) if length <= 16 else JoinedList(left, right)


_TYPES: dict[type, Type] = {
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
    tuple: types.list_of(types.DYN),
    list: types.list_of(types.DYN),
    JoinedList: types.list_of(types.DYN),
    dict: types.map_of(types.DYN, types.DYN),
    DefaultMap: types.map_of(types.DYN, types.DYN),
    MixedMap: types.map_of(types.DYN, types.DYN),
    Duration: types.DURATION,
    Timestamp: types.TIMESTAMP,
    Optional: types.optional_of(types.DYN),
    Type: types.TYPE,
}


def type_of(value: Value) -> Type:
    """The type of a value at run time; what is in a list or map is not looked at."""
    found = _TYPES.get(value.__class__)
    if found is not None:
        return found
    if isinstance(value, Opaque):
        return value.cel_type
    for kind, kind_type in _TYPES.items():
        if isinstance(value, kind):
            return kind_type
    raise EvaluationError(f"unsupported conversion to a CEL value: {value.__class__.__name__}")


def type_name(value: Value) -> str:
    """The name of `type_of`."""
    return type_of(value).name


_LISTS = (tuple, list, JoinedList)
_MAPS = (dict, MixedMap)


def is_list(value: Value) -> bool:
    """Whether it is a CEL list."""
    return isinstance(value, _LISTS)


def is_map(value: Value) -> bool:
    """Whether it is a CEL map."""
    return isinstance(value, _MAPS)


def text_of(value: Value) -> str:
    """A value as error messages show it; only the beginning of one that is large: nobody pays for an error that nobody reads."""
    if value is None or value.__class__ is bool:
        return {None: "null", True: "true", False: "false"}[value]
    if value.__class__ is str:
        return value if len(value) <= _SHOWN_CHARACTERS else f"{value[:_SHOWN_CHARACTERS]}…"
    if not isinstance(value, (Optional, *_LISTS, *_MAPS)):
        return _scalar_text(value)
    shown, left = _shown(value, _SHOWN_VALUES)
    return shown if left > 0 else f"{shown}, …"


_SHOWN_VALUES = 100
_SHOWN_CHARACTERS = 4096


def _scalar_text(value: Value) -> str:
    if value.__class__ is bytes:
        return str(value[:_SHOWN_CHARACTERS])
    if isinstance(value, Opaque) and value.weight > _SHOWN_CHARACTERS:
        return f"{value.cel_type.name}(…)"
    return str(value)


def _shown(value: Value, left: int) -> tuple[str, int]:
    """The text of at most `left` values, and how many of them are left."""
    if left <= 0:
        return "…", 0
    left -= 1
    if value.__class__ is Optional:
        if not value.has_value:
            return "optional.none()", left
        inner, left = _shown(value.content, left)
        return f"optional.of({inner})", left
    if is_list(value):
        texts, left = _shown_all(value, left)
        return f"[{', '.join(texts)}]", left
    if is_map(value):
        keys, left = _shown_all(value, left)
        return f"{{{', '.join(keys)}}}", left
    return (text_of(value) if value.__class__ is not str else repr(value[:_SHOWN_VALUES])), left


def _shown_all(values: Iterable[Value], left: int) -> tuple[list[str], int]:
    texts: list[str] = []
    for value in values:
        if left <= 0:
            break
        text, left = _shown(value, left)
        texts.append(text)
    return texts, left
