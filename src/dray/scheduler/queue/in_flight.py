"""The pods that are being tried, and what happened meanwhile: such news must not be lost on them."""

from __future__ import annotations

from collections import deque
from itertools import islice

from dray.scheduler.queue.happenings import Happening


class InFlight:
    """News is kept from the time the oldest pod was taken on, and only while there is one."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        self._news: deque[Happening] = deque()
        self._first = 0

    def __len__(self) -> int:
        return len(self._since)

    def __contains__(self, uid: str) -> bool:
        return uid in self._since

    @property
    def kept(self) -> int:
        """How much news is held."""
        return len(self._news)

    def start(self, uid: str) -> None:
        """A pod is taken on; it hears of what happens from now."""
        self._since[uid] = self._first + len(self._news)

    def happened(self, happening: Happening) -> None:
        """Keep it for all that are being tried."""
        if self._since:
            self._news.append(happening)

    def end(self, uid: str) -> tuple[Happening, ...]:
        """The try is over: what happened since its start."""
        skipped = self._since.pop(uid) - self._first
        heard = tuple(islice(self._news, skipped, None))
        # Pods are in the order they were taken on, so the first one has the oldest claim on news.
        oldest = next(iter(self._since.values()), self._first + len(self._news))
        for _ in range(oldest - self._first):
            self._news.popleft()
        self._first = oldest
        return heard
