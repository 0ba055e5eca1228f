"""The pods that no node would have, by the checks that were against them."""

from __future__ import annotations

from collections.abc import Iterable

from dray.scheduler.queue.ranked import Ranked
from dray.scheduler.queue.waiting import Waiting


class Unschedulable:
    """Found by check, so that a happening costs nothing to pods that it cannot help."""

    def __init__(self) -> None:
        self._since: Ranked[str] = Ranked()
        self._checks: dict[str, frozenset[str]] = {}
        self._by_check: dict[str, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._checks)

    def add(self, waiting: Waiting, now: float) -> None:
        """From now on it waits for one of its checks."""
        self.discard(waiting.uid)
        self._checks[waiting.uid] = waiting.rejectors
        self._since.add(waiting.uid, (now,))
        for check in waiting.rejectors:
            self._by_check.setdefault(check, {})[waiting.uid] = None

    def discard(self, uid: str) -> None:
        """It goes elsewhere. A no-op for a pod that is not here."""
        self._since.discard(uid)
        for check in self._checks.pop(uid, frozenset()):
            pods = self._by_check[check]
            del pods[uid]
            if not pods:
                del self._by_check[check]

    def all(self) -> tuple[str, ...]:
        """Every pod here."""
        return tuple(self._checks)

    def waiting_for(self, checks: Iterable[str]) -> tuple[str, ...]:
        """The pods that one of these checks was against, each once, in a fixed order."""
        found: dict[str, None] = {}
        for check in checks:
            found.update(self._by_check.get(check, {}))
        return tuple(found)

    def oldest(self) -> float | None:
        """Since when the one waits that has waited longest."""
        first = self._since.first()
        return None if first is None else first[1][0]

    def waiting_since(self, moment: float) -> tuple[str, ...]:
        """Those that have waited since then or longer. They are told once, and must be added again or taken out."""
        found = []
        while (first := self._since.first()) is not None and first[1][0] <= moment:
            self._since.discard(first[0])
            found.append(first[0])
        return tuple(found)
