"""Reads YAML with the rules of YAML 1.2, so that what looks like a word stays a word.

`yes`, `on`, `1_000`, `12:30`, `0000:05:00.0` and `2026-01-01` are strings. So are numbers with needless leading
zeros (`0001`, `007.5`): YAML 1.2 would make them numbers, but in device files they are PCI and USB ids. Only `true`,
`false`, `null`, `~`, plain decimal numbers, `0x…` and `0o…` are anything else. What JSON cannot hold is refused:
`.inf`, `.nan`, tags outside the core schema, keys that are lists or maps. Like `kubectl`, merge keys (`<<`) work and
numbers or booleans used as keys become strings.

Every error is an InvalidError that starts with `source:line:column`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final, NoReturn

import yaml

from dray.errors import InvalidError

MAX_BYTES: Final = 16 * 1024 * 1024
MAX_DEPTH: Final = 100
MAX_EXPANDED: Final = 1_000_000

_CORE: Final = "tag:yaml.org,2002:"
_CONSTANTS: Final = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_NOT_PLAIN: Final = frozenset("~nNtTfF-+.0123456789")
_NUMBER: Final = re.compile(
    r"(?P<int>[-+]?(?:0|[1-9][0-9]*))"
    r"|(?P<hex>0x[0-9a-fA-F]+)|(?P<oct>0o[0-7]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)"
)
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_UNPRINTABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|\ufeff")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_WORD: Final = object()
_NO_KEY: Final = object()
_MERGE: Final = object()
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "str": (str,), "int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its value, and the line of every map in it by `id()` (valid while the value lives)."""

    value: Any
    line: int
    lines: dict[int, int] = field(repr=False, default_factory=dict)


def read_documents(data: str | bytes, source: str = "<input>") -> list[Document]:
    """All documents of a YAML stream; empty ones are left out."""
    return _Builder(decode_text(data, source), source).documents()


def decode_text(data: str | bytes, source: str) -> str:
    """The text of a file: UTF-8 with or without a byte order mark, or UTF-16 with one; not over the size limit."""
    if len(data) > MAX_BYTES:
        raise InvalidError(f"{source}: larger than {MAX_BYTES // 1024 // 1024} MiB", field=source)
    try:
        if isinstance(data, str):
            data.encode()
            return data.removeprefix("\ufeff")
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            return data.decode("utf-16")
        return data.decode("utf-8-sig")
    except UnicodeError as error:
        at = getattr(error, "start", 0)
        before = data[:at]
        newline: Any = "\n" if isinstance(before, str) else b"\n"
        line, column = before.count(newline) + 1, at - before.rfind(newline)
        fail(source, line, column, "not valid UTF-8 text")


def fail(source: str, line: int, column: int, text: str) -> NoReturn:
    """Raise the error for one place of a file; line and column count from 1."""
    place = f"{source}:{line}:{column}"
    raise InvalidError(f"{place}: {text}", field=place)


class _Frame:
    """A list or map under construction, with its expanded size and height for the limits."""

    __slots__ = ("anchor", "height", "key", "line", "merges", "size", "value")

    def __init__(self, value: Any, anchor: str | None, line: int) -> None:
        self.value = value
        self.anchor = anchor
        self.line = line
        self.key: Any = _NO_KEY
        self.merges: list[Any] | None = None
        self.size = 1
        self.height = 1


class _Builder:
    """Builds values straight from parser events, with an explicit stack: no depth of nesting can exhaust ours."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.text = text
        self.found: list[Document] = []
        self.expanded = 0
        self.handlers = {
            yaml.ScalarEvent: self.scalar,
            yaml.AliasEvent: self.alias,
            yaml.MappingStartEvent: self.open_map,
            yaml.SequenceStartEvent: self.open_list,
            yaml.MappingEndEvent: self.close,
            yaml.SequenceEndEvent: self.close,
            yaml.DocumentStartEvent: self.start,
        }

    def documents(self) -> list[Document]:
        event: Any = None
        try:
            loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(self.text)
            while (event := loader.get_event()).__class__ is not yaml.StreamEndEvent:
                if handler := self.handlers.get(event.__class__):
                    handler(event)
        except yaml.MarkedYAMLError as error:
            self.fail_as_parser(error)
        except yaml.YAMLError as error:
            self.fail_as_reader(error)
        except (ValueError, OverflowError):  # the parser in Python lets "\\Uffffffff" through to chr()
            self.fail(event, "an escape after this place stands for no character")
        return self.found

    def fail_as_parser(self, error: yaml.MarkedYAMLError) -> NoReturn:
        mark, start = error.problem_mark or error.context_mark, error.context_mark
        if mark is None:
            fail(self.source, 1, 1, str(error.problem))
        text = str(error.problem)
        if error.context and start is not None and start.line < mark.line:
            text += f" {error.context} that starts in line {start.line + 1}"
        if self.text[mark.index : mark.index + 1] == "\t":
            text += " (indent with spaces, not tabs)"
        fail(self.source, mark.line + 1, mark.column + 1, text)

    def fail_as_reader(self, error: yaml.YAMLError) -> NoReturn:
        found = _UNPRINTABLE.search(self.text)
        before = self.text[: found.start() if found else 0]
        text = f"the character {found[0]!r} is not allowed" if found else getattr(error, "reason", str(error))
        fail(self.source, before.count("\n") + 1, len(before) - before.rfind("\n"), text)

    def fail(self, event: Any, text: str) -> NoReturn:
        fail(self.source, event.start_mark.line + 1, event.start_mark.column + 1, text)

    def start(self, event: Any) -> None:
        self.stack: list[_Frame] = []
        self.anchors: dict[str, _Frame | None] = {}
        self.lines: dict[int, int] = {}

    def scalar(self, event: Any) -> None:
        value = event.value
        if event.style == '"' and not value.isascii() and _SURROGATE.search(value):
            self.fail(event, "an escape in this text stands for half a character")
        if event.tag is not None:
            value = self.tagged(event)
        elif event.implicit[0] and (not value or value[0] in _NOT_PLAIN):
            value = self.plain(event, value)
        if event.anchor is not None:
            self.anchors[event.anchor] = _Frame(value, None, 0)
        self.add(event, value, 1, 0)

    def plain(self, event: Any, text: str) -> Any:
        value = _CONSTANTS.get(text, _WORD)
        if value is not _WORD:
            return value
        match = _NUMBER.fullmatch(text)
        if match is not None:
            return self.number(event, text, match.lastgroup)
        if _NOT_FINITE.fullmatch(text):
            self.fail(event, f"{text} has no JSON form: quote it or use a finite number")
        return text

    def number(self, event: Any, text: str, form: str | None) -> int | float:
        if form == "int" and len(text) <= 20:
            value = int(text)
        elif form in ("hex", "oct") and len(text) <= 24:
            value = int(text, 0)
        else:
            value = 2**64
        if -(2**63) <= value < 2**64 and form != "float":
            return value
        decimal = float(text) if form in ("int", "float") else float("inf")
        if not isfinite(decimal):
            self.fail(event, "the number is too large")
        return decimal

    def tagged(self, event: Any) -> Any:
        name = event.tag.removeprefix(_CORE)
        if event.tag == "!" or name == "str":
            return event.value
        value = self.plain(event, event.value)
        types = _TYPES.get(name)
        if types is None or not event.tag.startswith(_CORE):
            self.fail(event, f"the tag {event.tag} is not supported: only plain JSON types are")
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            self.fail(event, f"{event.value!r} is not of the type {name}")
        return value

    def alias(self, event: Any) -> None:
        if event.anchor not in self.anchors:
            self.fail(event, f"the alias *{event.anchor} has no anchor &{event.anchor} before it")
        frame = self.anchors[event.anchor]
        if frame is None:
            self.fail(event, f"the anchor &{event.anchor} contains itself")
        self.expanded += frame.size
        if self.expanded > MAX_EXPANDED:
            self.fail(event, f"the aliases stand for more than {MAX_EXPANDED} values")
        if len(self.stack) + frame.height > MAX_DEPTH:
            self.fail(event, f"nested more than {MAX_DEPTH} deep")
        self.add(event, self.copied(frame.value), frame.size, frame.height)

    def copied(self, value: Any) -> Any:
        """An alias is expanded, so that changing one place never changes another. `MAX_DEPTH` bounds the recursion."""
        if isinstance(value, dict):
            copy = {key: self.copied(item) for key, item in value.items()}
            self.lines[id(copy)] = self.lines.get(id(value), 0)
            return copy
        return [self.copied(item) for item in value] if isinstance(value, list) else value

    def open_map(self, event: Any) -> None:
        self.open(event, {}, "map")
        self.lines[id(self.stack[-1].value)] = event.start_mark.line + 1

    def open_list(self, event: Any) -> None:
        self.open(event, [], "seq")

    def open(self, event: Any, value: Any, name: str) -> None:
        if event.tag not in (None, "!", _CORE + name):
            self.fail(event, f"the tag {event.tag} is not supported: only plain JSON types are")
        if self.stack and self.stack[-1].key is _NO_KEY and isinstance(self.stack[-1].value, dict):
            self.fail(event, "a key must be a string, not a list or map")
        if len(self.stack) >= MAX_DEPTH:
            self.fail(event, f"nested more than {MAX_DEPTH} deep")
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.stack.append(_Frame(value, event.anchor, event.start_mark.line + 1))

    def close(self, event: Any) -> None:
        frame = self.stack.pop()
        if frame.merges:
            for merged in frame.merges:
                for key, value in merged.items():
                    frame.value.setdefault(key, self.copied(value))
        if frame.anchor is not None:
            self.anchors[frame.anchor] = frame
        self.add(event, frame.value, frame.size, frame.height, frame.line)

    def add(self, event: Any, value: Any, size: int, height: int, line: int | None = None) -> None:
        """Put a finished value where it belongs: into the open list or map, as a key, or out as a document."""
        if not self.stack:
            if value is not None:
                self.found.append(Document(value, line or event.start_mark.line + 1, self.lines))
            return
        frame = self.stack[-1]
        frame.size += size
        if height >= frame.height:
            frame.height = height + 1
        if frame.value.__class__ is list:
            frame.value.append(value)
        elif frame.key is _NO_KEY:
            frame.key = self.key(event, value, frame)
        elif frame.key is _MERGE:
            self.merge(event, value, frame)
            frame.key = _NO_KEY
        else:
            frame.value[frame.key] = value
            frame.key = _NO_KEY

    def key(self, event: Any, value: Any, frame: _Frame) -> Any:
        if value.__class__ is not str:
            value = self.key_text(event, value)
        elif value == "<<" and event.__class__ is yaml.ScalarEvent and event.implicit[0]:
            return _MERGE
        if value in frame.value:
            self.fail(event, f"the key {value!r} is there twice")
        frame.value[value] = None
        return value

    def key_text(self, event: Any, value: Any) -> str:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (int, float)):
            return repr(value).removesuffix(".0")
        return self.fail(event, f"a key must be a string, not {'null' if value is None else 'a list or map'}")

    def merge(self, event: Any, value: Any, frame: _Frame) -> None:
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, dict) for part in parts):
            self.fail(event, "<< needs a map or a list of maps")
        frame.merges = (frame.merges or []) + parts
