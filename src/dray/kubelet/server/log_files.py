"""Which file has a container's log, and its content, to the end or as it grows."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import BinaryIO

from dray.api.core import Pod
from dray.errors import DeniedError, InvalidError, NotFoundError
from dray.kubelet.pods.known import KnownPod
from dray.kubelet.pods.start import log_directory
from dray.kubelet.pods.status import CREATING
from dray.kubelet.runtimes.shim_log import open_directory, put_aside
from dray.kubelet.server.log_lines import LogOptions, Shown
from dray.runtime.clock import Clock
from dray.runtime.files.oserrors import from_os_error

_BLOCK = 64 * 1024
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_POLL = 0.2
_LOOK = 0.5
"""Seconds between two looks at whether a followed container still runs."""


def find_log(logs: Path, known: KnownPod, container: str, *, previous: bool) -> tuple[Path, int]:
    """The file and the attempt it is of. The errors are a kubelet's."""
    pod = known.pod
    name, names = pod.metadata.name, container_names(pod)
    if container not in names:
        raise NotFoundError(
            f'container "{container}" not found in pod "{name}", which has {", ".join(names)}',
            kind="container",
            name=container,
        )
    place = log_directory(logs, pod) / container
    attempts = _attempts(place)
    # While it waits to be started again, the run that ended is both the last one and the one before the next.
    if previous and container not in known.waits:
        attempts = attempts[:-1]
    if attempts:
        return place / f"{attempts[-1]}.log", attempts[-1]
    if previous:
        raise InvalidError(
            f'previous terminated container "{container}" in pod "{name}" not found', field="previous"
        )
    raise InvalidError(_no_run(known, container))


def container_names(pod: Pod) -> tuple[str, ...]:
    """Those that may have logs, in the pod's order."""
    return tuple(one.name for one in (*pod.spec.containers, *pod.spec.init_containers))


def _no_run(known: KnownPod, container: str) -> str:
    about = f'container "{container}" in pod "{known.pod.metadata.name}"'
    if known.rejection is not None:
        return f"{about} never ran: the pod was rejected: {known.rejection.message}"
    waiting = known.waits.get(container)
    reason = waiting.reason if waiting else CREATING
    return f"{about} is waiting to start: {reason}" + (
        f": {waiting.message}" if waiting and waiting.message else ""
    )


def _attempts(place: Path) -> list[int]:
    try:
        found = [Path(one) for one in os.listdir(place)]  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise from_os_error(error, "read", str(place)) from error
    return sorted(int(one.stem) for one in found if one.suffix == ".log" and one.stem.isdecimal())


async def read_log(
    opened: BinaryIO,
    path: Path,
    options: LogOptions,
    clock: Clock,
    is_running: Callable[[], Awaitable[bool]],
    root: Path | None = None,
) -> AsyncGenerator[bytes, None]:
    """What is in the file, and with `follow` what comes until the container has ended, in the files after it too.

    `opened` is the caller's to close.
    """
    shown, file = Shown(options), opened
    newer: BinaryIO | None = None
    try:
        file.seek(_tail(file, options.tail))
        next_look, is_over = clock.monotonic(), not options.follow
        while not shown.is_full:
            if data := file.read(_BLOCK):
                if told := shown.take(data):
                    yield told
            elif newer is not None:  # and what was written before it was put aside is read
                file, newer = _instead(file, newer, opened), None
            elif options.follow and (newer := _successor(file, path, root)) is not None:
                continue
            elif is_over:
                break
            elif clock.monotonic() >= next_look:
                # What it wrote before its end is read after this.
                is_over, next_look = not await is_running(), clock.monotonic() + _LOOK
            else:
                await clock.sleep(_POLL)
        if told := shown.end():
            yield told
    finally:
        if newer is not None:
            newer.close()
        _instead(file, opened, opened)


def _instead(file: BinaryIO, other: BinaryIO, opened: BinaryIO) -> BinaryIO:
    if file is not opened:
        file.close()
    return other


def open_log(path: Path, root: Path | None = None) -> BinaryIO:
    """To read. Only a regular file: a symbolic link would show another file of the host, and a FIFO would block us. No link
    below `root` is followed."""
    try:
        directory = open_directory(str(path.parent), str(root or ""))
        try:
            descriptor = os.open(path.name, _READ, dir_fd=directory)
        finally:
            os.close(directory)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise DeniedError(f"the log {str(path)!r} is not a regular file", what=f"read {path}")
    except FileNotFoundError:
        raise NotFoundError(f"the log {str(path)!r} is gone", kind="log", name=path.name) from None
    except OSError as error:
        raise from_os_error(error, "read", str(path)) from error
    return os.fdopen(descriptor, "rb", buffering=0)


def _successor(file: BinaryIO, path: Path, root: Path | None) -> BinaryIO | None:
    """The file that came after one that was read to its end; None while there is none.

    A writer may have filled several meanwhile, and the oldest are removed: ours too.
    """
    own, current = os.fstat(file.fileno()), _stat(path)
    if current is None or os.path.samestat(own, current):
        return None
    try:
        names = [*put_aside(str(path)), str(path)]
    except OSError:
        return None
    files = [(name, found) for name in names if (found := _stat(Path(name))) is not None]
    later = [at for at, (_, found) in enumerate(files, 1) if os.path.samestat(own, found)]
    for name, found in files[later[-1] if later else 0 :]:
        if later or found.st_mtime_ns >= own.st_mtime_ns:
            with contextlib.suppress(NotFoundError):  # removed meanwhile
                return open_log(Path(name), root)
    return None


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _tail(file: BinaryIO, lines: int | None) -> int:
    """Where the last so many lines begin, read from the end."""
    if lines is None:
        return 0
    end = file.seek(0, os.SEEK_END)
    place, wanted = end, lines
    is_last = True
    while place > 0:
        start = max(0, place - _BLOCK)
        file.seek(start)
        block = file.read(place - start)
        if is_last:
            wanted += block.endswith(b"\n")  # the end of the last line begins none
            is_last = False
        at = len(block)
        while wanted > 0 and (at := block.rfind(b"\n", 0, at)) >= 0:
            wanted -= 1
            if wanted == 0:
                return start + at + 1
        if wanted <= 0:
            return end
        place = start
    return 0 if lines else end
