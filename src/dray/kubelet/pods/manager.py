"""Keeps every pod of the node as it shall be: admit, prepare, start, restart, stop, give back.

Level-triggered: a pod is looked at after every change of its object, its containers or a timer, and each look does what
is due. Every step may be the last one before a kill; the next process finds out from records and the runtime.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from dray.api.core import Pod
from dray.api.core.container import ContainerStateWaiting
from dray.errors import Error
from dray.kubelet.pods import events
from dray.kubelet.pods.contract import Parts
from dray.kubelet.pods.known import KnownPod, KnownPods, Others, Phase, record_of
from dray.kubelet.pods.lanes import Lanes, wanted_of
from dray.kubelet.pods.plan import Stage, plan
from dray.kubelet.pods.records import Records
from dray.kubelet.pods.running import Running
from dray.kubelet.pods.sources import API
from dray.kubelet.pods.status import Facts, pod_status, set_aside_status
from dray.kubelet.rejection import Rejection
from dray.kubelet.runtimes.contract import Container, Sandbox, State
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.quarantine import PLACE, Quarantine, object_key
from dray.runtime.workqueue import Watch, WorkQueue

_log = get_log("kubelet.pods")

_RETRY = BackoffPolicy(first=0.5, limit=60.0, jitter=0.1)
_PATIENCE = 300.0
"""Seconds that a pod which was taken before a restart waits for its device plugin before it is rejected."""
_ASK_AGAIN = 1.0
_WORKERS = 4096
"""Pods worked on at once: as good as all. Each may wait for a plugin or driver, and none for another pod's."""


class PodManager:
    """One a node. `take` may be called at any time from the loop; `run` does the work until it is cancelled.

    `reached` is called between any two steps with a word for the place: tests end the process there.
    """

    def __init__(
        self,
        parts: Parts,
        state_dir: Path,
        logs: Path,
        clock: Clock,
        *,
        sources: Collection[str],
        host_address: str = "",
        reached: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._parts = parts
        self._clock = clock
        self._sources = frozenset(sources)
        self._address = host_address
        self._reached = reached
        self._records = Records(state_dir / "records")
        self._running = Running(parts, state_dir, logs, clock, reached)
        self.known = KnownPods(self._records.load())
        self.quarantine = Quarantine(state_dir / PLACE, clock)
        watch = Watch(self.quarantine, self._name_of, self._leave)
        self._admissions = WorkQueue[str]("admissions", clock, _RETRY, watch)
        self._lanes = Lanes()
        self._work = WorkQueue[str]("pods", clock, _RETRY, watch)
        self._containers: tuple[Container, ...] = ()
        self._sandboxes: tuple[Sandbox, ...] = ()
        self._begun_looks = self._newest_look = 0
        self._ran_at_start: frozenset[tuple[str, str]] = frozenset()
        self._orphans_due = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        """Whether every source has told its pods: before that nobody is given up as gone."""
        return self.known.is_ready(self._sources)

    def take(self, source: str, pods: Sequence[Pod]) -> None:
        """A source's whole list of pods."""
        for uid in self.known.take(source, pods):
            self._route(uid)
        self._orphans_due.set()

    def wake(self, uid: str) -> None:
        """Look at a pod again: the health of one of its devices changed."""
        if uid in self.known.by_uid:
            self._route(uid)

    def was_running(self, uid: str, container: str) -> bool:
        """Whether a container ran when this process began."""
        return (uid, container) in self._ran_at_start

    async def run(self) -> None:
        """Until cancelled."""
        with self.quarantine:
            await self._run()

    async def _run(self) -> None:
        await self._patiently(self._look)
        self._ran_at_start = frozenset(
            (one.pod.uid, one.name) for one in self._containers if one.state is State.RUNNING
        )
        for uid in self.known.by_uid:
            self._route(uid)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._admissions.run(self._admit, workers=_WORKERS), name="admissions")
            group.create_task(self._work.run(self._sync, workers=_WORKERS), name="pod work")
            group.create_task(self._follow_runtime(), name="containers")
            group.create_task(self._sweep(), name="orphans")

    def _route(self, uid: str) -> None:
        known = self.known.by_uid[uid]
        (self._admissions if known.is_undecided else self._work).add(uid)

    async def _follow_runtime(self) -> NoReturn:
        # Compared with what was seen here: pods that are worked on look too, and would take the changes of others away.
        seen: dict[str, Container] = {}
        while True:
            await self._parts.runtime.wait_changed()
            await self._patiently(self._look)
            found = {one.id: one for one in self._containers}
            for one in {**seen, **found}.values():
                if seen.get(one.id) != found.get(one.id) and one.pod.uid in self.known.by_uid:
                    self._route(one.pod.uid)
            seen = found

    async def _sweep(self) -> None:
        """Once all sources told their pods: sandboxes of pods that nobody knows are ended."""
        while not self.is_ready:
            self._orphans_due.clear()
            await self._orphans_due.wait()
        await self._patiently(self._remove_orphans)

    async def _remove_orphans(self) -> None:
        for sandbox in await self._parts.runtime.sandboxes():
            if sandbox.pod.uid not in self.known.by_uid:
                _log.warning("sandbox of an unknown pod removed", pod=sandbox.pod.name, uid=sandbox.pod.uid)
                await self._parts.runtime.stop_sandbox(sandbox.id)
                await self._parts.runtime.remove_sandbox(sandbox.id)

    async def _look(self) -> None:
        self._begun_looks += 1
        own = self._begun_looks
        containers = await self._parts.runtime.containers()
        sandboxes = await self._parts.runtime.sandboxes()
        # A look that began later and was faster has newer facts.
        if own > self._newest_look:
            self._newest_look, self._containers, self._sandboxes = own, containers, sandboxes

    async def _patiently(self, call: Callable[[], Awaitable[None]]) -> None:
        """For what no queue tries again: a runtime that is away comes back."""
        while True:
            try:
                return await call()
            except Error as error:
                _log.warning("the container runtime fails, asked again", error=str(error))
            await self._clock.sleep(_ASK_AGAIN)

    def _name_of(self, uid: str) -> str:
        """A pod that leaves is another matter than one that stays: it must be able to end where it could not run."""
        known = self.known.by_uid.get(uid)
        if known is None:
            return ""
        meta = known.pod.metadata
        key = object_key("pods", meta.namespace, meta.name, uid, meta.controller_uid)
        return f"{key} leaves" if known.is_leaving else key

    def _leave(self, uid: str, why: str) -> None:
        """A pod that ended this process again and again: it stays as it is, and says so."""
        known = self.known.by_uid[uid]
        self._parts.events.record(events.set_aside(known.pod, why))
        status = set_aside_status(known.pod, why, self._clock.now().replace(microsecond=0))
        known.pod = msgspec.structs.replace(known.pod, status=status)
        self._parts.statuses.tell(known.pod, status)

    async def _admit(self, uid: str) -> None:
        known = self.known.by_uid.get(uid)
        if not self._lanes.enter(uid, wanted_of(known.pod) if known else ()):
            return
        try:
            if known is not None and known.is_undecided:
                await self._ask(known)
        finally:
            for each in self._lanes.leave(uid):
                self._admissions.add(each)

    async def _ask(self, known: KnownPod) -> None:
        rejection = await self._parts.admission.admit(known.pod, Others(self.known, known.uid))
        self._reached("admitted")
        if not known.is_undecided:  # it was given up while a plugin thought about it
            self._parts.admission.ended(known.pod)
            return
        if rejection is not None and self._may_wait(known):
            self._wait(known, rejection)
            return
        known.rejection = rejection
        known.phase = Phase.TAKEN if rejection is None else Phase.ENDED
        self._records.save(record_of(known))
        self._reached("recorded")
        if rejection is not None:
            self._parts.events.record(events.rejected(known.pod, rejection))
            self._tell(known)
        self._work.add(known.uid)

    def _wait(self, known: KnownPod, rejection: Rejection) -> None:
        """Ask again soon, and say why the pod waits, once."""
        waiting = ContainerStateWaiting(reason=rejection.reason, message=rejection.message)
        waits = {spec.name: waiting for spec in known.pod.spec.containers}
        if waits != known.waits:
            _log.warning("a pod waits for its devices", pod=known.pod.metadata.name, why=rejection.message)
            known.waits = waits
            self._tell(known)
        self._admissions.add_after(known.uid, _ASK_AGAIN)

    def _may_wait(self, known: KnownPod) -> bool:
        """A pod from a file: nobody would make another one. Or it ran here before a restart: its plugin may come back."""
        if known.source != API:
            return True
        if not known.was_taken:
            return False
        now = self._clock.monotonic()
        known.first_refused = now if known.first_refused is None else known.first_refused
        return now - known.first_refused < _PATIENCE

    async def _sync(self, uid: str) -> None:
        known = self.known.by_uid.get(uid)
        if known is None:
            return
        if known.phase is Phase.ENDED:
            await self._clean(known)
            if known.rejection is None:  # a kill may have come before its last status was told
                self._parts.statuses.tell(known.pod, known.pod.status)
            await self._let_go(known)
        elif known.is_leaving:
            await self._end(known)
        elif known.phase is Phase.TAKEN:
            await self._advance(known)

    async def _advance(self, known: KnownPod) -> None:
        self._warn(known)
        await self._look()
        due = plan(known.pod, self._own(known), self._sandboxes_of(known))
        known.waits.clear()
        if due.stage is Stage.ENDED:
            await self._end(known)
            return
        try:
            pause = await self._running.start(known, due.start, self._sandboxes_of(known))
            if pause:
                self._work.add_after(known.uid, pause)
        finally:
            for one in due.remove:
                await self._parts.runtime.remove(one.id)
            await self._look()
            self._tell(known)

    def _warn(self, known: KnownPod) -> None:
        """Of what the pod asks for and nobody does here: once, and again where it asks for more."""
        event = events.not_carried_out(known.pod)
        if event is not None and event.message != known.warning:
            known.warning = event.message
            self._parts.events.record(event)

    async def _end(self, known: KnownPod) -> None:
        """Stop all that runs, give everything back, keep the last status. Repeatable after an error or a kill."""
        await self._look()
        await self._running.stop(known, self._own(known))
        await self._look()
        status = pod_status(known.pod, self._facts(known, is_ended=True))
        known.pod = msgspec.structs.replace(known.pod, status=status)
        self._reached("stopped")
        for sandbox in self._sandboxes_of(known):
            await self._parts.runtime.stop_sandbox(sandbox.id)
        self._reached("sandbox stopped")
        await self._unprepare(known.pod)
        self._reached("unprepared")
        known.phase = Phase.ENDED
        self._records.save(record_of(known))
        self._reached("end recorded")
        self._parts.admission.ended(known.pod)
        self._reached("ended")
        self._parts.statuses.tell(known.pod, status)
        await self._clean(known)
        await self._let_go(known)

    async def _unprepare(self, pod: Pod) -> None:
        try:
            await self._parts.claims.unprepare(pod)
        except Error as error:
            self._parts.events.record(events.not_unprepared(pod, error))
            raise

    async def _clean(self, known: KnownPod) -> None:
        """Remove what a pod that ended leaves behind; its status is in the record, its logs stay until it is deleted."""
        for sandbox in self._sandboxes_of(known):
            await self._parts.runtime.remove_sandbox(sandbox.id)
        self._reached("removed")
        await self._running.forget(known.uid)

    async def _let_go(self, known: KnownPod) -> None:
        """A pod that ended: its object may go if it is being deleted; it is forgotten once nobody has it any more."""
        if known.rejection is not None:
            self._tell(known)
        if known.pod.metadata.deletion_timestamp is not None:
            self._parts.statuses.ended(known.pod)
        if not known.is_wanted:
            await self._running.remove_logs(known.pod)
        if not known.is_wanted:  # still: a source may have told it again meanwhile
            self._records.remove(known.uid)
            self._reached("forgotten")
            del self.known.by_uid[known.uid]

    def _tell(self, known: KnownPod) -> None:
        status = pod_status(known.pod, self._facts(known, is_ended=False))
        known.pod = msgspec.structs.replace(known.pod, status=status)
        self._parts.statuses.tell(known.pod, status)

    def _facts(self, known: KnownPod, *, is_ended: bool) -> Facts:
        sandbox = next((one for one in self._sandboxes_of(known) if one.is_ready), None)
        devices = {
            spec.name: (
                *self._parts.devices.allocated_status(known.pod, spec),
                *self._parts.claims.allocated_status(known.pod, spec),
            )
            for spec in known.pod.spec.containers
        }
        return Facts(
            now=self._clock.now().replace(microsecond=0),
            runtime=self._parts.runtime.name,
            containers=self._own(known),
            waits={} if is_ended else known.waits,
            devices=devices,
            rejection=known.rejection,
            has_sandbox=sandbox is not None,
            is_ended=is_ended,
            host_address=self._address,
            pod_address=(sandbox.address if sandbox else "")
            or (self._address if known.pod.spec.host_network else ""),
        )

    def _own(self, known: KnownPod) -> tuple[Container, ...]:
        return tuple(one for one in self._containers if one.pod.uid == known.uid)

    def _sandboxes_of(self, known: KnownPod) -> tuple[Sandbox, ...]:
        return tuple(one for one in self._sandboxes if one.pod.uid == known.uid)
