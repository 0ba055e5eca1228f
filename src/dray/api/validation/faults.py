"""Building blocks of validation: each kind of fault with the API server's phrase, and checks of lists and names."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Final, TypeVar

from dray.api.codec.json_codec import encode
from dray.api.field_errors import FieldError, Path, Reason
from dray.api.names import size
from dray.api.names import too_long as too_long_text

T = TypeVar("T")
Rule = Callable[[str], list[str]]
CheckSelector = Callable[[str, Path, bool], list[FieldError]]
"""Compiles a selector: text, its field, and whether it was stored before (then newer limits do not apply)."""

WHOLE_OBJECT: Final = Path("[]")
"""How the API server writes the path of the object itself."""
_SHOWN: Final = 4096
_TOO_LONG_START: Final = too_long_text(0).partition("0")[0]


def shown(value: object) -> str:
    """A value inside a message: quoted, on one line, and cut where nobody would read on."""
    if isinstance(value, str):
        text = json.dumps(value[: 2 * _SHOWN], ensure_ascii=False)
    else:
        # Every entry takes two characters at least.
        text = encode(value[:_SHOWN] if isinstance(value, list | tuple) else value).decode()
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… (cut)"


def _with(phrase: str, detail: str) -> str:
    return f"{phrase}: {detail}" if detail else phrase


def required(path: Path, detail: str = "") -> FieldError:
    """A value is missing."""
    return FieldError(path.text, Reason.REQUIRED, _with("Required value", detail), "")


def invalid(path: Path, value: object, detail: str) -> FieldError:
    """A value breaks a rule."""
    return FieldError(path.text, Reason.INVALID, _with(f"Invalid value: {shown(value)}", detail), value)


def immutable(path: Path, value: object) -> FieldError:
    """A value was changed that may not change."""
    return invalid(path, value, "field is immutable")


def not_supported(path: Path, value: str, allowed: Iterable[str]) -> FieldError:
    """A value is none of the known ones."""
    known = ", ".join(shown(one) for one in allowed)
    return FieldError(
        path.text,
        Reason.NOT_SUPPORTED,
        f"Unsupported value: {shown(value)}: supported values: {known}",
        value,
    )


def forbidden(path: Path, detail: str) -> FieldError:
    """A value may not be there under these circumstances."""
    return FieldError(path.text, Reason.FORBIDDEN, _with("Forbidden", detail), "")


def duplicate(path: Path, value: object) -> FieldError:
    """A value is there twice."""
    return FieldError(path.text, Reason.DUPLICATE, f"Duplicate value: {shown(value)}", value)


def not_found(path: Path, value: object, detail: str = "") -> FieldError:
    """A value names something that does not exist."""
    return FieldError(path.text, Reason.NOT_FOUND, _with(f"Not found: {shown(value)}", detail), value)


def too_long(path: Path, limit: int) -> FieldError:
    """A text has more bytes than allowed."""
    return FieldError(path.text, Reason.TOO_LONG, f"Too long: {too_long_text(limit)}", "<value omitted>")


def too_many(path: Path, actual: int, limit: int) -> FieldError:
    """A list or map has more entries than allowed."""
    items = "item" if limit == 1 else "items"
    return FieldError(
        path.text, Reason.TOO_MANY, f"Too many: {actual}: must have at most {limit} {items}", actual
    )


def by_rule(rule: Rule, value: str, path: Path) -> list[FieldError]:
    """What a name rule (`dray.api.names`) has against a value."""
    return [_rule_fault(text, value, path) for text in rule(value)]


def _rule_fault(text: str, value: str, path: Path) -> FieldError:
    if text.startswith(_TOO_LONG_START):
        return FieldError(path.text, Reason.TOO_LONG, f"Too long: {text}", "<value omitted>")
    return invalid(path, value, text)


def by_rule_or_required(rule: Rule, value: str, path: Path) -> list[FieldError]:
    """The same, for a value that must be there."""
    return by_rule(rule, value, path) if value else [required(path)]


def longer_than(value: str, limit: int) -> bool:
    """Whether a text has more bytes than allowed."""
    return size(value) > limit


def check_list(
    items: Sequence[T], limit: int, check: Callable[[T, Path], list[FieldError]], path: Path
) -> list[FieldError]:
    """The size, then each item. Too long a list is not looked into."""
    if len(items) > limit:
        return [too_many(path, len(items), limit)]
    errors: list[FieldError] = []
    for position, item in enumerate(items):
        errors += check(item, path.index(position))
    return errors


def check_set(
    items: Sequence[T],
    limit: int,
    check: Callable[[T, Path], list[FieldError]],
    key: Callable[[T], Hashable],
    path: Path,
) -> list[FieldError]:
    """The size, each item, and that no two have the same key. Too long a list is not looked into."""
    if len(items) > limit:
        return [too_many(path, len(items), limit)]
    return check_list(items, limit, check, path) + duplicates(items, key, path)


def duplicates(items: Sequence[T], key: Callable[[T], Hashable], path: Path) -> list[FieldError]:
    """Every item whose key an earlier one has."""
    keys = [key(item) for item in items]
    if len(set(keys)) == len(keys):
        return []
    seen: set[Hashable] = set()
    errors = []
    for position, one in enumerate(keys):
        if one in seen:
            errors.append(duplicate(path.index(position), one))
        seen.add(one)
    return errors


def itself(item: str) -> str:
    """The key of a plain string in `check_set`."""
    return item


def shortened(key: str, limit: int) -> str:
    """A map key as it appears in a field path: the middle of an overlong one is left out."""
    limit = max(limit, 16)
    raw = key.encode()
    if len(raw) <= limit:
        return key
    remaining = limit - 3
    head, tail = raw[: (remaining + 1) // 2], raw[len(raw) - remaining // 2 :]
    return f"{head.decode(errors='replace')}...{tail.decode(errors='replace')}"
