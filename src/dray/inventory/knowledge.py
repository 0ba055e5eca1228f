"""How much of who holds what is known: what was on disk, what the kubelet told, and whether the ledger is ours yet."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dray.inventory.handouts import UNTOLD
from dray.inventory.holds_file import Content
from dray.runtime.clock import Clock
from dray.runtime.files.checkpoint import Loaded
from dray.runtime.logs import get_log

_log = get_log("inventory")
_PATIENCE: Final = 30.0
"""Seconds. A kubelet waits longer than that for either door."""
_SHORT: Final = 2.0
"""Seconds, for what does not come by waiting."""


class Knowledge:
    """Nothing in the beginning. `is_ours`: no other process has the ledger; `is_lost`: there was one that cannot be used."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told_by: float | None = clock.monotonic()
        """The time from which a look tells enough; None: it is known who has what."""
        self.is_ours = False
        self.is_lost = False
        self.missing: Path | None = None
        """The kubelet's socket, where there was none at the last look."""

    @property
    def is_complete(self) -> bool:
        """Whether all that containers have is noted."""
        return self._told_by is None

    def begin(self, loaded: Loaded[Content]) -> None:
        """The file is read, and ours from now on. On a first start one look is enough; where the file was lost, a container
        of a moment ago may not be listed yet."""
        self.is_ours = True
        if loaded.set_aside:
            _log.error("who holds what is lost, asking the kubelet", error=str(loaded.set_aside))
        self.is_lost = loaded.set_aside is not None or (loaded.data is not None and not loaded.data.complete)
        if self.is_lost:
            self._told_by = self._clock.monotonic() + UNTOLD
        elif loaded.data is not None:
            self._told_by = None

    def hear(self, at: float) -> bool:
        """The kubelet was asked at that time, and told; whether all is known now that was not before."""
        if self._told_by is None or at < self._told_by:
            return False
        self._told_by, self.is_lost = None, False
        return True

    def why_wait(self, *, is_contested: bool, has_plugins: bool = True) -> tuple[str, float]:
        """What keeps a claim, or a pod that asks for what two doors offer, from getting anything now; empty: nothing. And
        how many seconds it may take. Not `has_plugins`: nothing is given to pods, so the kubelet need not be there to ask.
        """
        if is_contested and not self.is_ours:
            return (
                "another process of the agent still gives devices away: has it been told to end?",
                _PATIENCE,
            )
        if self.is_complete or (self.missing and not has_plugins):
            return "", 0.0
        untold = "the kubelet has not told yet which devices containers have"
        if self.missing:
            return f"{untold}: {str(self.missing)!r} is not there: mount its directory into the agent", _SHORT
        return f"{untold}: does it answer at its pod-resources socket?", _PATIENCE
