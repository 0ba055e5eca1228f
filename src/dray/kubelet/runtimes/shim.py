"""The keeper of one container: `main(DIRECTORY)` in a process of its own. It runs it, and stays when the kubelet goes.

With little of the standard library, because one runs beside every container, and of Dray only `shim_log.py` and
`runtime/files/durable.py`, which need no more. It reads `launch.json` in the container's directory and leaves there,
each file whole or not at all:

    keeper.json    who keeps it: made once, by the keeper that won, so that nothing is ever started twice
    running.json   who runs: on disk before the container's first instruction
    exit.json      how it ended: on disk after the last process of the container is gone

Its stdout is closed when the start is decided. SIGUSR1 ends the container by force. The kubelet imports `identity`.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import select
import signal
import time

from dray.kubelet.runtimes.shim_log import Log, Stream, timestamp
from dray.runtime.files.durable import create_file, replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` alone would cost half a megabyte
    from typing import Any

    Json = dict[str, Any]

_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
_PR_SET_CHILD_SUBREAPER = 36
_WRITE_TRIES = 60
_DRAIN_SECONDS = 2.0


def boot_id() -> str:
    """Another one after every boot of the machine."""
    with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123
        return file.read().strip()


def start_time(pid: int) -> int | None:
    """When the process started, in ticks since boot; None when it is gone, or only waits to be reaped."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def identity(pid: int) -> Json:
    """What tells this process from all others that had or will have its number."""
    return {"pid": pid, "start": start_time(pid) or 0, "boot": boot_id()}


class Files:
    """The container's directory, held open: it may be renamed meanwhile."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def read(self, name: str) -> bytes:
        """The whole file."""
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.fd), "rb") as file:
            return file.read()

    def write(self, name: str, record: Json) -> None:
        """Replace it, durably. Without space on the disk it is tried for a minute."""
        for left in reversed(range(_WRITE_TRIES)):
            try:
                replace_file(self.fd, name, json.dumps(record).encode(), mode=0o600)
                return
            except OSError:
                if not left:
                    raise
                time.sleep(1.0)

    def claim(self, name: str, record: Json) -> bool:
        """Make it, durably; False when there was one already."""
        try:
            create_file(self.fd, name, json.dumps(record).encode(), mode=0o600)
        except FileExistsError:
            return False
        return True


class StartError(Exception):
    """The text is for the container's status."""


def _children() -> list[int]:
    pid = os.getpid()
    with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123
        return [int(child) for child in file.read().split()]


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _run(argv: list[str], stdout: int, stderr: int) -> int:
    """Run a program to its end; its exit code."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    targets = ((null, 0), (stdout, 1), (stderr, 2))
    actions = [(os.POSIX_SPAWN_DUP2, fd if fd >= 0 else null, target) for fd, target in targets]
    try:
        pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=actions, setsigdef=[signal.SIGPIPE])
    except OSError as error:
        raise StartError(f"cannot run {argv[0]}: {error.strerror}") from error
    finally:
        os.close(null)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Plain:
    """A container that is a plain child process, in a session of its own."""

    def __init__(self, launch: Json, streams: list[Stream]) -> None:
        self._launch, self._streams = launch, streams
        self._gate = os.pipe()
        self._failure = os.pipe()

    def create(self) -> int:
        """The process, which waits at the gate: if we die before `start`, it ends without having run anything."""
        pid = os.fork()
        if pid == 0:
            try:
                self._become()
            finally:
                os._exit(127)
        os.close(self._gate[0])
        os.close(self._failure[1])
        return pid

    def start(self) -> None:
        """Open the gate."""
        os.write(self._gate[1], b"1")
        os.close(self._gate[1])
        with os.fdopen(self._failure[0], "rb") as failure:
            if text := failure.read():
                raise StartError(text.decode("utf-8", "replace"))

    def _become(self) -> None:
        os.setsid()
        os.close(self._gate[1])
        if not os.read(self._gate[0], 1):
            return
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for fd, stream in enumerate(self._streams, 1):
            os.dup2(stream.write_fd, fd)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        argv, cwd = self._launch["argv"], self._launch["cwd"]
        try:
            os.chdir(cwd)
            os.execvpe(argv[0], argv, self._launch["env"])  # noqa: S606
        except (OSError, ValueError) as error:
            what = (
                f"working directory {cwd}" if getattr(error, "filename", "") == cwd else f"command {argv[0]}"
            )
            os.write(self._failure[1], f"{what}: {getattr(error, 'strerror', '') or error}".encode())

    def kill(self, pid: int) -> None:
        """End all of it by force; `pid` is not reaped yet."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        _kill(_children())

    def clean(self) -> bool:
        """Wait for all that it left behind: as their subreaper we are their parent in the end."""
        while True:
            _kill(_children())
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return False


class Runc:
    """A container of runc."""

    def __init__(self, launch: Json, streams: list[Stream], files: Files) -> None:
        self._id, self._streams, self._files = launch["id"], streams, files
        self._bundle = launch["bundle"]
        log = ["--log", f"{self._bundle}/runc.log", "--log-format", "json"]
        self._runc = [launch["runc"], "--root", launch["runc_root"], *log]
        self._memory = ""

    def create(self) -> int:
        """Its first process, which runs runc's own code until `start`."""
        argv = ["create", "--bundle", self._bundle, "--pid-file", f"{self._bundle}/pid", self._id]
        self._do(argv, self._streams[0].write_fd, self._streams[1].write_fd)
        pid = int(self._files.read("bundle/pid"))
        self._memory = _memory_events(pid)
        return pid

    def start(self) -> None:
        """Let it run the container's program."""
        self._do(["start", self._id], -1, -1)

    def _do(self, argv: list[str], stdout: int, stderr: int) -> None:
        if _run([*self._runc, *argv], stdout, stderr) != 0:
            raise StartError(self._complaint() or f"runc {argv[0]} failed and did not say why")

    def _complaint(self) -> str:
        records = []
        with contextlib.suppress(OSError, ValueError):
            records = [json.loads(line) for line in self._files.read("bundle/runc.log").splitlines()]
        return next((str(each["msg"]) for each in reversed(records) if each["level"] != "warning"), "")

    def kill(self, pid: int) -> None:
        """The kernel ends all others of its pid namespace too; `clean` those that have none."""
        os.kill(pid, signal.SIGKILL)

    def clean(self) -> bool:
        """End also what is left in its cgroup. True: the kernel had to end a process of it for lack of memory."""
        text = ""
        with contextlib.suppress(OSError), open(self._memory) as file:  # noqa: PTH123
            text = file.read()
        with contextlib.suppress(StartError):
            _run([*self._runc, "delete", "--force", self._id], -1, -1)
        return any(line.startswith("oom_kill ") and line != "oom_kill 0" for line in text.splitlines())


def _memory_events(pid: int) -> str:
    """The file that counts the processes killed for lack of memory, in cgroup v1 or v2."""
    with open(f"/proc/{pid}/cgroup") as file:  # noqa: PTH123
        lines = [line.strip().split(":", 2) for line in file]
    for number, controllers, path in lines:
        if "memory" in controllers.split(","):
            return f"/sys/fs/cgroup/memory{path}/memory.oom_control"
        if number == "0" and len(lines) == 1:
            return f"/sys/fs/cgroup{path}/memory.events"
    return ""


class Keeper:
    """The life of one container. Made before the claim, so that no signal of the kubelet can end it."""

    def __init__(self, files: Files, undecided: list[int]) -> None:
        self._files, self._undecided = files, undecided
        self._streams: list[Stream] = []
        self._wake, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGUSR1, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)

    def run(self, launch: Json) -> None:
        """From the start to the record of its end."""
        box: Plain | Runc | None = None
        pid = 0
        try:
            limits = (launch.get("log_size", 0), launch.get("log_files", 2))
            log = Log(launch["log"], *limits, launch.get("log_root", ""))
            self._streams = [Stream(b"stdout", log), Stream(b"stderr", log)]
            is_runc = launch["kind"] == "runc"
            box = Runc(launch, self._streams, self._files) if is_runc else Plain(launch, self._streams)
            pid = box.create()
            self._files.write("running.json", {**identity(pid), "at": timestamp()})
            box.start()
        except (StartError, OSError, ValueError) as error:
            if box and pid:
                box.kill(pid)
            self._end(box, 128, str(error))
            return
        self._decide()
        self._end(box, self._watch(box, pid), "")

    def _watch(self, box: Plain | Runc, pid: int) -> int:
        """Move its output to the log until it ends; its exit code."""
        poll = select.poll()
        by_fd = {stream.read_fd: stream for stream in self._streams}
        for stream in self._streams:
            os.close(stream.write_fd)
        for fd in (self._wake, *by_fd):
            poll.register(fd, select.POLLIN)
        while (code := self._reap(box, pid)) is None:
            for fd, _ in poll.poll():
                if fd == self._wake:
                    if signal.SIGUSR1 in os.read(self._wake, 4096):
                        box.kill(pid)
                elif not by_fd[fd].take():
                    poll.unregister(fd)
        return code

    def _reap(self, box: Plain | Runc, pid: int) -> int | None:
        """The container's exit code, once it has one. Its first process stays unreaped until the others are killed."""
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            if ended.si_pid == pid:
                box.kill(pid)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                return code if code >= 0 else 128 - code
            os.waitpid(ended.si_pid, 0)
        return None

    def _end(self, box: Plain | Runc | None, code: int, start_error: str) -> None:
        finished = timestamp()
        is_out_of_memory = box is not None and box.clean()
        self._drain()
        reason = "OOMKilled" if is_out_of_memory else "Error" if code else "Completed"
        how = {"reason": "StartError" if start_error else reason, "message": start_error[:4096]}
        self._files.write("exit.json", {"code": code, **how, "at": finished})
        self._decide()

    def _decide(self) -> None:
        while self._undecided:
            os.close(self._undecided.pop())

    def _drain(self) -> None:
        """What is left in the pipes. Nobody of the container can write any more, so this ends."""
        end = time.monotonic() + _DRAIN_SECONDS
        for stream in self._streams:
            while select.select([stream.read_fd], [], [], 0)[0] and time.monotonic() < end and stream.take():
                pass


def main(directory: str) -> None:
    """Leave the caller's session and keep the container of this directory, unless another one does."""
    files = Files(directory)
    launch = json.loads(files.read("launch.json"))
    if os.fork():
        return
    os.setsid()
    os.chdir("/")
    undecided = [os.dup(1), os.open("starting", _APPEND, 0o600, dir_fd=files.fd)]
    for fd in (0, 1):
        os.dup2(os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC), fd)
    os.dup2(os.open("keeper.log", _APPEND, 0o600, dir_fd=files.fd), 2)
    keeper = Keeper(files, undecided)
    fcntl.flock(undecided[1], fcntl.LOCK_EX)  # a second keeper waits here until the first has decided
    if files.claim("keeper.json", identity(os.getpid())):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        keeper.run(launch)
