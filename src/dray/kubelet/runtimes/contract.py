"""What the kubelet asks of a container runtime. runc, CRI and plain processes answer it alike.

Containers outlive the kubelet: after its restart `sandboxes` and `containers` tell all that it made before, also those
that ended meanwhile, with their exit codes. Ids are the runtime's own and mean nothing elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from dray.cdi.edits import DeviceNode, Mount


class State(StrEnum):
    """Of a container."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"
    """It ran, and nobody knows how it ended: the machine went down, or its keeper was killed."""


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """Who a sandbox or container belongs to."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """What the containers of one pod share. `attempt` counts sandboxes of the same pod from 0."""

    pod: PodIdentity
    hostname: str
    log_directory: Path
    attempt: int = 0
    host_network: bool = False
    host_pid: bool = False
    privileged: bool = False
    """Whether one of its containers is."""
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()


UNCONFINED, RUNTIME_DEFAULT, LOCALHOST = "Unconfined", "RuntimeDefault", "Localhost"


@dataclass(frozen=True, slots=True)
class Profile:
    """Of seccomp or AppArmor, in the pod's words. `name`: of LOCALHOST, a file below the node's own, or a loaded profile."""

    type: str = UNCONFINED
    name: str = ""


@dataclass(frozen=True, slots=True)
class Security:
    """What a container may do. None: as the image, or the runtime, has it."""

    privileged: bool = False
    user: int | None = None
    non_root: bool = False
    """It is not started where it would run as user 0."""
    group: int | None = None
    supplemental_groups: tuple[int, ...] = ()
    strict_groups: bool = False
    """Only these groups: none that the image's files add."""
    read_only_root: bool = False
    add_capabilities: tuple[str, ...] = ()
    drop_capabilities: tuple[str, ...] = ()
    no_new_privileges: bool = False
    seccomp: Profile = Profile()
    apparmor: Profile | None = None


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """One start of a container: a restart is a new one with the next `attempt`. Order is kept as given."""

    pod: PodIdentity
    name: str
    image: str
    log_path: Path
    attempt: int = 0
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    env: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    cdi_devices: tuple[str, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    security: Security = Security()
    cpu_shares: int = 0
    cpu_quota: int = 0
    memory_limit: int = 0


@dataclass(frozen=True, slots=True)
class LogLimits:
    """Of each container's log: a file of `size` bytes is put aside, and `files` are kept, the newest included.

    `root` is the directory of all logs (`--log-dir`): symbolic links in its own path are followed, links below it are not.
    None: the path of each log's directory is trusted.
    """

    size: int = 10 * 1024 * 1024
    files: int = 5
    root: Path | None = None


@dataclass(frozen=True, slots=True)
class Sandbox:
    """One that exists."""

    id: str
    pod: PodIdentity
    attempt: int
    is_ready: bool
    address: str = ""


@dataclass(frozen=True, slots=True)
class Container:
    """One that exists, running or not. `reason` is the runtime's word, such as OOMKilled or StartError.

    `sandbox` is the one that it was made in. One that is not ready any more, after a reboot for example, never is again.
    """

    id: str
    pod: PodIdentity
    name: str
    attempt: int
    state: State
    sandbox: str = ""
    image: str = ""
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class Runtime(Protocol):
    """All calls may be repeated after an error or a restart; what is done already is not done again."""

    @property
    def name(self) -> str:
        """As in a container's status: the part before `://`."""
        ...

    @property
    def has_mounts(self) -> bool:
        """Whether containers see what is in `ContainerConfig.mounts`, and nothing else of the host."""
        ...

    async def check_ready(self) -> None:
        """UnavailableError where containers cannot be run now, and why."""
        ...

    async def ensure_image(self, image: str, policy: str) -> None:
        """Have the image (`policy` is the pod's imagePullPolicy). NotFoundError names the ways to give one."""
        ...

    async def run_sandbox(self, config: SandboxConfig) -> str:
        """Its id, once its network is up; the same id for the same pod and attempt."""
        ...

    async def create(self, sandbox: str, config: ContainerConfig) -> str:
        """Its id; the same for the same pod, name and attempt. CDI names are resolved here: InvalidError for unknown."""
        ...

    async def start(self, container: str) -> None:
        """Run it. One that runs or ran already is left as it is."""
        ...

    async def stop(self, container: str, grace: float) -> None:
        """Ask it to end, and end it by force after `grace` seconds. Returns when it does not run any more."""
        ...

    async def remove(self, container: str) -> None:
        """Forget it; by force if it runs. Its log stays."""
        ...

    async def stop_sandbox(self, sandbox: str) -> None:
        """End it with all its containers, by force."""
        ...

    async def remove_sandbox(self, sandbox: str) -> None:
        """Forget it, with its containers."""
        ...

    async def sandboxes(self) -> tuple[Sandbox, ...]:
        """All of ours."""
        ...

    async def containers(self) -> tuple[Container, ...]:
        """All of ours."""
        ...

    async def wait_changed(self) -> None:
        """Until some container may have started or ended since the last call. May return for nothing."""
        ...
