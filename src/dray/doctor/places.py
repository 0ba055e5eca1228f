"""Where to look, as flags say it, and looks that never raise: what is missing or forbidden is a fact too."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from dray.client.access import ClusterAccess
from dray.up.place import default_data_dir

LIMIT: Final = 1 << 20
"""Bytes of a file that are read, the last ones of a log."""


@dataclass(frozen=True, slots=True)
class Places:
    """All that is looked at. `access` None: no cluster is asked, for the reason in `no_cluster`.

    `is_laptop`: judge what `dray up` needs instead of what an agent beside a kubelet needs.
    """

    is_laptop: bool = False
    host_root: str = "/"
    kubelet_dir: Path = Path("/var/lib/kubelet")
    device_plugin_dir: Path = Path("/var/lib/kubelet/device-plugins")
    cdi_dir: Path = Path("/var/run/cdi")
    containerd_config: Path = Path("/etc/containerd/config.toml")
    containerd_socket: Path = Path("/run/containerd/containerd.sock")
    state_dir: Path = Path("/var/lib/dray")
    data_dir: Path = field(default_factory=default_data_dir)
    node_name: str = ""
    access: ClusterAccess | None = None
    no_cluster: str = ""

    @property
    def cdi_dirs(self) -> tuple[Path, ...]:
        """Where runtimes look for CDI files, and where ours are."""
        return tuple(dict.fromkeys((Path("/etc/cdi"), Path("/var/run/cdi"), self.cdi_dir)))


class State(StrEnum):
    """How a look ended."""

    THERE = "there"
    MISSING = "missing"
    DENIED = "denied"
    BROKEN = "broken"


class Text(msgspec.Struct, frozen=True):
    """A file's text, or why there is none."""

    path: str
    state: State = State.THERE
    text: str = ""
    error: str = ""


class Entry(msgspec.Struct, frozen=True):
    """What a path is, links followed. `is_writable` for the user who asks."""

    path: str
    state: State = State.THERE
    mode: int = 0
    uid: int = 0
    is_directory: bool = False
    is_socket: bool = False
    is_writable: bool = False
    names: tuple[str, ...] = ()


def state_of(error: OSError) -> State:
    """Which way it failed."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return State.MISSING
    return State.DENIED if isinstance(error, PermissionError) else State.BROKEN


def read_text(path: Path, *, from_end: bool = False) -> Text:
    """The first MiB of a plain file, or the last."""
    content = read_bytes(path, LIMIT, from_end=from_end)
    return content if isinstance(content, Text) else Text(str(path), text=content.decode(errors="replace"))


def read_bytes(path: Path, limit: int, *, from_end: bool = False) -> bytes | Text:
    """So many bytes of a plain file, or why there are none; never waits on what is no file, such as a pipe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as opened:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                return Text(str(path), State.BROKEN, error="is not a plain file")
            if from_end:
                opened.seek(max(0, status.st_size - limit))
            return opened.read(limit)
    except OSError as error:
        return Text(str(path), state_of(error), error=error.strerror or str(error))


def look_at(path: Path, *, lists: bool = False) -> Entry:
    """What is there; with `lists` the names in a directory, as far as they may be read."""
    try:
        status = path.stat()
        is_directory = stat.S_ISDIR(status.st_mode)
        names = tuple(sorted(one.name for one in path.iterdir())) if lists and is_directory else ()
    except OSError as error:
        return Entry(str(path), state_of(error))
    except ValueError:
        return Entry(str(path), State.BROKEN)
    return Entry(
        str(path),
        mode=stat.S_IMODE(status.st_mode),
        uid=status.st_uid,
        is_directory=is_directory,
        is_socket=stat.S_ISSOCK(status.st_mode),
        is_writable=os.access(path, os.W_OK),
        names=names,
    )
