"""Objects that several parts of one process follow, kept once: `dray up` has a scheduler, controllers, a fleet and a dashboard.

Each part has its own client, connections and informers; only where two of them read the same bytes, they get the same
frozen value. Who alone follows a kind would pay for the look and get nothing, so it is off until a process turns it on.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final
from weakref import WeakValueDictionary

from dray.client.store import Entry

_Name = tuple[type, bytes]


class Shared:
    """The entries that somebody holds, by type and bytes. A resource version would not do: whom an object leaves by his
    selector is told its last state with the version of the next."""

    def __init__(self) -> None:
        self.is_on = False
        self._entries: WeakValueDictionary[_Name, Entry[Any]] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._entries)

    def name(self, kind: type, data: bytes) -> _Name:
        """How an object is called here."""
        return kind, sha256(data).digest()

    def get(self, name: _Name) -> Entry[Any] | None:
        """The entry, while somebody holds it."""
        return self._entries.get(name)

    def put(self, name: _Name, entry: Entry[Any]) -> None:
        """For those who read the same later."""
        self._entries[name] = entry


SHARED: Final = Shared()


def share_objects() -> None:
    """Call once, before the parts of a process start. There is no way back, and none is needed: nothing is kept alive."""
    SHARED.is_on = True
