"""A computation in a copy of this process: for one that may take too long, hang in a C call or need too much memory.

The copy starts with everything that this process knows, so nothing is sent to it, and only its answer comes back. It has
no sockets, no files and no event loop, answers once and ends. A thread could not do this: nobody can stop one, and what it
allocates is ours. Used for the few decisions that did not come to an end in the time they have in the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import resource
import signal
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from dray.errors import UnavailableError
from dray.runtime.logs import get_log

_log = get_log("runtime.forked")

_PR_SET_PDEATHSIG: Final = 1
_NICE: Final = 5
"""Whoever is left with the event loop goes first."""
_OUT_OF_MEMORY, _FAILED = 3, 4
_CHUNK: Final = 1 << 16
_LENGTH: Final = 8
_REAPING: Final = 5.0
_POLL: Final = 0.01

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Limits:
    """`seconds` of real time, and `memory`: so many bytes more than this process has."""

    seconds: float = 10.0
    memory: int = 512 << 20


@dataclass(frozen=True, slots=True)
class Stopped:
    """There is no answer. `why` follows "was stopped": `after 10 s`."""

    why: str


async def run_forked(compute: Callable[[], bytes], limits: Limits) -> bytes | Stopped:
    """What `compute` returns in a copy of this process. When the caller is cancelled, the copy is killed.

    `compute` must not log, wait, or use threads, files or sockets: their locks may be held by a thread that the copy does
    not have. An exception of its own is a bug: it is logged with its traceback by the copy, and told as `Stopped`. Raises
    UnavailableError where the machine has no process or file descriptor left for it.
    """
    try:
        answer, theirs = os.pipe2(os.O_CLOEXEC)
    except OSError as error:
        raise UnavailableError(f"cannot open a pipe: {error.strerror}") from error
    try:
        try:
            pid = _fork(compute, theirs, limits)
        finally:
            os.close(theirs)
        return await _answer_of(pid, answer, limits)
    finally:
        os.close(answer)


async def _answer_of(pid: int, answer: int, limits: Limits) -> bytes | Stopped:
    why = ""
    found = b""
    try:
        async with asyncio.timeout(limits.seconds):
            found = await _read(answer)
    except TimeoutError:
        why = f"after {limits.seconds:g} s"
    finally:
        # Not only on the way out of an error: an answer may be there whole before the copy has ended.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        code = await asyncio.shield(_reap(pid))
    if why:
        return Stopped(why)
    whole = _whole(found)
    return Stopped(_why(code, limits)) if whole is None else whole


async def _read(descriptor: int) -> bytes:
    """All that came until the other end was closed."""
    loop = asyncio.get_running_loop()
    os.set_blocking(descriptor, False)
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    chunks: list[bytes] = []
    try:
        while True:
            await ready.wait()
            ready.clear()
            with contextlib.suppress(BlockingIOError):
                while chunk := os.read(descriptor, _CHUNK):
                    chunks.append(chunk)
                break
    finally:
        loop.remove_reader(descriptor)
    return b"".join(chunks)


def _whole(received: bytes) -> bytes | None:
    """The answer behind its length; None for a part of one: the copy may end in the middle of writing."""
    size, answer = received[:_LENGTH], received[_LENGTH:]
    return answer if len(size) == _LENGTH and int.from_bytes(size, "big") == len(answer) else None


async def _reap(pid: int) -> int:
    """Its exit code; minus the signal where one ended it."""
    loop = asyncio.get_running_loop()
    try:
        handle = os.pidfd_open(pid)
    except OSError:  # no file descriptor is left
        return await _poll(pid)
    ended = asyncio.Event()
    loop.add_reader(handle, ended.set)
    try:
        async with asyncio.timeout(_REAPING):
            await ended.wait()
    except TimeoutError:
        _log.warning("a killed process does not end", pid=pid)
        return -signal.SIGKILL
    finally:
        loop.remove_reader(handle)
        os.close(handle)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])  # noqa: ASYNC222 - it has ended


async def _poll(pid: int) -> int:
    """As `_reap`, without a file descriptor."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_REAPING):
            while True:
                ended, status = os.waitpid(pid, os.WNOHANG)  # noqa: ASYNC222 - it does not wait
                if ended:
                    return os.waitstatus_to_exitcode(status)
                await asyncio.sleep(_POLL)
    return -signal.SIGKILL


def _why(code: int, limits: Limits) -> str:
    if code == _OUT_OF_MEMORY:
        return f"when it needed more than {limits.memory >> 20} MiB of memory"
    if code == -signal.SIGXCPU:
        return f"after {limits.seconds:g} s"
    return f"by an internal error (exit code {code}; the log has more)"


def _fork(compute: Callable[[], bytes], answer: int, limits: Limits) -> int:
    """Return the copy's pid. Signals wait meanwhile: the copy must not act on ours."""
    parent = os.getpid()
    before = signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
    try:
        with warnings.catch_warnings():
            # The copy runs no code that takes a lock of another thread (see `run_forked`).
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            _be_the_copy(compute, answer, limits, parent)
    except OSError as error:
        raise UnavailableError(f"cannot start a process: {error.strerror}") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


def _be_the_copy(compute: Callable[[], bytes], answer: int, limits: Limits, parent: int) -> NoReturn:
    code = _FAILED
    try:
        gc.disable()
        _settle_alone(answer, limits, parent)
        with open(answer, "wb", closefd=False) as pipe:
            found = compute()
            pipe.write(len(found).to_bytes(_LENGTH, "big"))
            pipe.write(found)
        code = 0
    except MemoryError:
        code = _OUT_OF_MEMORY
    except BaseException:  # noqa: BLE001 - nothing of the copy may return to the caller's code
        _show_error()
    finally:
        os._exit(code)


def _settle_alone(answer: int, limits: Limits, parent: int) -> None:
    """Signals end it, its parent's end ends it, it has no file but its answer and the error output, and it has limits."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(_FAILED)
    for first, last in ((0, 2), (3, answer), (answer + 1, 1 << 20)):
        os.closerange(first, last)
    os.nice(_NICE)
    seconds = int(limits.seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    room = _address_space() + limits.memory
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY or room < most:
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def _show_error() -> None:
    with contextlib.suppress(BaseException):
        os.write(2, traceback.format_exc().encode())
