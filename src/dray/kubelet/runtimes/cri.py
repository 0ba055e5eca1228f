"""Containers of a CRI runtime (containerd, CRI-O) over its socket. All state is the runtime's; nothing is kept here.

Sandboxes and containers are found by their labels, so that the next kubelet takes them over. A kubelet that was killed
may have left a call under way: whoever meets it waits for its end.
"""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from dray.errors import (
    ConflictError,
    Error,
    InvalidError,
    ProtocolError,
    UnavailableError,
)
from dray.kubelet.failure import prefixed
from dray.kubelet.runtimes.contract import (
    Container,
    ContainerConfig,
    LogLimits,
    Sandbox,
    SandboxConfig,
    State,
)
from dray.kubelet.runtimes.cri_events import Changes
from dray.kubelet.runtimes.cri_images import ensure_image, find_image, image_user
from dray.kubelet.runtimes.cri_logs import LogKeeper
from dray.kubelet.runtimes.cri_requests import (
    cgroup_parent,
    container_request,
    sandbox_config,
)
from dray.kubelet.runtimes.cri_told import container_told, create_error, is_busy, is_cut_off
from dray.kubelet.runtimes.cri_view import CriView
from dray.kubelet.runtimes.hidden import masked_paths
from dray.kubelet.runtimes.records import START_ERROR
from dray.kubelet.runtimes.seccomp import PROFILES
from dray.kubelet.runtimes.shim_log import open_directory
from dray.kubelet.runtimes.users import check_non_root
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.files.durable import make_directory
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log
from dray.runtime.tasks import running
from dray.wire.connect import connect
from dray.wire.cri import LIMITS, ImagesClient, RuntimeClient
from dray.wire.gen import cri_v1_pb2 as pb

_log = get_log("kubelet.runtimes.cri")
T = TypeVar("T")

SOCKET = Path("/run/containerd/containerd.sock")
_ASK_SECONDS = 30.0
_SANDBOX_SECONDS = 240.0
_WORK_SECONDS = 120.0
_BUSY_SECONDS, _BUSY_PAUSE = 60.0, 0.1


class CriSettings(msgspec.Struct, frozen=True):
    """`owner` is the same after each restart of a kubelet, and another one for every other kubelet."""

    owner: str
    socket: Path = SOCKET
    cgroup: str | None = None
    """Where pods are put. None: in a group of this kubelet's own, in the form that the runtime needs."""
    logs: LogLimits = LogLimits()
    seccomp: Path = PROFILES
    """Where the node's own seccomp profiles are."""


class CriRuntime:
    """Implements `contract.Runtime`. Entered = the runtime answers; left = the containers go on."""

    def __init__(self, settings: CriSettings, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._stack = AsyncExitStack()
        self._cgroup = ""
        self._name = "cri"

    @property
    def name(self) -> str:
        """As it calls itself."""
        return self._name

    @property
    def has_mounts(self) -> bool:
        """Made by the runtime."""
        return True

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            try:
                channel = await stack.enter_async_context(
                    connect(self._settings.socket, timeout=_ASK_SECONDS, limits=LIMITS)
                )
                self._runtime, self._images = RuntimeClient(channel), ImagesClient(channel)
                self._name = (await self._runtime.version(pb.VersionRequest())).runtime_name
                self._cgroup = await self._find_cgroup()
            except UnavailableError as error:
                raise _away(error) from error
            self._view = CriView(self._runtime, self._settings.owner, self._clock)
            self._changes = Changes(self._runtime, self._clock)
            await stack.enter_async_context(running(self._changes.run(), name="changes of containers"))
            logs = LogKeeper(self._runtime, self._view, self._settings.logs, self._clock)
            await stack.enter_async_context(running(logs.run(), name="sizes of logs"))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    async def _find_cgroup(self) -> str:
        if self._settings.cgroup is not None:
            return self._settings.cgroup
        try:
            found = await self._runtime.runtime_config(pb.RuntimeConfigRequest())
        except ProtocolError as error:
            _log.info("the runtime does not say how it names cgroups, it chooses them itself", why=str(error))
            return ""
        return cgroup_parent(self._settings.owner, found.linux.cgroup_driver)

    async def check_ready(self) -> None:
        """A network that is not there yet is told in the log: pods with the host's network need none."""
        try:
            answer = await self._runtime.status(pb.StatusRequest())
        except UnavailableError as error:
            raise _away(error) from error
        for one in answer.status.conditions:
            if one.type == "RuntimeReady" and not one.status:
                raise UnavailableError(f"{self._name} is not ready: {one.reason} {one.message}")
            if one.type == "NetworkReady" and not one.status:
                _log.warning("only pods with hostNetwork can run", reason=one.reason, why=one.message)

    async def ensure_image(self, image: str, policy: str) -> None:
        """Pulled by the runtime, where its registry answers."""
        await ensure_image(self._images, image, policy)

    async def run_sandbox(self, config: SandboxConfig) -> str:
        """One that was stopped stays as it is, unless it never held a container: a call that was cut off leaves such."""
        try:
            make_directory(config.log_directory, 0o755)
        except OSError as error:
            raise from_os_error(error, "make the directory", str(config.log_directory)) from error
        return await self._patiently(lambda: self._run_sandbox(config))

    async def _run_sandbox(self, config: SandboxConfig) -> str:
        for one in await self._view.list_sandboxes(pod_uid=config.pod.uid):
            held = await self._view.list_containers(pod_uid=config.pod.uid, sandbox=one.id)
            is_ready = one.state == pb.SANDBOX_READY
            if one.metadata.attempt == config.attempt and (is_ready or held):
                return one.id
            if not is_ready and not held:
                await self.remove_sandbox(one.id)
            elif not is_ready and not any(_may_run(each) for each in held):
                await self.stop_sandbox(one.id)  # or it keeps its address
        wanted = sandbox_config(config, self._settings.owner, self._cgroup)
        request = pb.RunPodSandboxRequest(config=wanted)
        return (await self._runtime.run_pod_sandbox(request, timeout=_SANDBOX_SECONDS)).pod_sandbox_id

    async def create(self, sandbox: str, config: ContainerConfig) -> str:
        """One that was never started moves to the sandbox given now."""
        try:
            root = str(self._settings.logs.root or "")
            os.close(open_directory(str(config.log_path.parent), root, make=True))
        except OSError as error:
            raise from_os_error(error, "make the directory", str(config.log_path.parent)) from error
        return await self._patiently(lambda: self._create(sandbox, config))

    async def _create(self, sandbox: str, config: ContainerConfig) -> str:
        for one in await self._view.list_containers(pod_uid=config.pod.uid, container=config.name):
            if one.metadata.attempt != config.attempt:
                # Nobody knows whether such a one still runs, and the new one needs its devices.
                if one.state == pb.CONTAINER_UNKNOWN:
                    await self.stop(one.id, 0.0)
                continue
            status = await self._view.status(one.id)
            fits = one.pod_sandbox_id == sandbox and not is_cut_off(status)
            if fits or container_told(one, status).state is not State.CREATED:
                return one.id
            await self.remove(one.id)
        image = await find_image(self._images, config.image)
        _check_user(config, image)
        request = container_request(
            await self._ready_sandbox(sandbox),
            config,
            self._settings.owner,
            image=image.id,
            masked=masked_paths(),
            seccomp=self._settings.seccomp,
        )
        try:
            answer = await self._runtime.create_container(request, timeout=_WORK_SECONDS)
        except Error as error:
            raise create_error(error, config) from error
        self._changes.note()
        return answer.container_id

    async def _ready_sandbox(self, sandbox: str) -> pb.PodSandboxStatus:
        status = await self._view.sandbox_status(sandbox)
        if status.state != pb.SANDBOX_READY:
            raise ConflictError(f"sandbox {sandbox} of pod {status.metadata.name} does not run any more")
        return status

    async def start(self, container: str) -> None:
        """InvalidError when its command cannot be run; it is EXITED then, with the reason StartError."""
        await self._patiently(lambda: self._start(container))
        self._changes.note()

    async def _start(self, container: str) -> None:
        status = await self._view.status(container)
        if status.state == pb.CONTAINER_CREATED:
            try:
                request = pb.StartContainerRequest(container_id=container)
                await self._runtime.start_container(request, timeout=_WORK_SECONDS)
                return
            except Error:
                # Its own words are in the status; and an earlier call may have started it meanwhile.
                status = await self._view.status(container)
                if status.state == pb.CONTAINER_CREATED:
                    raise
        if is_cut_off(status):
            raise UnavailableError(
                f"the start of container {status.metadata.name} was cut off: {status.message}"
            )
        if status.reason == START_ERROR:
            raise InvalidError(f"cannot start container {status.metadata.name}: {status.message}")

    async def stop(self, container: str, grace: float) -> None:
        """In whole seconds; one that is gone already is fine."""
        request = pb.StopContainerRequest(container_id=container, timeout=math.ceil(grace))
        await self._runtime.stop_container(request, timeout=grace + _WORK_SECONDS)
        self._changes.note()

    async def remove(self, container: str) -> None:
        """One that is gone already is fine."""
        request = pb.RemoveContainerRequest(container_id=container)
        await self._patiently(lambda: self._runtime.remove_container(request, timeout=_WORK_SECONDS))
        self._changes.note()

    async def stop_sandbox(self, sandbox: str) -> None:
        """It stays stopped: a new one has the next attempt."""
        request = pb.StopPodSandboxRequest(pod_sandbox_id=sandbox)
        await self._runtime.stop_pod_sandbox(request, timeout=_WORK_SECONDS)
        self._changes.note()

    async def remove_sandbox(self, sandbox: str) -> None:
        """One that is gone already is fine."""
        await self.stop_sandbox(sandbox)
        request = pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox)
        await self._patiently(lambda: self._runtime.remove_pod_sandbox(request, timeout=_WORK_SECONDS))
        self._changes.note()

    async def sandboxes(self) -> tuple[Sandbox, ...]:
        """Of this kubelet, also those of its life before a restart."""
        return await self._view.sandboxes()

    async def containers(self) -> tuple[Container, ...]:
        """Of this kubelet, also those of its life before a restart."""
        return await self._view.containers()

    async def wait_changed(self) -> None:
        """Also after our own calls."""
        await self._changes.wait()

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Again while a call of a kubelet that was killed is under way for the same thing."""
        end = self._clock.monotonic() + _BUSY_SECONDS
        while True:
            try:
                return await call()
            except Error as error:
                if not is_busy(error):
                    raise
                if self._clock.monotonic() > end:
                    raise UnavailableError(str(error)) from error
            await self._clock.sleep(_BUSY_PAUSE)


def _check_user(config: ContainerConfig, image: pb.Image) -> None:
    own = config.security.user
    uid, name = (own, "") if own is not None else image_user(image)
    check_non_root(config, uid, name)


def _may_run(one: pb.Container) -> bool:
    return one.state in (pb.CONTAINER_RUNNING, pb.CONTAINER_UNKNOWN)


def _away(error: Error) -> Error:
    return prefixed(
        "the container runtime does not answer: start containerd, or give its socket with --cri-socket", error
    )
