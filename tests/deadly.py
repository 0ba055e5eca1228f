"""Objects that ended a process again and again."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from dray.api.core import Pod
from dray.errors import InvariantError
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.quarantine import DEATHS, PLACE, Quarantine, object_key


def make_deadly(state_dir: Path, key: str, clock: Clock | None = None) -> None:
    """As if the part with this state had met a bug of ours each time it looked at the object."""
    for _ in range(DEATHS):
        quarantine = Quarantine(state_dir / PLACE, clock or SystemClock())
        with suppress(InvariantError), quarantine, quarantine.handling(key):
            raise InvariantError("a bug of ours")
    with Quarantine(state_dir / PLACE, clock or SystemClock()) as quarantine:
        assert quarantine.why(key)


def pod_key(pod: Pod) -> str:
    """As a quarantine names it."""
    meta = pod.metadata
    return object_key("pods", meta.namespace, meta.name, meta.uid)


def forgive(state_dir: Path) -> None:
    """Between two kills that a test makes at steps of its choice: nothing that was handled then is to blame."""
    shutil.rmtree(state_dir / PLACE, ignore_errors=True)
