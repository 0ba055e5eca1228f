"""Run a function in a forked child under ptrace, one system call at a time; kill it or interfere where we like."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long
_TRACEME, _DETACH, _SYSCALL, _SETOPTIONS, _GET_SYSCALL_INFO = 0, 17, 24, 0x4200, 0x420E
_SYSGOOD_AND_EXITKILL = 0x1 | 0x100000
_SYSCALL_STOP = signal.SIGTRAP | 0x80

NAMES = {
    "x86_64": {
        1: "write",
        74: "fsync",
        82: "rename",
        264: "rename",
        316: "rename",
        257: "open",
        3: "close",
        86: "link",
        265: "link",
    },
    "aarch64": {64: "write", 82: "fsync", 38: "rename", 276: "rename", 56: "open", 57: "close", 37: "link"},
}.get(platform.machine(), {})


class _Info(ctypes.Structure):
    _fields_ = (
        ("op", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("ip", ctypes.c_uint64),
        ("sp", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    )


@dataclass(frozen=True)
class Run:
    """How the child ended, how often it stopped (before and after each call), and the calls with a known name."""

    finished: bool
    stops: int
    calls: list[tuple[str, int]]


def ptrace_works() -> bool:
    """False where the machine does not let a process trace its own child."""
    try:
        return step_through(begin).finished
    except OSError:
        return False


def begin() -> None:
    """The child calls it where the steps shall begin."""
    os.kill(os.getpid(), signal.SIGSTOP)


def step_through(
    action: Callable[[], None],
    *,
    kill_at: int | None = None,
    interfere: Callable[[int], bool] | None = None,
) -> Run:
    """Fork and run `action`, which calls `begin()`, in the child; stop it before and after each system call.

    SIGKILL it at its `kill_at`-th stop, or call `interfere(stop)` at each, until that returns False: then it runs freely.
    """
    pid = os.fork()
    if pid == 0:
        _child(action)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSTOPPED(status):
        raise OSError("the child could not be traced")
    _ptrace(_SETOPTIONS, pid, 0, _SYSGOOD_AND_EXITKILL)
    stops, calls = 0, list[tuple[str, int]]()
    while _next_stop(pid):
        stops += 1
        _note(pid, calls)
        if stops == kill_at:
            os.kill(pid, signal.SIGKILL)
        elif interfere is not None and not interfere(stops):
            _ptrace(_DETACH, pid, 0, 0)
            break
    _, status = os.waitpid(pid, 0)
    return Run(os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0, stops, calls)


def _next_stop(pid: int) -> bool:
    """Go on to the next system call, passing signals on; False when the child ended (and is still to be waited for)."""
    pending = 0
    while True:
        try:
            _ptrace(_SYSCALL, pid, 0, pending)
        except ProcessLookupError:
            return False
        info = os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        if info is None or info.si_code in (os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED):
            return False
        _, status = os.waitpid(pid, 0)
        if os.WSTOPSIG(status) == _SYSCALL_STOP:
            return True
        pending = os.WSTOPSIG(status)


def _child(action: Callable[[], None]) -> None:
    status = 3
    try:
        _ptrace(_TRACEME, 0, 0, 0)
        action()
        status = 0
    finally:
        os._exit(status)


def _note(pid: int, calls: list[tuple[str, int]]) -> None:
    info = _Info()
    if _libc.ptrace(_GET_SYSCALL_INFO, pid, ctypes.sizeof(info), ctypes.addressof(info)) < 0:
        return
    if info.op == 1 and (name := NAMES.get(info.number)):
        calls.append((name, ctypes.c_int(info.arguments[0] & 0xFFFFFFFF).value))


def _ptrace(request: int, pid: int, address: int, data: int) -> None:
    if _libc.ptrace(request, pid, address, data) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def step_through_all(
    prepare: Callable[[Path, str], None],
    work: Callable[[Path, str], None],
    judge: Callable[[Path, str, bool], str],
) -> None:
    """The program of a test: kill `work` at step 1, 2, 3… until it gets through, each time on a prepared disk that is judged then.

    Arguments are the directory, the scenario, and "kill" or "trace" (only list the calls). Prints one JSON object.
    """
    directory, scenario, is_killed = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "kill"
    if not ptrace_works():
        print(json.dumps({"skip": "this machine does not let a process ptrace its child"}))
        return
    kills, faults = 0, list[str]()
    while True:
        prepare(directory, scenario)
        run = step_through(lambda: work(directory, scenario), kill_at=kills + 1 if is_killed else None)
        if fault := judge(directory, scenario, run.finished):
            faults.append(f"step {kills + 1}: {fault}")
        if run.finished or len(faults) > 5:
            break
        kills += 1
    print(json.dumps({"kills": kills, "faults": faults, "calls": run.calls}))
