"""Long computations in threads, beside an event loop that has to go on answering."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Final

from dray.runtime.clock import Clock

_SHORT_TURN: Final = 0.0005
WITHOUT_COLLECTION: Final = 3.0


class Courtesy:
    """While somebody thinks, all others in this process still get their turns.

    A thread that computes would hold up each step of the event loop for 5 ms, so turns are shorter meanwhile. And what it
    makes would set off collections of garbage, each of which walks over all objects of the process and lets nobody in: none
    is begun, for a few seconds at most. What was made is gone by then.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._inside = 0
        self._usual = 0.0
        self._resume_at: float | None = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(_SHORT_TURN)
                if gc.isenabled():
                    gc.disable()
                    self._resume_at = self._clock.monotonic() + WITHOUT_COLLECTION
            self._inside += 1

    def go_on(self) -> None:
        """Called now and then by those who think."""
        until = self._resume_at
        if until is not None and self._clock.monotonic() > until:
            self._collect_again()

    def _collect_again(self) -> None:
        if self._resume_at is not None:
            self._resume_at = None
            gc.enable()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                sys.setswitchinterval(self._usual)
                self._collect_again()
