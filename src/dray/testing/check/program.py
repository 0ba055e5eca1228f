"""Start a plugin or driver privately: in directories of its own, and as root with those in place of the kubelet's."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from dray.errors import InvalidError
from dray.runtime.clock import Clock
from dray.testing.kubernetes import leftovers

NODE_NAME = "dray-check"
_KUBELET = Path("/var/lib/kubelet")
_CDI = Path("/var/run/cdi")
_KILL_SECONDS = 5.0
_POLL_SECONDS = 0.02
_TICK_NANOSECONDS = 10**9 // os.sysconf("SC_CLK_TCK")
# In the new mount namespace: ours in place of the kubelet's, then the program itself under the same process id.
_ENTER = 'mount --bind "$1" "$2" && mount --bind "$3" "$4" && shift 4 && exec "$@"'


@dataclass(frozen=True, slots=True)
class Room:
    """The directories one check works in. `is_isolated`: the program sees them under the kubelet's own names too."""

    root: Path
    is_isolated: bool

    @property
    def kubelet(self) -> Path:
        """The kubelet's root directory."""
        return self.root / "kubelet"

    @property
    def device_plugins(self) -> Path:
        """Where kubelet.sock is."""
        return self.kubelet / "device-plugins"

    @property
    def registry(self) -> Path:
        """Where drivers put their registration sockets."""
        return self.kubelet / "plugins_registry"

    @property
    def plugins(self) -> Path:
        """Where drivers keep their own directories."""
        return self.kubelet / "plugins"

    @property
    def cdi(self) -> Path:
        """Where CDI files are written."""
        return self.root / "cdi"

    @property
    def log(self) -> Path:
        """What the program says."""
        return self.root / "program.log"

    def words(self, kubeconfig: Path | None) -> dict[str, str]:
        """What stands for what in a command: `{kubelet-dir}` and its like."""
        return {
            "{kubelet-dir}": str(self.kubelet),
            "{device-plugin-dir}": str(self.device_plugins),
            "{registry-dir}": str(self.registry),
            "{plugins-dir}": str(self.plugins),
            "{cdi-dir}": str(self.cdi),
            "{work-dir}": str(self.root),
            "{node-name}": NODE_NAME,
            "{kubeconfig}": str(kubeconfig or ""),
        }

    def outside(self, path: str) -> Path:
        """A path that an isolated program names, as it is seen from outside."""
        found = Path(path)
        for theirs, ours in ((_KUBELET, self.kubelet), (_CDI, self.cdi), (Path("/run/cdi"), self.cdi)):
            if self.is_isolated and found.is_relative_to(theirs):
                return ours / found.relative_to(theirs)
        return found

    def sockets(self) -> list[Path]:
        """All sockets below the kubelet's directory but the kubelet's own."""
        found = (path for path in self.kubelet.rglob("*") if path.name != "kubelet.sock")
        return sorted(path for path in found if is_socket(path))


@contextmanager
def private_room() -> Iterator[Room]:
    """Make the directories, and remove them with all that the program left there."""
    isolated = _can_isolate()
    # Short, because a socket's whole path has 107 bytes.
    root = Path(tempfile.mkdtemp(prefix="dray-check-"))
    room = Room(root, isolated)
    try:
        for path in (room.device_plugins, room.registry, room.plugins, room.cdi):
            path.mkdir(parents=True)
        with _mount_points() if isolated else nullcontext():
            yield room
    finally:
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def _mount_points() -> Iterator[None]:
    """Directories to mount over. Those that were made for it go with the last check or test cluster that is running.

    Not before: to remove one would take the mounts of the others with it.
    """
    with leftovers.CHECKS.open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        with leftovers.host_dirs_lock():
            for path in (_KUBELET, _CDI):
                if not path.exists():
                    path.mkdir(parents=True, exist_ok=True)
                    lock.write(f"{path}\n")
            lock.flush()
        try:
            yield
        finally:
            with leftovers.host_dirs_lock(), suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                lock.seek(0)
                for path in [Path(text) for text in lock.read().splitlines()]:
                    if not leftovers.pass_on_host_dir(path):
                        with suppress(OSError):
                            path.rmdir()
                lock.truncate(0)


def _can_isolate() -> bool:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0


def is_socket(path: Path) -> bool:
    """Whether a socket is there now."""
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False


class Program:
    """One command, started any number of times, one process at a time."""

    def __init__(self, argv: Sequence[str], room: Room, environ: Mapping[str, str], clock: Clock) -> None:
        self._argv = list(argv)
        self._room = room
        self._environ = dict(environ)
        self._clock = clock
        self._process: asyncio.subprocess.Process | None = None
        self._work: _Work | None = None

    @property
    def is_running(self) -> bool:
        """It was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start it; the one before must have ended."""
        prefix: list[str] = []
        if self._room.is_isolated:
            mounts = [str(self._room.kubelet), str(_KUBELET), str(self._room.cdi), str(_CDI)]
            prefix = ["unshare", "--mount", "sh", "-c", _ENTER, "dray-check", *mounts]
        with self._room.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *prefix,
                *self._argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **self._environ},
                start_new_session=True,
            )
        self._work = _Work(self._process.pid)

    def death(self) -> str:
        """How it ended, with the last line it said; nothing while it runs or before it was started."""
        if self._process is None or self._process.returncode is None:
            return ""
        code = self._process.returncode
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"the process ended with {how}{self.last_words()}"

    def last_words(self) -> str:
        """The last line of its log."""
        with suppress(OSError):
            lines = self._room.log.read_text(errors="replace").strip().splitlines()
            return f"; its last line: {lines[-1][:200]}" if lines else ""
        return ""

    async def terminate(self, seconds: float) -> float | None:
        """SIGTERM; how long it took to end, None where it did not in time."""
        process = self._process
        if process is None or process.returncode is not None:
            return None
        started = self._clock.monotonic()
        process.send_signal(signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), seconds)
            return self._clock.monotonic() - started
        return None

    async def kill(self) -> None:
        """End it and all it started, whatever they do. Safe to call twice."""
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _KILL_SECONDS)

    def busy_seconds(self) -> float:
        """How long it and its children ran or waited for a core so far, those that have ended too. Never falls."""
        return self._work.read() if self._work else 0.0


class _Work:
    """The work of one session of processes.

    Of each thread that was seen it keeps the time it ran and the time it waited for a core: with both, the sum is the
    same on a loaded machine. A thread or child that came and went between two readings was not seen; the time it ran is
    in the totals of its process or of the parent that reaped it.
    """

    def __init__(self, session: int) -> None:
        self._session = session
        self._threads: dict[tuple[str, str, str], tuple[int, int]] = {}
        self._unseen = 0

    def read(self) -> float:
        """The seconds so far."""
        totals = sum(self._see(entry) for entry in Path("/proc").glob("[0-9]*"))
        ran = sum(ran for ran, _ in self._threads.values())
        self._unseen = max(self._unseen, totals - ran)
        return (ran + sum(waited for _, waited in self._threads.values()) + self._unseen) / 1e9

    def _see(self, process: Path) -> int:
        """Keep what the threads of a process of this session did; the nanoseconds it and its ended children ran."""
        try:
            stat = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            return 0
        if int(stat[3]) != self._session:
            return 0
        with suppress(OSError):
            for thread in (process / "task").iterdir():
                ran, waited = (thread / "schedstat").read_text().split()[:2]
                self._threads[process.name, stat[19], thread.name] = int(ran), int(waited)
        return sum(map(int, stat[11:15])) * _TICK_NANOSECONDS


def fill_in(command: Sequence[str], words: Mapping[str, str]) -> list[str]:
    """The command with `{kubelet-dir}` and its like replaced; other braces stay. InvalidError where there is no such program."""
    if not command:
        raise InvalidError("there is no COMMAND after --: name the program to start", field="COMMAND")
    filled = list(command)
    for word, value in words.items():
        filled = [text.replace(word, value) for text in filled]
    if shutil.which(filled[0]) is None:
        raise InvalidError(f"there is no program {filled[0]!r}: check the COMMAND after --", field="COMMAND")
    return filled


async def wait_until(condition: Callable[[], bool], seconds: float, clock: Clock) -> bool:
    """Whether the condition came true in time."""
    end = clock.monotonic() + seconds
    while not condition():
        if clock.monotonic() >= end:
            return False
        await clock.sleep(_POLL_SECONDS)
    return True
