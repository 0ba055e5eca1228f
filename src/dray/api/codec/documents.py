"""Files of manifests: YAML or JSON, one document or many, lists taken apart, every manifest with its `file:line`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isfinite
from typing import Any, Final, NoReturn

from dray.api.codec.json_codec import position
from dray.api.codec.manifest import Manifest
from dray.api.codec.yaml_reader import MAX_DEPTH, Document, decode_text, fail, read_documents
from dray.errors import InvalidError

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_JSON_START: Final = re.compile(r'\s*(?:\{\s*["}]|\[)')
_YAML_GOES_ON: Final = re.compile(r"---|#|\.\.\.")
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def load_documents(data: str | bytes, source: str = "<input>") -> list[Manifest]:
    """All objects of a file, in order. Empty documents are left out; a List's items stand for the List."""
    found: list[Manifest] = []
    for document in load_values(data, source):
        _flatten(document.value, f"{source}:{document.line}", document, source, found)
    return found


def load_values(data: str | bytes, source: str = "<input>") -> list[Document]:
    """The documents as plain values, whatever they are: for configuration files.

    What starts like JSON is held to JSON's rules, unless YAML's `---` or a comment follows.
    """
    text = decode_text(data, source)
    start = _JSON_START.match(text)
    if start is None:
        return read_documents(text, source)
    try:
        return list(_json_stream(text, source))
    except _MaybeYamlError as error:
        if not start[0].endswith("[") and not _YAML_GOES_ON.match(text, error.at):
            raise error.reason from None
        try:
            return read_documents(text, source)
        except InvalidError as yaml_error:
            raise max(error.reason, yaml_error, key=_place) from None


def _place(error: InvalidError) -> tuple[int, int]:
    """How far a reader came: the one that came further has the better explanation."""
    _, _, line, column = (":::" + error.field).rsplit(":", 3)
    return (int(line), int(column)) if line.isdecimal() and column.isdecimal() else (0, 0)


def _flatten(value: Any, place: str, document: Document, source: str, found: list[Manifest]) -> None:
    manifest = Manifest.of(value, place)
    items = value.get("items")
    if not manifest.kind.endswith("List") or not isinstance(items, list):
        found.append(manifest)
        return
    for index, item in enumerate(items):
        line = document.lines.get(id(item))
        item_place = f"{source}:{line}" if line else f"{place}: items[{index}]"
        if manifest.kind != "List" and isinstance(item, dict):
            item = {"apiVersion": manifest.api_version, "kind": manifest.kind.removesuffix("List"), **item}
        _flatten(item, item_place, document, source, found)


class _MaybeYamlError(Exception):
    """The JSON ends at `at`; `reason` is the error to report if what follows is not YAML either."""

    def __init__(self, reason: InvalidError, at: int) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.at = at


def _json_stream(text: str, source: str) -> Iterator[Document]:
    """JSON values one after the other, with or without space between."""
    at = _skip(text, 0)
    while at < len(text):
        value, end = _json_value(text, at, source)
        _check_depth(value, source, position(text, at))
        if _SURROGATE.search(text, at, end):
            _check_characters(value, source, position(text, at))
        if value is not None:
            yield Document(value, position(text, at)[0])
        at = _skip(text, end)


def _json_value(text: str, at: int, source: str) -> tuple[Any, int]:
    try:
        return _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        place = f"{source}:{error.lineno}:{error.colno}"
        raise _MaybeYamlError(InvalidError(f"{place}: {error.msg}", field=place), error.pos) from None
    except _DuplicateKeyError as error:
        fail(source, *position(text, _second(text, at, str(error))), f"the key {str(error)!r} is there twice")
    except _BadNumberError as error:
        number = str(error)
        start = next((found.start() for found in _TOKEN.finditer(text, at) if found[0] == number), at)
        fail(source, *position(text, start), f"the number {number[:40]} has no JSON form or is too large")
    except RecursionError:
        fail(source, *position(text, at), f"nested more than {MAX_DEPTH} deep")


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


class _DuplicateKeyError(Exception):
    """An object has a key twice; the argument is the key."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKeyError(key)
            seen.add(key)
    return found


def _second(text: str, at: int, key: str) -> int:
    """Where the first object that repeats `key` does so: a scan, since the decoder does not tell."""
    seen: list[set[str] | None] = []
    start, previous = at, ""
    for found in _TOKEN.finditer(text, at):
        mark = found[0]
        if mark in ("{", "["):
            seen.append(set() if mark == "{" else None)
        elif mark in ("}", "]") and seen:
            seen.pop()
        elif mark == ":" and seen and seen[-1] is not None:
            name = json.loads(previous)
            if name == key and name in seen[-1]:
                return start
            seen[-1].add(name)
        start, previous = found.start(), mark
    return at


class _BadNumberError(Exception):
    """A number that is not finite or absurdly long; the argument is its text."""


def _no_constant(name: str) -> NoReturn:
    raise _BadNumberError(name)


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise _BadNumberError(text)
    return number


def _integer(text: str) -> int | float:
    """Whole numbers beyond 64 bits become floats, as in a YAML file and as in `kubectl`."""
    number = int(text) if len(text) <= 20 else 2**64
    return number if -(2**63) <= number < 2**64 else _finite(text)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_no_constant, parse_float=_finite, parse_int=_integer
)


def _check_depth(value: Any, source: str, place: tuple[int, int]) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            item
            for entry in level
            if isinstance(entry, (dict, list))
            for item in (entry.values() if isinstance(entry, dict) else entry)
        ]
        if not level:
            return
    fail(source, *place, f"nested more than {MAX_DEPTH} deep")


def _check_characters(value: Any, source: str, place: tuple[int, int]) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        fail(source, *place, "an escape such as \\ud800 stands for half a character")
