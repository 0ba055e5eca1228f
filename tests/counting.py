"""How much work something takes, as a count: the same on every machine, however busy it is."""

from __future__ import annotations

import sys
from types import FrameType, TracebackType


class Calls:
    """While entered, `count` grows with every call of a function in this thread, of Python's and of C's."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Calls:
        sys.setprofile(self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, value: object) -> None:
        if event in ("call", "c_call"):
            self.count += 1
