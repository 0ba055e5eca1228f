"""Under which names drivers of this node have prepared claims: a name must be served until they are given back."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from dray.dra.claims.books import CHECKPOINT
from dray.dra.claims.state import STATE_FORMAT, State
from dray.runtime.files.checkpoint_format import Unreadable
from dray.runtime.files.recent import Recent

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def names_in_use(plugins: Path, claims: Collection[str]) -> dict[str, str]:
    """The driver of each kind of which one of these claims (UIDs) has a device, by the checkpoints below `plugins`.

    What cannot be read is no matter: its own driver sets it aside when it is started.
    """
    found: dict[str, str] = {}
    for path in sorted(plugins.glob(f"*/{CHECKPOINT}")) if claims else ():
        for kind in _kinds(path, claims):
            found.setdefault(kind, path.parent.name)
    return found


def _kinds(path: Path, claims: Collection[str]) -> Iterator[str]:
    entries = _state(path).entries
    for entry in entries:
        if entry.claim.uid in claims:
            yield from (one.device.kind for request in entry.requests for one in request.holdings)


def _state(path: Path) -> State:
    try:
        recent = Recent(path, STATE_FORMAT).read()
        if recent is not None:
            return recent
        descriptor = os.open(path, _READ)
        with os.fdopen(descriptor, "rb") as file:
            return STATE_FORMAT.decode(file.read(STATE_FORMAT.max_size))
    except (OSError, Unreadable):
        return State()
