"""What an apply is refused with: somebody else owns fields that it would change."""

from __future__ import annotations

from itertools import groupby
from typing import Final, NamedTuple

from dray.api.meta import StatusCause
from dray.apiserver.patching.apply.fields import Path, shown
from dray.apiserver.patching.apply.managers import ManagerId
from dray.errors import ConflictError

_CAUSE: Final = "FieldManagerConflict"


class Conflict(NamedTuple):
    """One field and who owns it."""

    owner: ManagerId
    path: Path


class ApplyConflictError(ConflictError):
    """Answered 409 Conflict. `message` is the text with its line breaks, `causes` the list in the Status' details.

    Apply again with force to take the fields, or leave them out.
    """

    def __init__(self, conflicts: tuple[Conflict, ...]) -> None:
        self.conflicts = conflicts
        self.message = _message(conflicts)
        self.causes = tuple(
            StatusCause(reason=_CAUSE, message=f"conflict with {owner}", field=shown(path))
            for owner, path in conflicts
        )
        super().__init__(self.message)


def _message(conflicts: tuple[Conflict, ...]) -> str:
    if len(conflicts) == 1:
        owner, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {owner}: {shown(path)}"
    lines = []
    for owner, group in groupby(conflicts, key=lambda conflict: conflict.owner):
        lines.append(f"conflicts with {owner}:")
        lines += [f"- {shown(conflict.path)}" for conflict in group]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
