"""From a raw document to typed views, with all mistyped fields found and not only the first; and faults as one report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from dray.api.codec import view
from dray.api.field_errors import FieldError, Path, Reason
from dray.errors import InvalidError

T = TypeVar("T", bound=msgspec.Struct)

_MAX_FAULTS: Final = 50
_TOLD: Final = 20
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[([0-9]+)\]|\[([^\]]*)\]")
_NOT_QUOTED: Final = re.compile(r"expected `str`, got `(?:int|float|bool)`")


def read_view(raw: Mapping[str, Any], kind: type[T], path: Path) -> tuple[T, list[FieldError]]:
    """A view, and what had to be left out of it because its type is wrong.

    The codec stops at the first fault. So each one found is taken out, in a list set to null, and it is tried again: a
    user sees all faults of a file at once.
    """
    faults: list[FieldError] = []
    document: Any = raw
    while True:
        try:
            return view(document, kind), faults
        except InvalidError as error:
            faults.append(_mistyped(error, path))
            steps = steps_to(document, error.field)
            if not steps or len(faults) == _MAX_FAULTS:
                return kind(), faults
            document = _without(document, steps)


def _mistyped(error: InvalidError, path: Path) -> FieldError:
    text = error.causes[0].message if error.causes else str(error)
    if _NOT_QUOTED.match(text):
        text += ": put it in quotes"
    return FieldError(joined(path, error.field).text, Reason.TYPE_INVALID, text)


def joined(path: Path, field: str) -> Path:
    """The path of a field below `path`, given as the codec spells it."""
    return Path(path.text + field) if not path.text or field.startswith("[") else path.child(field)


def steps_to(document: Any, field: str) -> list[str | int]:
    """The keys and positions that lead to a field; as many of them as there are."""
    steps: list[str | int] = []
    for found in _STEP.finditer(field):
        name, index, key = found.groups()
        if isinstance(document, list) and index is not None and int(index) < len(document):
            step: str | int = int(index)
        elif isinstance(document, dict) and (name or index or key or "") in document:
            step = name or index or key or ""
        else:
            break
        steps.append(step)
        document = document[step]
    return steps


def _without(document: Any, steps: list[str | int]) -> Any:
    """A copy without what is at that place, in a list with null there; the rest is shared."""
    copy: Any = list(document) if isinstance(document, list) else dict(document)
    step, *rest = steps
    if rest or isinstance(document, list):
        copy[step] = _without(document[step], rest) if rest else None
    else:
        del copy[step]
    return copy


def report(
    source: str, document: Any, lines: Mapping[int, int], faults: Iterable[FieldError]
) -> InvalidError:
    """All faults as one error; its one line tells the first of them, each with the line of the file where its map starts."""
    causes = tuple(faults)
    texts = []
    for cause in causes[:_TOLD]:
        line = _line(document, lines, cause.field)
        place = f"{source}:{line}" if line else source
        texts.append(f"{place}: {cause}")
    if len(causes) > _TOLD:
        texts.append(f"and {len(causes) - _TOLD} more")
    return InvalidError("; ".join(texts), field=causes[0].field, causes=causes)


def _line(document: Any, lines: Mapping[int, int], field: str) -> int:
    """The line where the innermost map around a field starts; 0 where the reader kept none (JSON)."""
    line = lines.get(id(document), 0)
    for step in steps_to(document, field):
        document = document[step]
        line = lines.get(id(document), line)
    return line
