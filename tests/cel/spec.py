"""Reads the conformance tests in `specification/*.textproto`: protobuf's text format, as far as they use it.

`spec_tests()` gives the tests of all files. A test that needs a protobuf message (`needs_messages`) is about something that
Kubernetes' environment does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dray.cel import types as t
from dray.cel.types import Type
from dray.cel.values import Uint

FOLDER = Path(__file__).parent / "specification"
Message = dict[str, list[Any]]
"""The values of each field, in order: messages, strings as bytes, numbers and names as `Word`."""

_TOKEN = re.compile(
    rb"""\s*(?:\#[^\n]*\s*)*(?:
    (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<word>-?\s*[A-Za-z0-9_.+]+(?:-[0-9]+)?)
    |(?P<sign>[{}<>\[\]:,;/])
    |(?P<end>\Z))""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    rb"\\(?:[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_SIMPLE = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_PRIMITIVES = {
    "BOOL": t.BOOL,
    "INT64": t.INT,
    "UINT64": t.UINT,
    "DOUBLE": t.DOUBLE,
    "STRING": t.STRING,
    "BYTES": t.BYTES,
}
_WELL_KNOWN = {"ANY": t.ANY, "DURATION": t.DURATION, "TIMESTAMP": t.TIMESTAMP}
_TYPES = {
    type_.name: type_
    for type_ in (t.BOOL, t.INT, t.UINT, t.DOUBLE, t.STRING, t.BYTES, t.NULL, t.TYPE, t.DURATION, t.TIMESTAMP)
} | {"list": t.list_of(t.DYN), "map": t.map_of(t.DYN, t.DYN), "optional_type": t.optional_of(t.DYN)}


class Word(str):
    """A number or a name that stands without quotes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ObjectValue:
    """A protobuf message as a value: only tests that `needs_messages` expect one."""

    name: str
    fields: Message


@dataclass(frozen=True, slots=True)
class SpecTest:
    """One test. It expects `value`, or where `fails` an error when evaluated; without either, true."""

    id: str
    expr: str
    container: str
    disable_check: bool
    check_only: bool
    disable_macros: bool
    variables: dict[str, Type]
    functions: tuple[str, ...]
    bindings: dict[str, Any]
    value: Any
    fails: bool

    @property
    def needs_messages(self) -> bool:
        """Whether the test is about protobuf messages."""
        messages = "conformance.proto" in self.container or re.search(
            r"google\.protobuf\.\w+\s*\{", self.expr
        )
        named = re.search(r"\b(?:TestAllTypes|NestedTestAllTypes|cel\.expr\.conformance)\b", self.expr)
        return bool(messages or named)


@cache
def spec_tests(file: str = "*") -> tuple[SpecTest, ...]:
    """The tests of one file (`parse`) or of all, with ids like `parse/nest/list_index`."""
    paths = sorted(FOLDER.glob(f"{file}.textproto"))
    assert paths, f"no file {file}.textproto in {FOLDER}"
    return tuple(test for path in paths for test in _tests(path))


def _tests(path: Path) -> Iterator[SpecTest]:
    for section in read_message(path.read_bytes())["section"]:
        for test in section.get("test", []):
            yield _test(f"{path.stem}/{_text(section, 'name')}/{_text(test, 'name')}", test)


def _test(name: str, test: Message) -> SpecTest:
    declared = test.get("type_env", [])
    return SpecTest(
        id=name,
        expr=_text(test, "expr"),
        container=_text(test, "container"),
        disable_check=_flag(test, "disable_check"),
        check_only=_flag(test, "check_only"),
        disable_macros=_flag(test, "disable_macros"),
        variables={_text(d, "name"): type_of(d["ident"][0]["type"][0]) for d in declared if "ident" in d},
        functions=tuple(_text(d, "name") for d in declared if "function" in d),
        bindings={_text(b, "key"): value_of(b["value"][0]["value"][0]) for b in test.get("bindings", [])},
        value=value_of(test["value"][0]) if "value" in test else True,
        fails="eval_error" in test or "any_eval_errors" in test,
    )


def type_of(message: Message) -> Type:
    """A cel.expr.Type."""
    ((kind, (inner, *_)),) = message.items()
    match kind:
        case "primitive":
            return _PRIMITIVES[inner]
        case "well_known":
            return _WELL_KNOWN[inner]
        case "list_type":
            return t.list_of(type_of(inner["elem_type"][0]))
        case "map_type":
            return t.map_of(type_of(inner["key_type"][0]), type_of(inner["value_type"][0]))
        case "abstract_type":
            parameters = tuple(map(type_of, inner.get("parameter_types", [])))
            return Type(_text(inner, "name"), parameters, is_opaque=True)
        case "message_type":
            return _TYPES.get(inner.decode(), t.struct_of(inner.decode()))
        case "null":
            return t.NULL
        case "type":
            return t.type_of(type_of(inner)) if inner else t.TYPE
        case _:
            return t.DYN


def value_of(message: Message) -> Any:
    """A cel.expr.Value, as `dray.cel.values` has it."""
    ((kind, (inner, *_)),) = message.items()
    match kind:
        case "null_value":
            return None
        case "bool_value":
            return inner == "true"
        case "int64_value":
            return int(inner, 0)
        case "uint64_value":
            return Uint(int(inner, 0))
        case "double_value":
            return float(inner)
        case "string_value":
            return inner.decode()
        case "bytes_value":
            return inner
        case "list_value":
            return tuple(map(value_of, inner.get("values", [])))
        case "map_value":
            entries = inner.get("entries", [])
            return {value_of(entry["key"][0]): value_of(entry["value"][0]) for entry in entries}
        case "type_value":
            return _TYPES.get(inner.decode(), t.struct_of(inner.decode()))
        case "object_value":
            ((name, (fields, *_)),) = inner.items()
            return ObjectValue(name.rsplit("/", 1)[-1], fields)
        case _:
            raise AssertionError(f"value of kind {kind}")


def _text(message: Message, field: str) -> str:
    return bytes(message[field][0]).decode() if field in message else ""


def _flag(message: Message, field: str) -> bool:
    return message.get(field) == ["true"]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self.kind, self.token = "", b""
        self.step()

    def step(self) -> bytes:
        """Returns the token and goes to the next."""
        token = self.token
        match = _TOKEN.match(self._data, self._at)
        assert match, self._data[self._at : self._at + 40]
        self.kind = match.lastgroup or ""
        self.token, self._at = match[self.kind], match.end()
        return token

    def skip(self, *tokens: bytes) -> bool:
        if self.token in tokens and self.kind == "sign":
            self.step()
            return True
        return False

    def message(self) -> Message:
        fields: Message = {}
        while self.kind != "end" and self.token not in (b"}", b">"):
            name = self._name()
            self.skip(b":")
            values = fields.setdefault(name, [])
            if self.skip(b"["):
                while not self.skip(b"]"):
                    values.append(self._value())
                    self.skip(b",")
            else:
                values.append(self._value())
            self.skip(b",", b";")
        return fields

    def _name(self) -> str:
        if not self.skip(b"["):
            return self.step().decode()
        parts = []
        while not self.skip(b"]"):
            parts.append(self.step())
        return b"".join(parts).decode()

    def _value(self) -> Any:
        if self.skip(b"{", b"<"):
            inner = self.message()
            assert self.skip(b"}", b">")
            return inner
        if self.kind == "text":
            parts = []
            while self.kind == "text":
                parts.append(_ESCAPE.sub(_unescaped, self.step()[1:-1]))
            return b"".join(parts)
        return Word(self.step().decode().replace(" ", ""))


def _unescaped(match: re.Match[bytes]) -> bytes:
    byte, octal, short, long, simple = match.groups()
    if simple is not None:
        return _SIMPLE.get(simple, simple)
    if short or long:
        return chr(int(short or long, 16)).encode()
    return bytes([int(octal, 8) if octal else int(byte, 16)])


def read_message(data: bytes) -> Message:
    """A text-format message."""
    reader = _Reader(data)
    message = reader.message()
    assert reader.kind == "end", reader.token
    return message
