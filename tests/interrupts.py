"""Ctrl-C for programs under test, also where the tests themselves run with SIGINT ignored (`make test &`, nohup).

An ignored signal is inherited, and Python leaves it ignored, as a program should. A test that interrupts a program starts
it as a shell starts what runs in the foreground.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interruptible() -> Iterator[None]:
    """Programs that are started meanwhile hear SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
