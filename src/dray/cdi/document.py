"""The text of a CDI spec as a tree that knows where each value stands. JSON is read as the YAML it is, like runtimes do.

Scalars keep their text: what `0`, `0660` or `yes` means depends on the field they stand in (`typed.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import yaml

from dray.api.codec.yaml_reader import MAX_DEPTH, decode_text, fail
from dray.errors import InvalidError

_TAG: Final = "tag:yaml.org,2002:"
_SCALAR_TAGS: Final = frozenset(_TAG + name for name in ("int", "float", "bool", "null"))


@dataclass(frozen=True, slots=True)
class Scalar:
    """A word, number or text. `is_plain`: neither quoted nor said to be a string."""

    line: int
    text: str
    is_plain: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    line: int
    items: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Mapping:
    """A map, each key once. `key_lines` are the lines of the keys."""

    line: int
    entries: dict[str, Node] = field(default_factory=dict)
    key_lines: dict[str, int] = field(default_factory=dict)


Node = Scalar | Sequence | Mapping


@dataclass(frozen=True, slots=True)
class Document:
    """The first document of a file: the only one that counts. `more_at` is the line where another starts, or 0."""

    root: Node
    more_at: int = 0


def read_document(data: str | bytes, source: str) -> Document:
    """InvalidError, which starts with `source:line:column`, where the text is no YAML or there is nothing in it."""
    return _Reader(decode_text(data, source), source).document()


@dataclass(slots=True)
class _Open:
    """A list or map under construction; `key` is the one whose value comes next."""

    node: Sequence | Mapping
    anchor: str | None
    key: Scalar | None = None
    merged: list[Mapping] = field(default_factory=list)


class _Reader:
    """Builds from parser events with a stack of its own: no depth of nesting can exhaust ours."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.text = text
        self.events = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        self.stack: list[_Open] = []
        self.anchors: dict[str, Node | None] = {}
        self.root: Node | None = None

    def document(self) -> Document:
        try:
            while self.root is None:
                self.take(self.events.get_event())
            return Document(self.root, self.next_start())
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            fail(self.source, line, column, str(error.problem))
        except yaml.YAMLError as error:
            self.fail_as_reader(error)
        except (ValueError, OverflowError):  # the parser in Python lets "\\Uffffffff" through to chr()
            fail(self.source, 1, 1, "an escape in this text stands for no character")

    def fail_as_reader(self, error: yaml.YAMLError) -> NoReturn:
        """For a character that YAML does not have. `position` counts bytes in the C parser: near enough in the other."""
        before = self.text.encode()[: getattr(error, "position", 0)]
        line, column = before.count(b"\n") + 1, len(before) - before.rfind(b"\n")
        fail(self.source, line, column, getattr(error, "reason", None) or str(error))

    def next_start(self) -> int:
        """What follows the first document is never read by a runtime: a fault in it does not count."""
        event: Any = None
        try:
            while not isinstance(event, yaml.StreamEndEvent):
                event = self.events.get_event()
                if isinstance(event, yaml.DocumentStartEvent):
                    return _line(event)
        except yaml.YAMLError as error:
            mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
            return int(mark.line) + 1 if mark else 1
        return 0

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self.add(event, self.scalar(event), event.anchor)
        elif isinstance(event, yaml.AliasEvent):
            self.add(event, self.alias(event), None)
        elif isinstance(event, yaml.MappingStartEvent):
            self.open(event, Mapping(_line(event)), "map")
        elif isinstance(event, yaml.SequenceStartEvent):
            self.open(event, Sequence(_line(event)), "seq")
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self.close(event)
        elif isinstance(event, yaml.StreamEndEvent):
            raise InvalidError(f"{self.source}: there is no CDI spec in it", field=self.source)

    def scalar(self, event: Any) -> Scalar:
        if event.tag in (None, "!"):
            return Scalar(_line(event), event.value, event.tag is None and event.implicit[0])
        if event.tag != _TAG + "str" and event.tag not in _SCALAR_TAGS:
            self.fail(event, f"the tag {event.tag} is not supported: only plain JSON types are")
        return Scalar(_line(event), event.value, event.tag in _SCALAR_TAGS)

    def alias(self, event: Any) -> Node:
        found = self.anchors.get(event.anchor)
        if found is None:
            known = event.anchor in self.anchors
            self.fail(event, f"*{event.anchor} " + ("is inside itself" if known else "is not defined before"))
        return found

    def open(self, event: Any, node: Sequence | Mapping, name: str) -> None:
        if event.tag not in (None, "!", _TAG + name):
            self.fail(event, f"the tag {event.tag} is not supported: only plain JSON types are")
        if self.stack and isinstance(self.stack[-1].node, Mapping) and self.stack[-1].key is None:
            self.fail(event, "a key must be a string, not a list or map")
        if len(self.stack) >= MAX_DEPTH:
            self.fail(event, f"nested more than {MAX_DEPTH} deep")
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        self.stack.append(_Open(node, event.anchor))

    def close(self, event: Any) -> None:
        done = self.stack.pop()
        if isinstance(done.node, Mapping):
            for merged in done.merged:
                for key, value in merged.entries.items():
                    if key not in done.node.entries:
                        done.node.entries[key] = value
                        done.node.key_lines[key] = merged.key_lines[key]
        self.add(event, done.node, done.anchor)

    def add(self, event: Any, node: Node, anchor: str | None) -> None:
        """Put a finished value where it belongs: into the open list or map, as a key, or out as the document."""
        if anchor is not None:
            self.anchors[anchor] = node
        if not self.stack:
            self.root = node
            return
        top = self.stack[-1]
        if isinstance(top.node, Sequence):
            top.node.items.append(node)
        elif top.key is None:
            top.key = self.key(event, node, top.node)
        else:
            self.put(event, node, top, top.node)
            top.key = None

    def key(self, event: Any, node: Node, owner: Mapping) -> Scalar:
        if not isinstance(node, Scalar):
            self.fail(event, "a key must be a string, not a list or map")
        if node.text in owner.entries:
            self.fail(event, f"the key {node.text!r} is there twice")
        return node

    def put(self, event: Any, node: Node, top: _Open, owner: Mapping) -> None:
        assert top.key is not None
        if top.key.text == "<<" and top.key.is_plain:
            parts = node.items if isinstance(node, Sequence) else [node]
            if not all(isinstance(part, Mapping) for part in parts):
                self.fail(event, "<< needs a map or a list of maps")
            top.merged += [part for part in parts if isinstance(part, Mapping)]
            return
        owner.entries[top.key.text] = node
        owner.key_lines[top.key.text] = top.key.line

    def fail(self, event: Any, text: str) -> NoReturn:
        fail(self.source, event.start_mark.line + 1, event.start_mark.column + 1, text)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
