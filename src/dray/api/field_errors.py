"""Where an object is wrong and why, in the API server's own terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from dray.errors import InvalidError


class Reason(StrEnum):
    """The `reason` of one cause in a Kubernetes Status, with the words kubectl users know."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    DUPLICATE = "FieldValueDuplicate"
    FORBIDDEN = "FieldValueForbidden"
    NOT_SUPPORTED = "FieldValueNotSupported"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TYPE_INVALID = "FieldValueTypeInvalid"
    NOT_FOUND = "FieldValueNotFound"
    INTERNAL = "InternalError"


@dataclass(frozen=True, slots=True)
class Path:
    """A field path under construction: `Path("spec").child("devices").index(0)` reads `spec.devices[0]`."""

    text: str = ""

    def child(self, *names: str) -> Path:
        """Go into named fields."""
        return Path(".".join([self.text, *names]) if self.text else ".".join(names))

    def index(self, position: int) -> Path:
        """Go to a list entry."""
        return Path(f"{self.text}[{position}]")

    def key(self, key: str) -> Path:
        """Go to a map entry."""
        return Path(f"{self.text}[{key}]")

    def __str__(self) -> str:
        return self.text or "<nil>"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault: the field, the API server's reason, and a message (the text after `field: `)."""

    field: str
    reason: Reason
    message: str
    bad_value: Any = None

    def __post_init__(self) -> None:
        if (kept := _kept.get()) is not None:
            kept.append(self)
            if len(kept) >= MOST_FAULTS:
                raise _EnoughError

    def __str__(self) -> str:
        """One line, also where a key of the object holds a line break."""
        text = f"{self.field}: {self.message}"
        return text if text.isprintable() else "".join(map(_visible, text))


MOST_FAULTS: Final = 100
"""That are looked for in one object: nobody reads more, and each costs whoever else waits for an answer."""
_kept: ContextVar[list[FieldError] | None] = ContextVar("faults", default=None)


class _EnoughError(Exception):
    """As many faults as anybody is told of were found."""


def first_faults(check: Callable[[], list[FieldError]]) -> list[FieldError]:
    """What `check` finds, or the first `MOST_FAULTS` faults that it met where there are more: it is stopped there."""
    met: list[FieldError] = []
    token = _kept.set(met)
    try:
        return check()
    except _EnoughError:
        return met
    finally:
        _kept.reset(token)


def _visible(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def to_error(kind: str, name: str, errors: Iterable[FieldError]) -> InvalidError:
    """All faults of one object as the error the API server would answer with."""
    causes = tuple(errors)
    texts = [str(cause) for cause in causes]
    joined = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    return InvalidError(
        f'{kind} "{name}" is invalid: {joined}', field=causes[0].field if causes else "", causes=causes
    )
