"""How long a container that ended waits before it is started again: 10 s, doubled up to 5 minutes, forgotten after 10."""

from __future__ import annotations

from dray.kubelet.runtimes.contract import Container
from dray.runtime.clock import Clock

FIRST, LIMIT, STEADY = 10.0, 300.0, 600.0


class Restarts:
    """Memory only: after a restart of the kubelet the pauses begin anew, counted from when containers ended."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pauses: dict[tuple[str, str], float] = {}

    def pause(self, uid: str, last: Container | None) -> float:
        """Seconds still to wait after `last`; the first restart comes at once."""
        if last is None or last.finished_at is None:
            return 0.0
        if last.started_at is not None and (last.finished_at - last.started_at).total_seconds() >= STEADY:
            self._pauses.pop((uid, last.name), None)
        wait = self._pauses.get((uid, last.name), 0.0)
        return max(0.0, wait - (self._clock.now() - last.finished_at).total_seconds())

    def restarted(self, uid: str, name: str) -> None:
        """It runs again: should it end soon, the next pause is longer."""
        before = self._pauses.get((uid, name), 0.0)
        self._pauses[uid, name] = min(LIMIT, before * 2) if before else FIRST

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        for key in [one for one in self._pauses if one[0] == uid]:
            del self._pauses[key]
