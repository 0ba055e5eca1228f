"""Starts and stops the containers of one pod, step by step. All of it may be repeated after an error or a kill."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

from dray.api.core import Pod
from dray.api.core.container import Container as ContainerSpec
from dray.api.core.container import ContainerStateWaiting
from dray.errors import Error, InvalidError, NotFoundError
from dray.kubelet.pods import events
from dray.kubelet.pods.contract import Parts
from dray.kubelet.pods.known import KnownPod
from dray.kubelet.pods.plan import Start
from dray.kubelet.pods.restarts import Restarts
from dray.kubelet.pods.start import container_config, log_directory, sandbox_config
from dray.kubelet.pods.status import BACK_OFF, CREATING
from dray.kubelet.pods.volumes import Volumes
from dray.kubelet.runtimes.contract import Container, Sandbox, State
from dray.runtime.clock import Clock
from dray.runtime.files.removal import remove_tree
from dray.runtime.tasks import single
from dray.runtime.threads import Threads
from dray.runtime.traces import span

T = TypeVar("T")

_DISK_SECONDS = 60.0
"""Whoever fills a volume with millions of files keeps nobody else waiting; what is not done by then is tried again."""
_CALLS_AT_ONCE, _REMOVALS_AT_ONCE = 256, 16
"""Threads: a hostPath on a file server that hangs keeps one, and pods that leave millions of files keep none from starting."""
STARTS_AT_ONCE = 16
"""Each is a new process: more at once only make each other slow."""


class Running:
    """For all pods of a node. `reached` is called between any two steps with a word for the place."""

    def __init__(
        self, parts: Parts, state_dir: Path, logs: Path, clock: Clock, reached: Callable[[str], None]
    ) -> None:
        self._parts = parts
        self._logs = logs
        self._reached = reached
        self._volumes = Volumes(state_dir / "pods", parts.objects, clock, has_mounts=parts.runtime.has_mounts)
        self._threads = Threads(_CALLS_AT_ONCE)
        self._removals = asyncio.Semaphore(_REMOVALS_AT_ONCE)
        self._restarts = Restarts(clock)
        self._starts = asyncio.Semaphore(STARTS_AT_ONCE)

    async def start(self, known: KnownPod, due: Sequence[Start], sandboxes: Sequence[Sandbox]) -> float:
        """Start what is due. Seconds until the first of those that must wait, 0 where none does.

        The first error is raised once all others were tried; why a container does not start is in `known.waits`.
        """
        if not due:
            return 0.0
        try:
            sandbox = await self._sandbox(known, sandboxes)
        except Error as error:
            waiting = ContainerStateWaiting(reason=CREATING, message=str(error))
            known.waits.update({start.name: waiting for start in due})
            raise
        failures: list[Error] = []
        pauses: list[float] = []
        for start in due:
            pause = self._restarts.pause(known.uid, start.after)
            if pause > 0:
                known.waits[start.name] = _back_off(known.pod, start.name, pause)
                self._parts.events.record(events.back_off(known.pod, start.name))
                pauses.append(pause)
                continue
            try:
                with span("kubelet", "start", self._parts.claims.uids(known.pod), container=start.name):
                    await self._start(known, sandbox, start)
            except Error as error:
                known.waits[start.name] = ContainerStateWaiting(reason=_reason(error), message=str(error))
                failures.append(error)
        if failures:
            raise failures[0]
        return min(pauses, default=0.0)

    async def stop(self, known: KnownPod, containers: Sequence[Container]) -> None:
        """Main containers at once, then sidecars in the reverse order of their start."""
        own = {one.name: one for one in containers if one.state is State.RUNNING}
        mains = [own[one.name] for one in known.pod.spec.containers if one.name in own]
        with self._telling(partial(events.not_killed, known.pod)):
            try:
                async with asyncio.TaskGroup() as group:
                    for one in mains:
                        group.create_task(self._stop(known, one))
            except BaseExceptionGroup as failures:
                raise single(failures) from None
            for spec in reversed(known.pod.spec.init_containers):
                if spec.name in own:
                    await self._stop(known, own[spec.name])

    async def _stop(self, known: KnownPod, container: Container) -> None:
        self._parts.events.record(events.killing(known.pod, container.name))
        await self._parts.runtime.stop(container.id, known.grace)

    async def forget(self, uid: str) -> None:
        """The pod is over: its volumes go."""
        async with self._removals:
            await self._beside(partial(self._volumes.remove, uid), "remove the volumes", uid)
        self._restarts.forget(uid)

    async def remove_logs(self, pod: Pod) -> None:
        """Of a pod that nobody has any more; nothing happens where there are none."""
        path = log_directory(self._logs, pod)
        async with self._removals:
            await self._beside(partial(remove_tree, path), "remove the logs", pod.metadata.uid)

    async def _beside(self, call: Callable[[], T], doing: str, uid: str) -> T:
        """Run a blocking call in a thread: a disk or a file server may be slow, and other pods must not wait for it."""
        return await self._threads.run(
            call, doing=f"{doing} of pod {uid}", seconds=_DISK_SECONDS, alone_on=(uid,)
        )

    async def _sandbox(self, known: KnownPod, sandboxes: Sequence[Sandbox]) -> str:
        for one in sandboxes:
            if one.is_ready:
                return one.id
        if sandboxes:
            self._parts.events.record(events.sandbox_changed(known.pod))
        attempt = max((one.attempt for one in sandboxes), default=-1) + 1
        with self._telling(partial(events.no_sandbox, known.pod)):
            config = sandbox_config(known.pod, attempt, self._logs)
        with self._telling(partial(events.not_prepared, known.pod)):
            await self._parts.claims.prepare(known.pod)
        self._reached("prepared")
        with self._telling(partial(events.no_sandbox, known.pod)):
            found = await self._parts.runtime.run_sandbox(config)
        self._reached("sandboxed")
        return found

    async def _start(self, known: KnownPod, sandbox: str, start: Start) -> None:
        spec, tell = _spec_of(known.pod, start.name), self._parts.events.record
        await self._parts.objects.fetch(known.pod)
        with self._telling(partial(events.not_mounted, known.pod)):
            if known.volumes is None:
                make = partial(self._volumes.make, known.pod)
                known.volumes = await self._beside(make, "make the volumes", known.uid)
        with self._telling(partial(events.not_pulled, known.pod, spec)):
            await self._parts.runtime.ensure_image(spec.image, spec.image_pull_policy)
        tell(events.pulled(known.pod, spec))
        with self._telling(partial(events.failed, known.pod, spec.name)):
            container = await self._create(known, spec, sandbox, start)
        tell(events.created(known.pod, spec.name))
        with self._telling(partial(events.failed, known.pod, spec.name, container_id=container)):
            if start.attempt:  # also where it cannot be started: else it would be tried without a pause
                self._restarts.restarted(known.uid, start.name)
            async with self._starts:
                await self._parts.runtime.start(container)
        tell(events.started(known.pod, spec.name))
        self._reached("started")

    async def _create(self, known: KnownPod, spec: ContainerSpec, sandbox: str, start: Start) -> str:
        assert known.volumes is not None
        make_config = partial(
            container_config,
            known.pod,
            spec,
            start.attempt,
            await self._parts.devices.run_options(known.pod, spec),
            claims_cdi=await self._claimed(known.pod, spec),
            mounts=partial(self._volumes.mounts, known.pod, spec, known.volumes, is_made=start.is_made),
            sources=self._parts.objects,
            logs=self._logs,
        )
        config = await self._beside(make_config, f"mount the volumes of container {spec.name}", known.uid)
        self._reached("configured")
        container = await self._parts.runtime.create(sandbox, config)
        self._reached("created")
        return container

    @contextmanager
    def _telling(self, event: Callable[[Error], events.PodEvent]) -> Iterator[None]:
        """An error on the way is recorded, and goes on."""
        try:
            yield
        except Error as error:
            self._parts.events.record(event(error))
            raise

    async def _claimed(self, pod: Pod, spec: ContainerSpec) -> tuple[str, ...]:
        """Where the record of claims was lost while the sandbox stayed, the drivers are asked once more."""
        try:
            return self._parts.claims.cdi_devices(pod, spec)
        except NotFoundError:
            await self._parts.claims.prepare(pod)
            return self._parts.claims.cdi_devices(pod, spec)


def _spec_of(pod: Pod, name: str) -> ContainerSpec:
    return next(one for one in (*pod.spec.init_containers, *pod.spec.containers) if one.name == name)


def _back_off(pod: Pod, name: str, pause: float) -> ContainerStateWaiting:
    text = f"back-off {pause:.0f}s restarting failed container={name} pod={events.full_name(pod)}"
    return ContainerStateWaiting(reason=BACK_OFF, message=text)


def _reason(error: Error) -> str:
    if isinstance(error, NotFoundError):
        of_images = {"image": "ErrImageNeverPull", "pull": "ErrImagePull"}
        return of_images.get(error.kind, "CreateContainerConfigError")
    return "CreateContainerConfigError" if isinstance(error, InvalidError) else "CreateContainerError"
