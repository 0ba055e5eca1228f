"""What is served now: the server's own kinds and those that definitions bring."""

from __future__ import annotations

import dataclasses

from dray.api.codec import loads
from dray.apiserver.custom.definition import DEFINITIONS, served_by
from dray.apiserver.served import Served, Serving
from dray.apiserver.store.contract import Store, Stored
from dray.apiserver.writing.request import Rules
from dray.errors import InvalidError
from dray.runtime.logs import get_log

_log = get_log("apiserver.custom")


class Live:
    """One for the handler and the upkeep of a server. Whoever has changed a definition, or seen it changed, refreshes it."""

    def __init__(self, store: Store, rules: Rules) -> None:
        self._store = store
        self._own = rules
        self._rules = rules
        self._seen: tuple[Stored, ...] = ()
        self.refresh()

    @property
    def rules(self) -> Rules:
        """The rules of writes with what is served now. A new value after each change, so it may be a cache's key."""
        return self._rules

    def refresh(self) -> None:
        """Read the definitions anew; nothing happens where they are the same."""
        found = self._store.list(DEFINITIONS).items
        if found == self._seen:
            return
        self._seen = found
        brought = {str(one.resource): one for stored in found if (one := _served(stored)) is not None}
        own = (one for one in self._own.serving.all if str(one.resource) not in brought)
        self._rules = dataclasses.replace(self._own, serving=Serving((*own, *brought.values())))


def _served(stored: Stored) -> Served | None:
    try:
        return served_by(loads(stored.raw))
    except InvalidError as error:
        _log.error("a definition cannot be read", name=stored.key.name, error=str(error))
        return None
