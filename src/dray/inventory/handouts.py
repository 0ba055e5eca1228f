"""What was handed out a moment ago, and what is being taken away: never the same node.

Between the answer to an Allocate and the moment when the kubelet tells of it, nobody else knows who has the device.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from dray.errors import ConflictError
from dray.runtime.clock import Clock

MEMORY = 120.0
"""Seconds. By then the kubelet tells of the pod, and its process has opened the node."""

UNTOLD = 10.0
"""Seconds. By then the kubelet tells of the pod."""


class Handouts:
    """Kept in memory only: a process that was killed has answered nobody since. Any thread may call."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._given: dict[str, float] = {}
        self._taken: set[str] = set()

    def give(self, nodes: Collection[str]) -> None:
        """Call before answering for a container. ConflictError where one of these is being taken away."""
        with self._lock:
            if going := sorted(self._taken.intersection(nodes)):
                raise ConflictError(f"{going[0]} is being taken away by a change of configuration: ask again")
            now = self._clock.monotonic()
            self._given = {node: at for node, at in self._given.items() if now - at < MEMORY}
            self._given.update(dict.fromkeys(nodes, now))

    def is_new(self, nodes: Collection[str]) -> bool:
        """Whether one of these was given so lately that the kubelet may not tell of it yet."""
        with self._lock:
            now = self._clock.monotonic()
            return any(now - self._given.get(node, float("-inf")) < UNTOLD for node in nodes)

    def take(self, nodes: Collection[str]) -> bool:
        """Call before a device is removed or changed: True: nobody was given these lately, and nobody is any more."""
        with self._lock:
            now = self._clock.monotonic()
            if any(now - self._given.get(node, float("-inf")) < MEMORY for node in nodes):
                return False
            self._taken.update(nodes)
            return True

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Around the changes: at its end all that was taken may be given again, if it is still there."""
        try:
            yield
        finally:
            with self._lock:
                self._taken.clear()
