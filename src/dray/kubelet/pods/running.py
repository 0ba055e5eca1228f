"""Starts and stops the containers of one pod, step by step. All of it may be repeated after an error or a kill."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from dray.api.core import Pod
from dray.api.core.container import Container as ContainerSpec
from dray.api.core.container import ContainerStateWaiting
from dray.errors import Error, InvalidError, InvariantError, NotFoundError
from dray.kubelet.pods.contract import Parts
from dray.kubelet.pods.known import KnownPod
from dray.kubelet.pods.plan import Start
from dray.kubelet.pods.restarts import Restarts
from dray.kubelet.pods.start import container_config, identity, log_directory
from dray.kubelet.pods.status import BACK_OFF, CREATING
from dray.kubelet.pods.volumes import Volumes
from dray.kubelet.runtimes.contract import Container, Sandbox, SandboxConfig, State
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.tasks import single

_log = get_log("kubelet.pods")


class Running:
    """For all pods of a node. `reached` is called between any two steps with a word for the place."""

    def __init__(
        self, parts: Parts, state_dir: Path, logs: Path, clock: Clock, reached: Callable[[str], None]
    ) -> None:
        self._parts = parts
        self._logs = logs
        self._reached = reached
        self._volumes = Volumes(state_dir / "pods", parts.objects)
        self._restarts = Restarts(clock)

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
                pauses.append(pause)
                continue
            try:
                await self._start(known, sandbox, start)
            except InvariantError:
                raise
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
        try:
            async with asyncio.TaskGroup() as group:
                for one in mains:
                    group.create_task(self._parts.runtime.stop(one.id, known.grace))
        except BaseExceptionGroup as failures:
            raise single(failures) from None
        for spec in reversed(known.pod.spec.init_containers):
            if spec.name in own:
                await self._parts.runtime.stop(own[spec.name].id, known.grace)

    def forget(self, uid: str) -> None:
        """The pod is over: its volumes go."""
        self._volumes.remove(uid)
        self._restarts.forget(uid)

    async def _sandbox(self, known: KnownPod, sandboxes: Sequence[Sandbox]) -> str:
        for one in sandboxes:
            if one.is_ready:
                return one.id
        await self._parts.claims.prepare(known.pod)
        self._reached("prepared")
        found = await self._parts.runtime.run_sandbox(
            SandboxConfig(
                identity(known.pod),
                hostname=known.pod.spec.hostname or known.pod.metadata.name,
                log_directory=log_directory(self._logs, known.pod),
                attempt=max((one.attempt for one in sandboxes), default=-1) + 1,
                host_network=known.pod.spec.host_network,
                host_pid=known.pod.spec.host_pid,
                labels=tuple(sorted(known.pod.metadata.labels.items())),
                annotations=tuple(sorted(known.pod.metadata.annotations.items())),
            )
        )
        self._reached("sandboxed")
        return found

    async def _start(self, known: KnownPod, sandbox: str, start: Start) -> None:
        spec = _spec_of(known.pod, start.name)
        await self._parts.objects.fetch(known.pod)
        known.volumes = self._volumes.make(known.pod) if known.volumes is None else known.volumes
        await self._parts.runtime.ensure_image(spec.image, spec.image_pull_policy)
        options = await self._parts.devices.run_options(known.pod, spec)
        config = container_config(
            known.pod,
            spec,
            start.attempt,
            options,
            claims_cdi=await self._claimed(known.pod, spec),
            volumes=known.volumes,
            sources=self._parts.objects,
            logs=self._logs,
        )
        self._reached("configured")
        container = await self._parts.runtime.create(sandbox, config)
        self._reached("created")
        await self._parts.runtime.start(container)
        self._reached("started")
        if start.attempt:
            self._restarts.restarted(known.uid, start.name)
        _log.info(
            "container started", pod=known.pod.metadata.name, container=start.name, attempt=start.attempt
        )

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
    whole = f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
    text = f"back-off {pause:.0f}s restarting failed container={name} pod={whole}"
    return ContainerStateWaiting(reason=BACK_OFF, message=text)


def _reason(error: Error) -> str:
    if isinstance(error, NotFoundError):
        return "ErrImageNeverPull" if error.kind == "Image" else "CreateContainerConfigError"
    return "CreateContainerConfigError" if isinstance(error, InvalidError) else "CreateContainerError"
