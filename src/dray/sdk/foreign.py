"""Calls into code of strangers: whatever it raises becomes one of our errors, so that it ends a call and not the process."""

from __future__ import annotations

import traceback
from types import TracebackType
from typing import Self

from dray.errors import Error, HardwareError
from dray.runtime.logs import get_log

_log = get_log("sdk")


class Foreign:
    """`with foreign.calling("discover"): …`. A trace is logged once, and again when it is another one."""

    def __init__(self, whose: str) -> None:
        self.whose = whose
        self._told: dict[str, str] = {}

    def calling(self, what: str) -> _Call:
        """The block in which strangers are called."""
        return _Call(self, what)

    def told(self, what: str, error: BaseException) -> Error:
        """What to raise instead."""
        trace = "".join(traceback.format_exception(error))
        if self._told.get(what) != trace:
            self._told[what] = trace
            _log.error("a driver failed", driver=self.whose, what=what, trace=trace)
        reason = str(error) or "no reason given"
        return HardwareError(f"{self.whose}: {what} failed: {type(error).__name__}: {reason}")

    def went_well(self, what: str) -> None:
        """The next failure is a new one."""
        self._told.pop(what, None)


class _Call:
    def __init__(self, foreign: Foreign, what: str) -> None:
        self._foreign = foreign
        self._what = what

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._foreign.went_well(self._what)
        elif not _passes(error):
            raise self._foreign.told(self._what, error) from error


def _passes(error: BaseException) -> bool:
    """What is raised on purpose: our errors, and the end of the process. `sys.exit` in a driver is not that."""
    return isinstance(error, Error) or not isinstance(error, Exception | SystemExit)
