"""Do to the host what `Prepared` asks, before a container is answered for; the one way in for all who hand out devices."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dray.cdi.edits import ContainerEdits, Mount, merge
from dray.drivers.contract import DescriptorPass, Device, Prepared
from dray.drivers.health import check_required
from dray.errors import Error, InvariantError
from dray.hardware.change import HostChange
from dray.hardware.change.access import Access
from dray.hardware.change.executor import AuditEntry, Executor, Outcome
from dray.hardware.device_nodes import open_device_node
from dray.hardware.host_root import HostRoot
from dray.runtime.logs import get_log
from dray.runtime.threads import Threads

_log = get_log("drivers")


class PassesDescriptors(Protocol):
    """Whoever serves opened nodes to containers (`drivers/iommufd/passing.py`)."""

    def check(self, wanted: DescriptorPass) -> None:
        """HardwareError where it cannot work on this host."""
        ...

    async def offer(self, wanted: DescriptorPass) -> Mount:
        """Begin to serve one container; the mount it needs."""
        ...


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """Seconds. The changes of one container get more than one that the kernel blocks has (`Limits.process`)."""

    open_first: float = 5.0
    changes: float = 45.0


class HostWork:
    """Called once for each container, for several at once; `threads` is shared with `passing`.

    Twice the same is fine: what is so already stays. After a failure the changes of that container are undone.
    """

    def __init__(
        self,
        root: HostRoot,
        executor: Executor,
        threads: Threads,
        passing: PassesDescriptors | None = None,
        limits: WorkLimits | None = None,
    ) -> None:
        self._root = root
        self._executor = executor
        self._keeping = dataclasses.replace(executor, audit=self._tell_once)
        self._threads = threads
        self._passing = passing
        self._limits = limits or WorkLimits()
        self._failures: dict[HostChange, str] = {}

    async def __call__(self, prepared: Prepared) -> ContainerEdits:
        """Do it all; what the container gets then. It does not leave the loop where nothing but a look is asked for.

        Errors: HardwareError (something is gone), UnavailableError (the host does not answer in time), and those of the
        changes. A Dray error means that the container must not have its devices.
        """
        for wanted in prepared.passes:
            self._passes().check(wanted)
        check_required(self._root, prepared)
        for path in prepared.open_first:
            await self._open_once(path)
        await self._make(prepared.changes, self._executor.apply_all)
        edits = [prepared.edits]
        if (finish := prepared.finish) is not None:
            found = await self._threads.run(
                lambda: finish(self._root), doing="see what was made", seconds=self._limits.changes
            )
            edits.append(found)
        if prepared.passes:
            mounts = [await self._passes().offer(wanted) for wanted in prepared.passes]
            edits.append(ContainerEdits(mounts=tuple(mounts)))
        return merge(edits) if len(edits) > 1 else prepared.edits

    async def release(self, changes: Sequence[HostChange]) -> None:
        """Make these when devices are given back, in this order. A failure stops them, and what was made stays so."""
        await self._make(changes, lambda wanted: [self._executor.apply(one) for one in wanted])

    async def upkeep(self, devices: Iterable[Device]) -> None:
        """Make the `upkeep` of these devices so. Called after each look; returns when all of them are done or given up.

        Nothing is raised. The audit hears of what is not so yet, and of a failure once until it changes.
        """
        kept = [device.upkeep for device in devices if device.upkeep]
        async with asyncio.TaskGroup() as group:
            for changes in kept:
                group.create_task(self._keep(changes))

    async def _make(
        self, changes: Sequence[HostChange], apply: Callable[[Sequence[HostChange]], object]
    ) -> None:
        if changes:
            await self._threads.run(
                lambda: apply(changes),
                doing=changes[0].describe(),
                seconds=self._limits.changes,
                alone_on=_names(changes),
            )

    def _passes(self) -> PassesDescriptors:
        if self._passing is None:
            raise InvariantError(
                "a kind wants a descriptor passed, and HostWork was given nobody who does that"
            )
        return self._passing

    async def _open_once(self, path: str) -> None:
        """Only for its effect, that the kernel loads a module: a failure is the container's to find."""
        try:
            await self._threads.run(
                lambda: os.close(open_device_node(self._root, path)),
                doing=f"open {path}",
                seconds=self._limits.open_first,
                alone_on=(f"open {path}",),
            )
        except Error as error:
            _log.debug("cannot open a node first", path=path, error=str(error))

    async def _keep(self, changes: tuple[HostChange, ...]) -> None:
        try:
            await self._threads.run(
                lambda: self._make_so(changes),
                doing=changes[0].describe(),
                seconds=self._limits.changes,
                alone_on=_names(changes),
            )
        except Error as error:  # it does not answer, and that was told
            _log.debug("upkeep is not done", what=changes[0].describe(), error=str(error))

    def _make_so(self, changes: tuple[HostChange, ...]) -> None:
        """In a thread. One that fails does not keep the others from being made."""
        host = Access(self._executor.root, self._executor.limits)
        for change in changes:
            if self._is_so(change, host):
                self._failures.pop(change, None)
                continue
            try:
                self._keeping.apply(change)
            except Error:  # the audit has it
                continue

    def _is_so(self, change: HostChange, host: Access) -> bool:
        try:
            return change.is_so(host)
        except Error:  # making it so tells why
            return False

    def _tell_once(self, entry: AuditEntry) -> None:
        """The audit of upkeep: all but a failure that it heard of before."""
        if entry.outcome in (Outcome.FAILED, Outcome.TOLERATED):
            if self._failures.get(entry.change) == entry.error:
                return
            self._failures[entry.change] = entry.error
        elif entry.outcome is not Outcome.STARTED:
            self._failures.pop(entry.change, None)
        self._executor.audit(entry)


def _names(changes: Iterable[HostChange]) -> frozenset[str]:
    """What the changes touch: no two that touch the same run at once."""
    return frozenset(name for change in changes for name in (change.device, change.target))
