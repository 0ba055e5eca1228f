"""Documents that keep everything: the raw object as it was read, with typed views on demand.

The API server and `dray apply` store and send manifests, never views, so a field from a newer Kubernetes survives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from dray.api.codec.json_codec import encode, to_raw, view
from dray.api.codec.overlay import Raw, overlay
from dray.errors import InvalidError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object. `raw` is shared, never changed in place; `source` says where it was read (`file:line`), or is empty."""

    raw: Raw
    source: str = field(default="", compare=False)
    _views: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def of(raw: object, source: str = "") -> Manifest:
        """A manifest around a decoded JSON object; anything else is an InvalidError."""
        if not isinstance(raw, dict):
            place = f"{source}: " if source else ""
            raise InvalidError(
                f"{place}expected an object with apiVersion and kind, found {_name(raw)}", field=source
            )
        return Manifest(raw, source)

    @property
    def api_version(self) -> str:
        """`apiVersion`, or empty."""
        return _text(self.raw, "apiVersion")

    @property
    def kind(self) -> str:
        """`kind`, or empty."""
        return _text(self.raw, "kind")

    @property
    def name(self) -> str:
        """`metadata.name`, or empty."""
        return _text(self.raw.get("metadata"), "name")

    @property
    def namespace(self) -> str:
        """`metadata.namespace`, or empty."""
        return _text(self.raw.get("metadata"), "namespace")

    def view(self, kind: type[T]) -> T:
        """The object as a typed value, decoded once. InvalidError names the source and the field."""
        found = self._views.get(kind)
        if found is None:
            try:
                found = self._views[kind] = view(self.raw, kind)
            except InvalidError as error:
                if not self.source:
                    raise
                raise InvalidError(
                    f"{self.source}: {error}", field=error.field, causes=error.causes
                ) from None
        return found

    def updated(self, before: Any, after: Any) -> Manifest:
        """This manifest with the change from view `before` to view `after`; all that the views do not know is kept.

        `before` is a view of this manifest, `after` the same type with some fields replaced.
        """
        raw = overlay(self.raw, to_raw(before), to_raw(after))
        return self if raw is self.raw else Manifest(raw, self.source)

    def encode(self) -> bytes:
        """The whole document as JSON."""
        return encode(self.raw)

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind or 'object'} {name}".strip()


def _text(value: object, key: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _name(value: object) -> str:
    names: dict[type, str] = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
