"""Containers as plain child processes, for a machine without runc or without root. NO ISOLATION of any kind.

The command runs as the kubelet's own user, in the host's file system and network. Environment (that of CDI devices too) and
command are applied; what is not is named in a warning for every container.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence, Set
from pathlib import Path

from dray.cdi.inject import combine
from dray.cdi.registry import DIRECTORIES, read_registry
from dray.errors import Error, InvalidError
from dray.kubelet.runtimes.contract import ContainerConfig, LogLimits, Security
from dray.kubelet.runtimes.kept import KeptRuntime
from dray.kubelet.runtimes.liveness import Identity, find_marked, send, wait_ended
from dray.kubelet.runtimes.records import SandboxRecord
from dray.kubelet.runtimes.users import check_non_root
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.logs import get_log

_log = get_log("kubelet.runtimes.process")

NAME = "process-without-isolation"
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MARK = "DRAY_CONTAINER"
_KILL_SECONDS = 10.0


class ProcessRuntime(KeptRuntime):
    """The runtime. `root` holds its state; a child's working directory is below it, unless the pod names one."""

    def __init__(
        self,
        root: Path,
        clock: Clock | None = None,
        logs: LogLimits | None = None,
        cdi_directories: Sequence[Path] = DIRECTORIES,
    ) -> None:
        engine = ProcessEngine(root, cdi_directories)
        super().__init__(root, engine, clock or SystemClock(), logs or LogLimits())


class ProcessEngine:
    """Implements `engine.Engine`."""

    def __init__(self, root: Path, cdi_directories: Sequence[Path] = DIRECTORIES) -> None:
        self._root = root
        self._cdi_directories = cdi_directories

    @property
    def name(self) -> str:
        """Says in every container id what this is."""
        return NAME

    @property
    def has_mounts(self) -> bool:
        """They see all of the host."""
        return False

    async def check_ready(self) -> None:
        """Processes can always be run."""

    async def ensure_image(self, image: str) -> None:
        """Any image is taken and none is used: the command runs on the host's own files."""

    async def raise_sandbox(self, record: SandboxRecord, directory: Path) -> None:
        """There is nothing to share."""

    def is_sandbox_up(self, record: SandboxRecord, directory: Path) -> bool:
        """A record is all it is."""
        return True

    async def drop_sandbox(self, directory: Path) -> None:
        """There is nothing to take back."""

    async def describe(
        self, item: str, config: ContainerConfig, sandbox: SandboxRecord, staged: Path, final: Path
    ) -> dict[str, object]:
        """InvalidError without a command: the one of the image is not known here."""
        argv = [*config.command, *config.args]
        if not config.command:
            raise InvalidError(
                f"container {config.name} needs a command: the process runtime does not read images",
                field="command",
            )
        check_non_root(config, os.geteuid())
        if missing := not_applied(config):
            _log.warning(
                "runs without isolation, as a plain process of the host",
                pod=config.pod.name,
                container=config.name,
                not_applied=", ".join(missing),
            )
        (staged / "work").mkdir(mode=0o700)
        env = {
            "PATH": DEFAULT_PATH,
            "HOSTNAME": sandbox.hostname,
            **dict(config.env),
            **self._cdi_env(config.cdi_devices),
            _MARK: self._mark(item),
        }
        return {"kind": "process", "argv": argv, "env": env, "cwd": config.working_dir or str(final / "work")}

    def _cdi_env(self, names: Sequence[str]) -> dict[str, str]:
        """What CDI devices add to the environment; it wins over the pod's, as in an OCI spec. Where a name leads nowhere, they
        add nothing, and the container runs all the same: here it would get nothing else of them either."""
        if not names:
            return {}
        try:
            edits = combine(read_registry(self._cdi_directories).resolve(names))
        except Error as error:
            _log.warning("CDI devices are not applied", error=str(error))
            return {}
        return dict(one.partition("=")[::2] for one in edits.env)

    async def make_ready(self, item: str, directory: Path) -> None:
        """Nothing is mounted."""

    async def drop_unstarted(self, item: str) -> None:
        """Without its keeper such a process ends by itself."""

    async def kill(self, item: str, process: Identity | None) -> None:
        """Found by a mark in their environment: no process group or number of a stranger can be hit."""
        mark = f"{_MARK}={self._mark(item)}"
        found = list(find_marked(mark))
        while found:
            for each in found:
                send(each, signal.SIGKILL)
            for each in found:
                await wait_ended(each, _KILL_SECONDS)
            before, found = found, list(find_marked(mark))
            if found == before:
                return

    def _mark(self, item: str) -> str:
        """Two kubelets on one machine may have a pod of the same id, so the root is in it."""
        return str(self._root / item)

    async def clean(self, item: str, directory: Path) -> None:
        """The directory is all there is."""

    async def sweep(self, root: Path, items: Set[str]) -> None:
        """A crash leaves nothing outside of the directory."""


def not_applied(config: ContainerConfig) -> list[str]:
    """What the container asks for and does not get here, in the pod's words."""
    asked = {
        f"image {config.image}": bool(config.image),
        f"mounts ({', '.join(mount.container_path for mount in config.mounts)})": bool(config.mounts),
        f"devices ({', '.join(node.container_path for node in config.device_nodes)})": bool(
            config.device_nodes
        ),
        f"CDI devices but for their environment ({', '.join(config.cdi_devices)})": bool(config.cdi_devices),
        "securityContext": config.security != Security(),
        "resource limits": bool(config.cpu_shares or config.cpu_quota or config.memory_limit),
    }
    return [what for what, is_asked in asked.items() if is_asked]
