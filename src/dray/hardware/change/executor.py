"""The one place that runs changes: it reports each before and after, and chooses the process it runs in.

executor = Executor(Path("/proc/1/root"), audit=log_changes)
applied = executor.apply(BindDriver("0000:05:00.0", "vfio-pci"))
executor.undo(applied)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from dray.errors import Error
from dray.hardware import mount_namespace
from dray.hardware.change.access import DEFAULT_LIMITS, Access, Limits
from dray.hardware.change.value import Effect, HostChange
from dray.hardware.mount_namespace import Namespace
from dray.hardware.nvml.protocol import OpenNvml
from dray.hardware.nvml.session import open_nvml
from dray.runtime.logs import get_log


class Outcome(StrEnum):
    """How far a change is. STARTED is told before anything is touched; one of the others follows, always."""

    STARTED = "started"
    CHANGED = "changed"
    ALREADY_SO = "already so"
    TOLERATED = "failed, tolerated"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One report. `error` is the text of what went wrong, `seconds` the time since the start."""

    change: HostChange
    outcome: Outcome
    error: str = ""
    seconds: float = 0.0


Audit = Callable[[AuditEntry], None]


@dataclass(frozen=True, slots=True)
class Applied:
    """A change that was run. `undo` is None where nothing was changed or nothing can be undone.

    `tolerated` is the error of a change whose failure does not matter (a label that nobody enforces).
    """

    change: HostChange
    changed: bool
    undo: HostChange | None = None
    tolerated: str = ""


@dataclass(frozen=True, slots=True)
class Executor:
    """Runs changes on one host; the caller sees to it that no two touch the same device at once. It waits for effects: call
    it from a thread, not from a loop.

    `namespace` is entered for files whose file system is read-only here (a container's /sys). `isolate` gives a process
    of its own to what the kernel may block for as long as somebody uses the device; that process is left behind then.
    `nvml` opens NVIDIA's library, or a recording of it.
    """

    root: Path
    audit: Audit
    namespace: Namespace | None = None
    limits: Limits = DEFAULT_LIMITS
    isolate: bool = True
    nvml: OpenNvml = open_nvml

    def apply(self, change: HostChange) -> Applied:
        """Make it so, and return when it is. Twice is fine.

        Errors: DeniedError (a right is missing), NotFoundError (no such device), ConflictError (in use, or taken),
        HardwareError (the device or its driver refused). Each names the device and what to do.
        """
        started = time.monotonic()
        self.audit(AuditEntry(change, Outcome.STARTED))
        try:
            effect = self._run(change)
        except Error as error:
            outcome = Outcome.FAILED if change.required else Outcome.TOLERATED
            self.audit(AuditEntry(change, outcome, str(error), time.monotonic() - started))
            if change.required:
                raise
            return Applied(change, changed=False, tolerated=str(error))
        except BaseException as error:
            self.audit(AuditEntry(change, Outcome.FAILED, repr(error), time.monotonic() - started))
            raise
        outcome = Outcome.CHANGED if effect.changed else Outcome.ALREADY_SO
        self.audit(AuditEntry(change, outcome, seconds=time.monotonic() - started))
        return Applied(change, effect.changed, effect.undo)

    def apply_all(self, changes: Iterable[HostChange]) -> list[Applied]:
        """All of them in order, or none: a failure undoes those before it, last one first, and is raised."""
        applied: list[Applied] = []
        for change in changes:
            try:
                applied.append(self.apply(change))
            except Error:
                self._undo_quietly(applied)
                raise
        return applied

    def undo(self, applied: Applied) -> Applied | None:
        """Restore what was before; None where there is nothing to undo."""
        return self.apply(applied.undo) if applied.undo is not None else None

    def _undo_quietly(self, applied: list[Applied]) -> None:
        for done in reversed(applied):
            try:
                self.undo(done)
            except Error:  # the audit has it; the first failure is the one to tell
                continue

    def _run(self, change: HostChange) -> Effect:
        mount_namespace.refuse_behind_another(change)
        host = Access(self.root, self.limits, self.nvml)
        if self.namespace is not None and host.is_read_only(change.target):
            return mount_namespace.run(change, self.namespace.root, self.limits, self.namespace)
        if change.may_block and self.isolate and not change.is_so(host):
            return mount_namespace.run(change, self.root, self.limits)
        return change.perform(host)


def log_changes(entry: AuditEntry) -> None:
    """An `Audit` that writes one log line a change, when it is over; its start shows only at level debug."""
    log = get_log("hardware.change")
    fields = {
        "change": type(entry.change).__name__,
        "device": entry.change.device,
        "what": entry.change.describe(),
    }
    if entry.outcome is Outcome.STARTED:
        log.debug("host change started", **fields)
        return
    write = log.info if entry.outcome in (Outcome.CHANGED, Outcome.ALREADY_SO) else log.warning
    error = {"error": entry.error} if entry.error else {}
    write("host change", outcome=entry.outcome.value, seconds=round(entry.seconds, 3), **fields, **error)
