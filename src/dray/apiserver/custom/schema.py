"""What a definition's schema says about an object: defaults to fill in, and the plain rules. Pure.

Checked are types, required fields, enums and the bounds of numbers, texts and lists. Patterns, formats, `oneOf` and CEL
rules are not: an object that breaks only those is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

from dray.api.field_errors import FieldError, Path, Reason
from dray.api.validation.faults import invalid, not_supported, required
from dray.apiserver.served import Document
from dray.errors import InvalidError

Schema = dict[str, Any]
_OWN: Final = ("apiVersion", "kind", "metadata")
"""Fields of the root with rules of their own."""
_MAX_FAULTS: Final = 20
_MAX_FILLED: Final = 100_000
_IS: Final[dict[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}


def fill_defaults(schema: Schema, document: Document) -> None:
    """In place; a default that is an object is filled in turn. InvalidError where there would be no end to them."""
    filler = _Filler()
    for name, below in _properties(schema):
        if name not in _OWN:
            filler.fill_property(document, name, below)


def _properties(schema: Any) -> Iterator[tuple[str, Schema]]:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return iter(sorted(found.items())) if isinstance(found, dict) else iter(())


class _Filler:
    """Fills one document, and counts: each of many items may lack the same large default."""

    def __init__(self) -> None:
        self._left = _MAX_FILLED

    def fill_property(self, parent: Document, name: str, schema: Schema) -> None:
        if not isinstance(schema, dict):
            return
        if name not in parent and "default" in schema:
            parent[name] = self._copied(schema["default"])
        if name in parent:
            self._fill(parent[name], schema)

    def _fill(self, value: Any, schema: Any) -> None:
        if not isinstance(schema, dict):
            return
        if isinstance(value, list):
            for one in value:
                self._fill(one, schema.get("items"))
        elif isinstance(value, dict):
            for name, below in _properties(schema):
                self.fill_property(value, name, below)
            for one in value.values():
                self._fill(one, schema.get("additionalProperties"))

    def _copied(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise InvalidError(
                f"the object lacks more than {_MAX_FILLED} values that its definition has defaults for"
            )
        if isinstance(value, dict):
            return {key: self._copied(one) for key, one in value.items()}
        return [self._copied(one) for one in value] if isinstance(value, list) else value


def faults_of(schema: Schema, document: Document) -> list[FieldError]:
    """The first faults of a document; nothing where the schema leaves all open."""
    aside = {key: value for key, value in document.items() if key not in _OWN}
    return list(islice(_faults({**schema, "type": "object"}, aside, Path()), _MAX_FAULTS))


def faults_of_default(schema: Schema, path: Path) -> list[FieldError]:
    """The first faults of a schema's own default, which would be the faults of every object it is put into."""
    return list(islice(_faults(schema, schema["default"], path), _MAX_FAULTS))


def _faults(schema: Any, value: Any, path: Path) -> Iterator[FieldError]:
    if not isinstance(schema, dict) or (value is None and schema.get("nullable")):
        return
    kind = schema.get("type", "")
    if schema.get("x-kubernetes-int-or-string"):
        kind = "" if isinstance(value, str) or _IS["integer"](value) else "integer or string"
    if kind and not _IS.get(kind, _never)(value):
        found = _type_of(value)
        why = f'Invalid value: "{found}": {path.text} in body must be of type {kind}: "{found}"'
        yield FieldError(path.text, Reason.TYPE_INVALID, why, found)
        return
    allowed = schema.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        yield not_supported(path, str(value), [str(one) for one in allowed])
    yield from _bounds(schema, value, path)
    if isinstance(value, dict):
        yield from _object_faults(schema, value, path)
    elif isinstance(value, list):
        for position, one in enumerate(value):
            yield from _faults(schema.get("items"), one, path.index(position))


def _object_faults(schema: Schema, value: Document, path: Path) -> Iterator[FieldError]:
    known = dict(_properties(schema))
    for name in schema.get("required") or ():
        if name not in value and name not in _OWN:
            yield required(path.child(name))
    more = schema.get("additionalProperties")
    for name, one in sorted(value.items()):
        below = known.get(name, more)
        yield from _faults(below, one, path.child(name) if name in known else path.key(name))


def _bounds(schema: Schema, value: Any, path: Path) -> Iterator[FieldError]:
    size, words = value, ("minimum", "maximum")
    least, most = "be greater than or equal to {}", "be less than or equal to {}"
    if type(value) in _SIZES:
        noun, unit = _SIZES[type(value)]
        size, words = len(value), (f"min{noun}", f"max{noun}")
        least, most = f"have at least {{}} {unit}", f"have at most {{}} {unit}"
    if not _IS["number"](size):
        return
    low, high = (schema.get(word) for word in words)
    if _IS["number"](low) and size < low:
        yield invalid(path, value, f"{path.text} in body should {least.format(low)}")
    if _IS["number"](high) and size > high:
        yield invalid(path, value, f"{path.text} in body should {most.format(high)}")


_SIZES: Final[dict[type, tuple[str, str]]] = {
    str: ("Length", "chars"),
    list: ("Items", "items"),
    dict: ("Properties", "properties"),
}


def _never(value: Any) -> bool:
    return False


def _type_of(value: Any) -> str:
    """`null` comes first: a number may be both."""
    return "null" if value is None else next((name for name, fits in _IS.items() if fits(value)), "unknown")
