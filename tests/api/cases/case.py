"""What a validation case is, and how one is written: a valid document, a few edits, the faults expected of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dray.api.field_errors import Reason
from dray.api.kinds import Resource

Document = dict[str, Any]
Faults = frozenset[tuple[str, str]]
"""(field, reason) of each cause."""
DROP: Final = object()
"""As a value of an edit: the field goes."""
CURRENT: Final = "CURRENT"
"""As a resourceVersion: that of the stored object."""
NAMESPACE: Final = "cases"
Key = str | tuple[str | int, ...]
Edits = Mapping[Any, Any]
"""Key to new value."""

_REASONS: Final = {
    "Required": Reason.REQUIRED,
    "Invalid": Reason.INVALID,
    "Duplicate": Reason.DUPLICATE,
    "Forbidden": Reason.FORBIDDEN,
    "NotSupported": Reason.NOT_SUPPORTED,
    "TooLong": Reason.TOO_LONG,
    "TooMany": Reason.TOO_MANY,
    "NotFound": Reason.NOT_FOUND,
}


@dataclass(frozen=True)
class Case:
    """A write and what comes of it. With `old` it replaces a stored document, with `status` through `/status`."""

    name: str
    resource: Resource[Any]
    new: Document
    faults: Faults
    old: Document | None = None
    status: bool = False
    deleting: bool = False
    """The stored object is being deleted (it has a finalizer)."""
    ours_only: str = ""
    """Why a real API server cannot be asked, or is known to answer otherwise."""

    def __str__(self) -> str:
        return self.name


def edited(document: Document, edits: Edits) -> Document:
    """A copy with the edits. A key is a dotted path (numbers are positions), or a tuple where names hold dots."""
    result = copy.deepcopy(document)
    for key, value in edits.items():
        path = tuple(key.split(".")) if isinstance(key, str) else key
        _edit(result, path, copy.deepcopy(value) if value is not DROP else DROP)
    return result


def _edit(target: Any, path: tuple[str | int, ...], value: Any) -> None:
    for step in path[:-1]:
        target = target[int(step)] if isinstance(target, list) else target.setdefault(step, {})
    last: Any = int(path[-1]) if isinstance(target, list) else path[-1]
    if value is DROP:
        del target[last]
    else:
        target[last] = value


def faults(*lines: str) -> Faults:
    """`Required spec.driver` and so on."""
    pairs = (line.partition(" ")[::2] for line in lines)
    return frozenset((field, str(_REASONS[reason])) for reason, field in pairs)


class Table:
    """Collects the cases of one kind."""

    def __init__(self, resource: Resource[Any], base: Callable[[], Document]) -> None:
        self.resource = resource
        self.base = base
        self.cases: list[Case] = []

    def create(
        self, name: str, edits: Edits, *expected: str, base: Document | None = None, ours_only: str = ""
    ) -> None:
        """Creating the edited base."""
        document = edited(base if base is not None else self.base(), edits)
        self._add(name, document, expected, ours_only=ours_only)

    def update(
        self,
        name: str,
        edits: Edits,
        *expected: str,
        old: Edits | None = None,
        ours_only: str = "",
        deleting: bool = False,
    ) -> None:
        """Replacing the base (with the `old` edits) by itself with more edits."""
        before = edited(self.base(), old or {})
        self._add(name, edited(before, edits), expected, old=before, ours_only=ours_only, deleting=deleting)

    def write_status(
        self,
        name: str,
        new: Document,
        *expected: str,
        old: Document | None = None,
        spec: Edits | None = None,
        deleting: bool = False,
        ours_only: str = "",
    ) -> None:
        """Writing a status over an old one (none: the empty one)."""
        before = edited(self.base(), spec or {})
        if old is not None:
            before["status"] = copy.deepcopy(old)
        document = {**copy.deepcopy(before), "status": copy.deepcopy(new)}
        self._add(name, document, expected, old=before, status=True, deleting=deleting, ours_only=ours_only)

    def _add(self, name: str, new: Document, expected: tuple[str, ...], **more: Any) -> None:
        kind = self.resource.kind
        self.cases.append(Case(f"{kind}: {name}", self.resource, new, faults(*expected), **more))


def named(count: int, **more: Any) -> list[Document]:
    """That many entries with names of their own."""
    return [{"name": f"n{number}", **copy.deepcopy(more)} for number in range(count)]
