"""A call that may hang, as NVML does when a card hangs: it gets a thread of its own, and nobody waits for it forever."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from dray.errors import Error, InvariantError

T = TypeVar("T")


@dataclass(slots=True)
class _Running(Generic[T]):
    """One call; `results` or `errors` has its end."""

    done: threading.Event = field(default_factory=threading.Event)
    results: list[T] = field(default_factory=list)
    errors: list[Error | InvariantError] = field(default_factory=list)

    def run(self, call: Callable[[], T]) -> None:
        try:
            self.results.append(call())
        except (Error, InvariantError) as error:
            self.errors.append(error)
        finally:
            self.done.set()


class Patience(Generic[T]):
    """Runs one call at a time and waits `seconds` for it. Used by one thread at a time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._running: _Running[T] | None = None

    def run(self, call: Callable[[], T]) -> T | None:
        """The call's result or error; None where it is not done yet: then the next `run` waits for it, and calls nothing."""
        if self._running is None:
            self._running = running = _Running[T]()
            threading.Thread(target=running.run, args=(call,), name="nvml", daemon=True).start()
        running = self._running
        if not running.done.wait(self._seconds):
            return None
        self._running = None
        if running.errors:
            raise running.errors[0]
        if not running.results:
            raise InvariantError("the call ended by an error that is none of ours; the thread told it")
        return running.results[0]
