"""Run one change in a short-lived process of its own, in the host's mount namespace where asked.

Why a process: setns() moves all that a process sees, and works only while it has one thread; and a write that the
kernel blocks must not block the agent. The child gets a request as JSON on stdin and answers with JSON on stdout. It has
imported all it needs before it enters the namespace, and can import nothing from there afterwards.
"""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dray.errors import (
    ConflictError,
    DeniedError,
    Error,
    HardwareError,
    InvalidError,
    NotFoundError,
    ProtocolError,
    UnavailableError,
)
from dray.hardware.change import Change, HostChange
from dray.hardware.change.access import Access, Limits
from dray.hardware.change.value import Effect

_CLONE_NEWNS = 0x00020000
_KINDS: dict[str, type[Error]] = {
    kind.__name__: kind
    for kind in (
        ConflictError,
        DeniedError,
        HardwareError,
        InvalidError,
        NotFoundError,
        ProtocolError,
        UnavailableError,
    )
}
_FACTS = ("device", "path", "kind", "name", "what", "field")
_NEEDS = "run Dray's pod with hostPID: true and privileged, or with CAP_SYS_ADMIN, CAP_SYS_CHROOT and CAP_SYS_PTRACE"


@dataclass(frozen=True, slots=True)
class Namespace:
    """A mount namespace, by a file that stands for it, and the host's root as seen in there."""

    path: Path = Path("/proc/1/ns/mnt")
    root: Path = Path("/")


class _Request(msgspec.Struct, frozen=True):
    change: Change
    root: str
    limits: Limits
    namespace: str = ""


class _Failure(msgspec.Struct, frozen=True):
    kind: str
    message: str
    facts: dict[str, str] = {}


class _Answer(msgspec.Struct, frozen=True):
    changed: bool = False
    undo: Change | None = None
    failure: _Failure | None = None


# By device: children that the kernel does not let go. A second one for the same device would only wait behind them.
_left_behind: dict[str, subprocess.Popen[bytes]] = {}


def run(change: HostChange, root: Path, limits: Limits, namespace: Namespace | None = None) -> Effect:
    """Perform the change in a child process. `root` is the host's root as the child sees it, in the namespace if given.

    Raises what the change raises. After `limits.process` seconds the child is killed and ConflictError raised; a child
    that the kernel does not let go (unbinding a device in use) is left behind, and finishes when it can.
    """
    entered = str(namespace.path) if namespace is not None else ""
    request = msgspec.json.encode(
        {"change": change, "root": os.path.abspath(root), "limits": limits, "namespace": entered}  # noqa: PTH100
    )
    answer = _ask(change, request, limits.process)
    if answer.failure is not None:
        raise _error(answer.failure)
    return Effect(answer.changed, answer.undo)


def enter(path: str) -> None:
    """Move this process, which must have one thread, into the mount namespace of the file `path`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise _refused(path, error) from error
    try:
        if os.path.samestat(os.fstat(descriptor), os.stat("/proc/self/ns/mnt")):  # noqa: PTH116
            raise DeniedError(
                f"{path} is the mount namespace that Dray runs in, not the host's: {_NEEDS}",
                what=f"enter {path}",
            )
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNS) != 0:
            code = ctypes.get_errno()
            raise _refused(path, OSError(code, os.strerror(code), path))
    finally:
        os.close(descriptor)


def _refused(path: str, error: OSError) -> Error:
    reason = os.strerror(error.errno or 0)
    message = f"cannot enter the host's mount namespace {path}: {reason}"
    if error.errno in (errno.EACCES, errno.EPERM):
        return DeniedError(f"{message}: {_NEEDS}", what=f"enter {path}")
    if error.errno == errno.ENOENT:
        return NotFoundError(f"{message}: {_NEEDS}", kind="namespace", name=path)
    if error.errno == errno.EINVAL:
        return InvalidError(f"{message}: name the mnt file of a process, like /proc/1/ns/mnt", field=path)
    return UnavailableError(message)


def _ask(change: HostChange, request: bytes, seconds: float) -> _Answer:
    refuse_behind_another(change)
    pipe = subprocess.PIPE
    # -P: nothing is imported from the directory we happen to be in
    argv = [sys.executable, "-P", "-m", __name__]
    try:
        process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe)
    except OSError as error:  # no memory, no process left
        raise UnavailableError(f"cannot start a process to {change.describe()}: {error.strerror}") from error
    try:
        out, err = process.communicate(request, timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise ConflictError(
            f"could not {change.describe()} in {seconds:g} s: the device is probably in use; stop the workload that "
            "holds it (the kernel finishes what was begun when it is released)"
        ) from error
    finally:
        _let_go(process, change.device)
    if process.returncode != 0:
        last = (err.decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        message = f"the process that was to {change.describe()} ended with {process.returncode}: {last}"
        raise UnavailableError(message)
    try:
        return msgspec.json.decode(out, type=_Answer)
    except msgspec.DecodeError as error:
        raise ProtocolError(
            f"the process that was to {change.describe()} answered nonsense: {error}"
        ) from error


def refuse_behind_another(change: HostChange) -> None:
    """ConflictError while the kernel still holds an earlier child for the same device."""
    for device in [device for device, process in list(_left_behind.items()) if process.poll() is not None]:
        _left_behind.pop(device, None)
    if change.device in _left_behind:
        raise ConflictError(
            f"cannot {change.describe()}: an earlier change of it still waits in the kernel (process "
            f"{_left_behind[change.device].pid}); stop the workload that holds the device"
        )


def _let_go(process: subprocess.Popen[bytes], device: str) -> None:
    """End it. One that is stuck in the kernel cannot be ended: it is remembered, to be reaped later."""
    if process.poll() is None:
        process.kill()
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            _left_behind[device] = process
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _failure(error: Error) -> _Failure:
    facts = {name: value for name in _FACTS if isinstance(value := getattr(error, name, None), str) and value}
    return _Failure(type(error).__name__, str(error), facts)


def _error(failure: _Failure) -> Error:
    return _KINDS.get(failure.kind, HardwareError)(failure.message, **failure.facts)


def _answer(request: _Request) -> _Answer:
    try:
        if request.namespace:
            enter(request.namespace)
            sys.path.clear()  # from here on the same paths are other files
            sys.path_importer_cache.clear()
        effect = request.change.perform(Access(Path(request.root), request.limits))
    except (
        ConflictError,
        DeniedError,
        HardwareError,
        InvalidError,
        NotFoundError,
        UnavailableError,
    ) as error:
        return _Answer(failure=_failure(error))
    return _Answer(effect.changed, effect.undo)  # type: ignore[arg-type]  # every HostChange is one of Change


def main() -> None:
    """The child: one request, one answer."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=_Request)
    sys.stdout.buffer.write(msgspec.json.encode(_answer(request)))


if __name__ == "__main__":
    main()
