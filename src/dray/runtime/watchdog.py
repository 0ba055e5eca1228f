"""Ends a process whose event loop does not turn although it works: it hangs in a call that will not come back soon.

Nothing in Python could do this. A call into C holds the interpreter, so that neither a thread nor a signal handler of ours
gets to run, and the process answers nobody, not even SIGTERM. So the kernel does it: `ITIMER_PROF` counts the time for which
the process has the CPU, and sends SIGPROF, whose default is the end, unless the loop sets it back in time. The C handler of
`faulthandler` writes where every thread was to the error output before that.

CPU time, not the time of day: who is stopped (SIGSTOP), sleeps with its laptop, or waits for a disk has used none, and is not
ended. Who hung in an object's work died of it: it is noted in the `quarantine`, and after three such ends left alone.
"""

from __future__ import annotations

import asyncio
import faulthandler
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import UnsupportedOperation
from typing import Final

HANG: Final = 60.0
"""Seconds of CPU time that the loop may take from one turn to the next."""
_OFTEN: Final = 30
"""So many times as often the timer is set back: threads have CPU time beside the loop."""


@contextmanager
def watchdog(seconds: float = HANG) -> Iterator[None]:
    """Watch the loop that runs, meanwhile. One at a time in a process; its children are not watched."""
    loop = asyncio.get_running_loop()
    turning: asyncio.TimerHandle | None = None

    def set_back() -> None:
        nonlocal turning
        signal.setitimer(signal.ITIMER_PROF, seconds)
        turning = loop.call_later(seconds / _OFTEN, set_back)

    with suppress(UnsupportedOperation, AttributeError, ValueError):  # no error output to write to
        faulthandler.register(signal.SIGPROF, all_threads=True, chain=True)
    set_back()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        if turning is not None:
            turning.cancel()
        faulthandler.unregister(signal.SIGPROF)
