"""The last lines of this process's log, for who must be told what came before a failure."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dray.runtime.logs import TextFormatter

_MOST: Final = 8
_FOLLOWERS: Final = "dray.client."
"""That their server went away they say after a failure, once for each kind of object; it is never the cause of it."""


class LastLines(logging.Handler):
    """Keeps the newest lines and forgets the others."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: deque[str] = deque(maxlen=_MOST)
        self.setFormatter(TextFormatter())
        self.addFilter(lambda record: not record.name.startswith(_FOLLOWERS))

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        self.lines.append(self.format(record))


@contextmanager
def keep_last_lines() -> Iterator[LastLines]:
    """Listens from the level info on; what is written elsewhere stays as the flag says."""
    root, kept = logging.getLogger(), LastLines()
    before = root.level
    others = {handler: handler.level for handler in root.handlers}
    for handler in others:
        handler.setLevel(max(handler.level, before))
    root.addHandler(kept)
    root.setLevel(min(before, logging.INFO))
    try:
        yield kept
    finally:
        root.removeHandler(kept)
        root.setLevel(before)
        for handler, level in others.items():
            handler.setLevel(level)
