"""JSON patch (RFC 6902) as the API server applies it.

Its ways where the RFC leaves room or is not followed: a `replace` of a missing field adds it, a missing `value` is null,
`copy` of a missing field adds null, `test` takes a missing field for null, a negative index counts from the end, and what
stands before the first slash of a path is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from dray.api.codec.json_codec import encode
from dray.apiserver.patching.documents import copied, is_same
from dray.apiserver.patching.refusal import PatchError, shown

MAX_OPERATIONS: Final = 10_000
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024
"""How much all `copy` operations of one patch may add; else a few of them, each doubling the object, fill the memory."""

_INDEX: Final = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True)
class Operation:
    """One step of a patch. `path` and `source` (the field `from`) are None where they are missing."""

    kind: str
    path: str | None = None
    source: str | None = None
    value: Any = None


def read_operations(patch: Any) -> tuple[Operation, ...]:
    """The steps of a decoded patch. PatchError with 400 for what is no patch, with 413 for too many steps."""
    if patch is None:
        return ()
    if not isinstance(patch, list):
        raise PatchError("error decoding patch: a JSON patch is a list of operations", 400)
    operations = tuple(_read(step, number) for number, step in enumerate(patch))
    if len(operations) > MAX_OPERATIONS:
        raise PatchError(
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{MAX_OPERATIONS}, got {len(operations)}",
            413,
        )
    return operations


def _read(step: Any, number: int) -> Operation:
    if step is None:
        return Operation("unknown")
    if not isinstance(step, dict):
        raise PatchError(f"error decoding patch: operation {number} is not an object", 400)
    for name in ("op", "path", "from"):
        if not isinstance(step.get(name), str | None):
            raise PatchError(f"error decoding patch: {name} of operation {number} is not a string", 400)
    kind = "unknown" if step.get("op") is None else step["op"]
    return Operation(kind, step.get("path"), step.get("from"), step.get("value"))


def json_patched(document: Any, operations: Sequence[Operation]) -> Any:
    """The document after all operations, or PatchError at the first one that does not apply."""
    work = _Work(copied(document))
    steps = {
        "add": work.add,
        "remove": work.remove,
        "replace": work.replace,
        "move": work.move,
        "copy": work.copy,
        "test": work.test,
    }
    for operation in operations:
        if operation.kind not in steps:
            raise PatchError(f"Unexpected kind: {shown(operation.kind)}")
        steps[operation.kind](operation)
    return work.root


class _Work:
    """The document between two operations; each method is one operation and changes it in place."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._copied_bytes = 0

    def add(self, operation: Operation) -> None:
        path = _needed(operation.path, operation, "path")
        self._insert(operation, path, copied(operation.value))

    def remove(self, operation: Operation) -> None:
        path = _needed(operation.path, operation, "path")
        _remove(*self._place(operation, path), path, operation)

    def replace(self, operation: Operation) -> None:
        path = _needed(operation.path, operation, "path")
        if path == "":
            if not isinstance(operation.value, dict | list):
                raise PatchError("replace operation value must be object or array")
            self.root = copied(operation.value)
            return
        container, key = self._place(operation, path)
        if isinstance(container, dict):
            container[key] = copied(operation.value)
        elif (index := _position(container, key)) is not None:
            container[index] = copied(operation.value)
        else:
            raise PatchError(
                f"replace operation does not apply: doc is missing key: {shown(path)}: missing value"
            )

    def move(self, operation: Operation) -> None:
        source = _needed(operation.source, operation, "from")
        container, key = self._place(operation, source)
        value = _get(container, key, source, operation)
        _remove(container, key, source, operation)
        self._insert(operation, _needed(operation.path, operation, "path"), value)

    def copy(self, operation: Operation) -> None:
        source = _needed(operation.source, operation, "from")
        value = _get(*self._place(operation, source), source, operation)
        path = _needed(operation.path, operation, "path")
        self._copied_bytes += len(encode(value)) if value is not None else 0
        if self._copied_bytes > MAX_COPIED_BYTES:
            raise PatchError(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{self._copied_bytes}, exceeding the limit {MAX_COPIED_BYTES}"
            )
        self._insert(operation, path, copied(value))

    def test(self, operation: Operation) -> None:
        path = _needed(operation.path, operation, "path")
        value = self.root if path == "" else _get(*self._place(operation, path), path, operation)
        if not is_same(value, operation.value):
            raise PatchError(f"testing value {shown(path)} failed: test failed")

    def _insert(self, operation: Operation, path: str, value: Any) -> None:
        container, key = self._place(operation, path)
        if isinstance(container, dict):
            container[key] = value
        elif key == "-":
            container.append(value)
        else:
            container.insert(_index(container, key, path, operation, room=1), value)

    def _place(self, operation: Operation, path: str) -> tuple[Any, str]:
        """The container that holds the path's last step, and this step."""
        _, *parts = path.split("/")
        node = self.root
        for part in parts[:-1]:
            node = _child(node, _unescaped(part))
        if not parts or not isinstance(node, dict | list):
            raise PatchError(
                f'{operation.kind} operation does not apply: doc is missing path: "{shown(path)}": missing value'
            )
        return node, _unescaped(parts[-1])


def _needed(text: str | None, operation: Operation, name: str) -> str:
    if text is None:
        raise PatchError(f"{operation.kind} operation failed to decode {name}: missing value")
    return text


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")


def _child(node: Any, key: str) -> Any:
    if isinstance(node, dict):
        return node.get(key)
    index = _position(node, key) if isinstance(node, list) else None
    return None if index is None else node[index]


def _position(items: list[Any], key: str, room: int = 0) -> int | None:
    """The index a step means in a list, or None. `room` is 1 where the place behind the last one counts too."""
    if not _INDEX.fullmatch(key):
        return None
    index = int(key)
    size = len(items) + room
    return index % size if -size <= index < size else None


def _index(items: list[Any], key: str, path: str, operation: Operation, room: int = 0) -> int:
    index = _position(items, key, room)
    if index is not None:
        return index
    fault = f"Unable to access invalid index: {shown(key)}: invalid index referenced"
    if not _INDEX.fullmatch(key):
        fault = f"value was not a proper array index: '{shown(key)}': invalid syntax"
    raise PatchError(f"error in {operation.kind} for path: '{shown(path)}': {fault}")


def _get(container: Any, key: str, path: str, operation: Operation) -> Any:
    if isinstance(container, dict):
        return container.get(key)
    return container[_index(container, key, path, operation)]


def _remove(container: Any, key: str, path: str, operation: Operation) -> None:
    if isinstance(container, list):
        del container[_index(container, key, path, operation)]
    elif key in container:
        del container[key]
    else:
        raise PatchError(
            f"error in {operation.kind} for path: '{shown(path)}': "
            f"Unable to remove nonexistent key: {shown(key)}: missing value"
        )
