"""A container's log as its keeper writes it: lines as CRI has them, in a file that is put aside when it is full.

Part of `shim.py`: the standard library only, and little of it (no pathlib). For CRI runtimes `cri_logs.py` puts files aside alike.
"""

from __future__ import annotations

import contextlib
import os
import time

# A pod with a hostPath of the logs may put something in our way: a link is not followed, a FIFO is not waited for.
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LINE = 16 * 1024


def timestamp() -> str:
    """Now, as Kubernetes writes it in logs."""
    return _now("%Y-%m-%dT%H:%M:%S") + "Z"


def _now(form: str) -> str:
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime(form, time.gmtime(seconds)) + f".{nanoseconds:09d}"


def open_directory(path: str, root: str = "", *, make: bool = False) -> int:
    """Open the directory of a log; its entries are then reached through `/proc/self/fd`. OSError names `path`.

    A pod that mounts the log directory may replace directories by symbolic links: none is followed below `root`. `root` is
    trusted, and so is `path` where it is not below it.
    """
    root = root.rstrip("/") or "/"
    is_below = root != "/" and path.startswith(f"{root}/")
    top = root if is_below else path
    try:
        if make:
            os.makedirs(top, 0o755, exist_ok=True)  # noqa: PTH103
        descriptor = os.open(top, _DIRECTORY)
        for name in path[len(top) :].split("/"):
            if name in ("", "."):
                continue
            above = descriptor
            try:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, 0o755, dir_fd=above)
                descriptor = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
            finally:
                os.close(above)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    return descriptor


def put_aside_as(path: str) -> str:
    """The name for a full file, as kubelets give it, but fine enough for one that is full many times in a second."""
    return f"{path}.{_now('%Y%m%d-%H%M%S')}"


def put_aside(path: str) -> list[str]:
    """The files that were put aside before, the oldest first."""
    directory, name = os.path.split(path)
    start = len(name) + 1
    found = [
        one
        for one in os.listdir(directory)  # noqa: PTH208
        if one.startswith(f"{name}.") and one[start : start + 8].isdigit()
    ]
    return [f"{directory}/{one}" for one in sorted(found)]


def make_room(path: str, files: int) -> None:
    """Remove the oldest, so that with the one that is full now and its successor there are so many."""
    found = put_aside(path)
    for one in found[: max(0, len(found) - (files - 2))]:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(one)  # noqa: PTH108


class Log:
    """The file, and those before it: `files` in all, none larger than `size` bytes but for one write. 0: never full.

    What cannot be written is lost; the container goes on. A kill leaves a file at `path` at every moment.
    """

    def __init__(self, path: str, size: int = 0, files: int = 2, root: str = "") -> None:
        above, name = os.path.split(path)
        self._directory = open_directory(above, root)
        self._path, self._limit, self._files = f"/proc/self/fd/{self._directory}/{name}", size, files
        try:
            self._fd = os.open(self._path, _APPEND, 0o640)
        except OSError as error:
            os.close(self._directory)
            raise OSError(error.errno, error.strerror, path) from error
        self._size = os.fstat(self._fd).st_size

    def write(self, data: bytes) -> None:
        """Whole lines, or pieces of long ones."""
        if data and self._size and 0 < self._limit < self._size + len(data):
            self._begin_new()
        with contextlib.suppress(OSError):
            while data:
                written = os.write(self._fd, data)
                self._size += written
                data = data[written:]

    def _begin_new(self) -> None:
        """Where the disk refuses, the old one goes on; it is tried again after as much again."""
        self._size = 0
        with contextlib.suppress(OSError):
            make_room(self._path, self._files)
            with contextlib.suppress(FileNotFoundError):  # of a kill, or planted
                os.unlink(f"{self._path}.new")  # noqa: PTH108
            fd = os.open(f"{self._path}.new", _APPEND | os.O_EXCL, 0o640)
            try:
                self._keep_old()
                os.rename(f"{self._path}.new", self._path)  # noqa: PTH104
            except OSError:
                os.close(fd)
                raise
            os.close(self._fd)
            self._fd = fd

    def _keep_old(self) -> None:
        old = put_aside_as(self._path)
        try:
            os.link(self._path, old)
        except FileNotFoundError:
            pass  # somebody removed it
        except OSError:  # a file system without hard links
            os.rename(self._path, old)  # noqa: PTH104


class Stream:
    """One of stdout and stderr, from its pipe to the log, as CRI has it. Holds one line, or a part of a long one."""

    def __init__(self, name: bytes, log: Log) -> None:
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        self._name, self._log, self._rest = name, log, b""

    def take(self) -> bool:
        """Move what is there; False at its end."""
        try:
            data = os.read(self.read_fd, _LINE)
        except BlockingIOError:
            return True
        *lines, rest = (self._rest + data).split(b"\n")
        head = timestamp().encode() + b" " + self._name
        out = [piece for line in lines for piece in _pieces(head, line, b"F")]
        if rest and (not data or len(rest) >= _LINE):
            out += _pieces(head, rest, b"P")
            rest = b""
        self._rest = rest
        self._log.write(b"".join(out))
        return bool(data)


def _pieces(head: bytes, line: bytes, tag: bytes) -> list[bytes]:
    parts = [line[at : at + _LINE] for at in range(0, len(line), _LINE)] or [b""]
    tags = [b"P"] * (len(parts) - 1) + [tag]
    return [b"%b %b %b\n" % (head, each, part) for each, part in zip(tags, parts, strict=True)]
