"""Where `dray up` keeps what it has, and whether one runs there. Imports little: every verb asks first whether one runs."""

from __future__ import annotations

import contextlib
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from dray.errors import InvalidError
from dray.kubelet.runtimes.shim import boot_id, start_time
from dray.runtime.files.durable import write_durably
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.files.private import make_private

SOCKET_BYTES: Final = 107
_LONGEST_SOCKET: Final = "kubelet/plugins_registry/iommufd.dray.internal-reg.sock"
"""The longest of those that we choose the names of."""
DATA_DIR_BYTES: Final = SOCKET_BYTES - len(f"/{_LONGEST_SOCKET}")
ROOTS_DATA_DIR: Final = Path("/var/lib/dray/up")


class RunningUp(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The content of up.json: written when everything is ready, removed at a clean end.

    `start_time` and `boot` tell the process from others that get its number; `since` is for people. `dashboard` is its
    address without the token, empty where there is none. `metrics`: where each part tells its health, by name.
    `supervisor`: who starts it again: `dray`, `systemd`, or nobody. For people, as it was at the start: `devices`, what the
    machine has; `containers`, why `runtime` runs them; `unready`, what was not offered yet.
    """

    pid: int
    start_time: int
    version: str
    server: str
    kubeconfig: str
    dashboard: str = ""
    node: str = ""
    runtime: str = ""
    sim: str = ""
    boot: str = ""
    since: str = ""
    data_dir: str = ""
    supervisor: str = ""
    metrics: dict[str, str] = {}
    devices: str = ""
    containers: str = ""
    unready: str = ""

    @property
    def is_alive(self) -> bool:
        """Whether the process that wrote it runs."""
        return is_alive(self.pid, self.start_time, self.boot)


class Supervising(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The content of supervisor.json. `restarts` counts how often `dray up` died and was started again; `last` says how."""

    pid: int
    start_time: int
    boot: str
    child: int = 0
    restarts: int = 0
    last: str = ""

    @property
    def is_alive(self) -> bool:
        """Whether the supervisor that wrote it runs."""
        return is_alive(self.pid, self.start_time, self.boot)


class Kept(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The content of kept.json: the node's name, because pods are bound to it, what runs their containers, and the
    dashboard's port, because browsers are at it."""

    node: str
    runtime: str
    dashboard: int = 0


T = TypeVar("T", RunningUp, Supervising)


@dataclass(frozen=True, slots=True)
class UpPlace:
    """The paths below a data directory."""

    data_dir: Path

    @property
    def apiserver(self) -> Path:
        """Objects, certificates, tokens."""
        return self.data_dir / "apiserver"

    @property
    def kubeconfig(self) -> Path:
        """For the admin of this machine."""
        return self.apiserver / "admin.kubeconfig"

    @property
    def kubelet(self) -> Path:
        """The kubelet's root."""
        return self.data_dir / "kubelet"

    @property
    def device_plugins(self) -> Path:
        """Where device plugins register."""
        return self.kubelet / "device-plugins"

    @property
    def kubelet_state(self) -> Path:
        """What the kubelet must know after a restart; the containers are below it."""
        return self.kubelet / "state"

    @property
    def pod_logs(self) -> Path:
        """What containers wrote."""
        return self.kubelet / "pods-logs"

    @property
    def agent(self) -> Path:
        """The agent's state."""
        return self.data_dir / "agent"

    @property
    def scheduler(self) -> Path:
        """The scheduler's state: what it leaves alone."""
        return self.data_dir / "scheduler"

    @property
    def controllers(self) -> Path:
        """The controllers' state: what they leave alone."""
        return self.data_dir / "controllers"

    @property
    def dashboard(self) -> Path:
        """The dashboard's state: what it leaves alone."""
        return self.data_dir / "dashboard"

    @property
    def agent_config(self) -> Path:
        """The configuration that was made for this machine; not read where the user gives one."""
        return self.agent / "config.yaml"

    @property
    def cdi(self) -> Path:
        """CDI files."""
        return self.data_dir / "cdi"

    @property
    def lock(self) -> Path:
        """Held by the `dray up` that uses the directory."""
        return self.data_dir / "up.lock"

    @property
    def running_file(self) -> Path:
        """What `find_running` reads."""
        return self.data_dir / "up.json"

    @property
    def supervisor_file(self) -> Path:
        """Who supervises, with --detach."""
        return self.data_dir / "supervisor.json"

    @property
    def supervisor_lock(self) -> Path:
        """Held by the supervisor."""
        return self.data_dir / "supervisor.lock"

    @property
    def log(self) -> Path:
        """What it says with --detach; older ones end in .1 to .3."""
        return self.data_dir / "dray.log"

    @property
    def kept_file(self) -> Path:
        """What stays as it was at the first start."""
        return self.data_dir / "kept.json"

    @property
    def dashboard_token(self) -> Path:
        """Who has it may use the dashboard."""
        return self.data_dir / "dashboard.token"

    def make(self) -> None:
        """The directory, for its user alone. InvalidError where sockets below it would have names that are too long."""
        size = len(os.fsencode(self.data_dir))
        if size > DATA_DIR_BYTES:
            raise InvalidError(
                f"--data-dir: {str(self.data_dir)!r} has {size} bytes, and a directory for sockets may have "
                f"{DATA_DIR_BYTES} (a socket's path ends at {SOCKET_BYTES}): choose a shorter one",
                field="--data-dir",
            )
        ours = (self.lock.name, self.kept_file.name, self.apiserver.name)
        make_private(self.data_dir, ours=ours, flag="--data-dir")

    def write(self, record: RunningUp | Supervising | Kept) -> None:
        """Replace up.json, supervisor.json or kept.json."""
        path = self._file(type(record))
        try:
            write_durably(path, msgspec.json.encode(record) + b"\n")
        except OSError as error:
            raise from_os_error(error, "write", str(path)) from error

    def remove(self, kind: type[RunningUp | Supervising]) -> None:
        """At a clean end. A file that cannot be removed is stale: nobody believes it."""
        with contextlib.suppress(OSError):
            self._file(kind).unlink()

    def read(self, kind: type[T]) -> T | None:
        """The record, where its process runs; a stale, unreadable or half-known one counts as none."""
        try:
            found = msgspec.json.decode(self._file(kind).read_bytes(), type=kind)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return found if found.is_alive else None

    def read_kept(self) -> Kept | None:
        """None before the first start, and where the file is damaged: then things are chosen anew."""
        try:
            return msgspec.json.decode(self.kept_file.read_bytes(), type=Kept)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None

    def _file(self, kind: type[RunningUp | Supervising | Kept]) -> Path:
        if kind is Kept:
            return self.kept_file
        return self.running_file if kind is RunningUp else self.supervisor_file


def is_alive(pid: int, start: int, boot: str) -> bool:
    """Whether the process runs that had this number and started at this tick of this boot. `boot` empty: not asked."""
    return pid > 0 and start_time(pid) == start and boot in ("", boot_id())


def lock_holder(path: Path) -> int | None:
    """The process that holds the lock, 0 where it does not tell its number; None where nobody does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(descriptor)
    return None


def default_data_dir() -> Path:
    """Root's, or the user's own ($XDG_STATE_HOME/dray, else ~/.local/state/dray)."""
    if os.geteuid() == 0:
        return ROOTS_DATA_DIR
    state = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (state if state.is_absolute() else Path.home() / ".local" / "state") / "dray"


def find_running(data_dir: Path | None = None) -> RunningUp | None:
    """The `dray up` of this directory (default: of `default_data_dir`), once it is ready; None where there is none."""
    return UpPlace(data_dir or default_data_dir()).read(RunningUp)
