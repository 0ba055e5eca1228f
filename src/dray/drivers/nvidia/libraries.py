"""The driver's files that a container needs beside nodes: libraries, programs, sockets, firmware. No program is run.

A library is the driver's where its name ends in `.so.<driver version>`. A container gets it under every name that the
host knows it by, in both directories that a loader searches on its own: Debian's and Red Hat's families each search one
of them, whatever their caches say, so neither a hook nor ldconfig nor LD_LIBRARY_PATH is needed.
"""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from posixpath import dirname, normpath
from posixpath import join as joined

from dray.cdi.edits import ContainerEdits, Mount
from dray.errors import Error, HardwareError, NotFoundError
from dray.hardware.facts import Problem, problem_of
from dray.hardware.host_root import HostRoot, Place
from dray.hardware.nvml.library import DIRECTORIES
from dray.hardware.shared_libraries import (
    AARCH64,
    CACHE,
    X86_64,
    read_loader_cache,
    read_shared_library,
)
from dray.hardware.sweep import Sweep

VERSION = "/proc/driver/nvidia/version"
SEARCHED = {
    X86_64: ("/usr/lib/x86_64-linux-gnu", "/usr/lib64"),
    AARCH64: ("/usr/lib/aarch64-linux-gnu", "/usr/lib64"),
}
"""By machine, where the loaders of containers look on their own."""

_NEEDED = ("libcuda.so.1", "libnvidia-ml.so.1")
_PROGRAMS = (
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-debugdump",
    "nvidia-imex",
    "nvidia-imex-ctl",
    "nvidia-persistenced",
    "nvidia-smi",
)
_PROGRAM_PLACES = ("/usr/bin", "/usr/sbin", "/opt/bin", "/usr/local/nvidia/bin")
_SOCKETS = ("/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket")
_MORE = (
    "/etc/OpenCL/vendors/nvidia.icd",
    "/etc/vulkan/icd.d/nvidia_icd.json",
    "/usr/share/glvnd/egl_vendor.d/10_nvidia.json",
    "/usr/share/nvidia/nvoptix.bin",
)
_KERNEL_MODULE = re.compile(
    r"Kernel Module(?: for [^ ]+)? +([0-9]{1,5}(?:\.[0-9]{1,5}){1,3})(?: |$)", re.ASCII
)
_OURS = re.compile(r"lib(?:cuda|nv|EGL_nvidia|GL[A-Za-z0-9_]*_nvidia|vdpau_nvidia)[A-Za-z0-9_+.-]*", re.ASCII)
_LINKS_ALLOWED = 16


@dataclass(frozen=True, slots=True)
class Library:
    """A file of the host, and all the names that programs may ask for it by."""

    path: str
    names: tuple[str, ...]
    machine: int


@dataclass(frozen=True, slots=True)
class DriverFiles:
    """What one look found. `others` are pairs of a path on the host and one in the container."""

    version: str
    libraries: tuple[Library, ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    problems: tuple[Problem, ...] = ()

    def edits(self) -> ContainerEdits:
        """All of it as read-only mounts, in the order of the paths in the container."""
        mounts = {
            f"{directory}/{name}": library.path
            for library in self.libraries
            for directory in SEARCHED[library.machine]
            for name in library.names
        }
        mounts |= {inside: path for path, inside in self.others}
        return ContainerEdits(
            mounts=tuple(Mount(mounts[inside], inside, read_only=True) for inside in sorted(mounts))
        )


def driver_version(root: Place) -> str:
    """`580.159.04`, as the kernel module tells. NotFoundError where no NVIDIA driver is loaded."""
    try:
        text = root.read_text(VERSION)
    except NotFoundError as error:
        message = f"no NVIDIA driver is loaded: {VERSION} does not exist; run `modprobe nvidia` on the host"
        raise NotFoundError(message, kind="driver", name="nvidia") from error
    for line in text.splitlines():
        if found := _KERNEL_MODULE.search(line):
            return found[1]
    raise HardwareError(f"{VERSION} names no driver version", path=VERSION)


def find_driver_files(root: Place, driver_root: str = "/", version: str = "") -> DriverFiles:
    """Look for the files of the loaded driver, or of `version`. Twice the same host gives the same value.

    `driver_root` is the directory of the host that holds the driver's own /usr (`/run/nvidia/driver` where a container
    brought it). HardwareError where the driver has no libcuda.so.1 or libnvidia-ml.so.1: without them no program works.
    """
    version = version or driver_version(root)
    prefix = "" if driver_root == "/" else driver_root.rstrip("/")
    with HostRoot(Path(f"{root.path}{prefix}") if prefix else root.path).sweep() as sweep:
        found = _libraries(sweep, version)
        others = list(_others(sweep, version))
    _require(found.libraries, version, driver_root)
    return DriverFiles(
        version,
        tuple(Library(f"{prefix}{one.path}", one.names, one.machine) for one in found.libraries),
        tuple((f"{prefix}{path}", inside) for path, inside in others),
        found.problems,
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """The libraries of a look, and how the places were that it looked at: unchanged, they still hold the same."""

    libraries: tuple[Library, ...]
    problems: tuple[Problem, ...]
    places: tuple[tuple[str, tuple[int, ...]], ...]


_last: dict[tuple[Path, str], _Found] = {}
_LAST_AT_MOST = 8
_SETTLED_NS = 1_000_000_000
"""A place that changed more recently may change again with the same time stamp: the kernel's clock ticks in milliseconds."""


def _libraries(sweep: Sweep, version: str) -> _Found:
    """A look takes 10 ms, and a node starts many containers between two installations of a driver."""
    key = (sweep.path, version)
    last = _last.get(key)
    if last is not None and all(_state(sweep, path) == state for path, state in last.places):
        return last
    now = time.time_ns()  # the kernel's, by which files are stamped
    cache = (CACHE, _state(sweep, CACHE))
    search = _Search(sweep, version)
    places = (cache, *((path, _state(sweep, path)) for path in search.places))
    found = _Found(tuple(search.libraries()), tuple(search.problems), places)
    _last.pop(key, None)
    if len(_last) >= _LAST_AT_MOST:
        _last.clear()
    if all(not state or state[-1] < now - _SETTLED_NS for _, state in places):
        _last[key] = found
    return found


def _state(sweep: Sweep, path: str) -> tuple[int, ...]:
    """What changes when an entry comes, goes or becomes another; empty where nothing is."""
    try:
        status = sweep.stat(path)
    except Error:
        return ()
    return status.st_dev, status.st_ino, status.st_mtime_ns


class _Search:
    """One look for libraries. `problems` grows; `places` are the directories that decide what it finds."""

    def __init__(self, sweep: Sweep, version: str) -> None:
        self.problems: list[Problem] = []
        self._sweep = sweep
        self._suffix = f".so.{version}"
        self._directories = self._find_directories()
        self.places = tuple(dict.fromkeys((*DIRECTORIES, *self._directories)))

    def libraries(self) -> list[Library]:
        """Sorted by name; of two files with one name the first counts, in the order of the loader's cache."""
        names = {directory: self._names(directory) for directory in self._directories}
        found: dict[str, Library] = {}
        for directory in self._directories:
            for name in names[directory]:
                if name.startswith("lib") and name.endswith(self._suffix) and name not in found:
                    library = self._library(f"{directory}/{name}", names)
                    found |= {name: library} if library is not None else {}
        return [found[name] for name in sorted(found)]

    def _find_directories(self) -> list[str]:
        """Those that the cache leads to, then the usual ones; none that is another one under a second name."""
        try:
            cache = read_loader_cache(self._sweep)
        except Error as error:
            self.problems.append(problem_of(error, CACHE))
            cache = ()
        cached = [entry.path for entry in cache if _OURS.fullmatch(entry.name)]
        ends = [self._end(entry.path) for entry in cache if entry.name in _NEEDED]
        wanted = dict.fromkeys([*map(dirname, ends), *map(dirname, cached), *DIRECTORIES])
        places: dict[tuple[int, int], str] = {}
        for directory in wanted:
            if (identity := self._identity(directory)) is not None:
                places.setdefault(identity, directory)
        return list(places.values())

    def _end(self, path: str) -> str:
        """Where a chain of links ends, as far as its last part is concerned."""
        for _ in range(_LINKS_ALLOWED):
            try:
                path = normpath(joined(dirname(path), self._sweep.read_link(path)))
            except Error:  # no link, or nothing
                return path
        return path

    def _library(self, path: str, names: dict[str, list[str]]) -> Library | None:
        real = self._end(path)
        try:
            found = read_shared_library(self._sweep, real)
        except Error as error:
            self.problems.append(problem_of(error, path))
            return None
        if found is None or found.machine not in SEARCHED:
            return None
        known = {path.rpartition("/")[2], *self._aliases(real, names)}
        if _OURS.fullmatch(found.soname):
            known.add(found.soname)
        return Library(real, tuple(sorted(known)), found.machine)

    def _aliases(self, path: str, names: dict[str, list[str]]) -> Iterator[str]:
        """Names in the searched directories that lead to the file: `libcuda.so`, `libcuda.so.1`."""
        stem = path.rpartition("/")[2].removesuffix(self._suffix)
        identity = self._identity(path)
        for directory in names:
            for name in names[directory]:
                is_like = name == f"{stem}.so" or name.startswith(f"{stem}.so.")
                if is_like and identity == self._identity(f"{directory}/{name}"):
                    yield name

    def _names(self, directory: str) -> list[str]:
        try:
            return [name for name in self._sweep.names(directory) if ".so" in name]
        except Error as error:
            self.problems.append(problem_of(error, directory))
            return []

    def _identity(self, path: str) -> tuple[int, int] | None:
        try:
            status = self._sweep.stat(path)
        except Error:  # nothing there
            return None
        return status.st_dev, status.st_ino


def _others(sweep: Sweep, version: str) -> Iterator[tuple[str, str]]:
    for program in _PROGRAMS:
        places = (f"{place}/{program}" for place in _PROGRAM_PLACES)
        if (path := next((one for one in places if _is_program(sweep, one)), None)) is not None:
            yield path, f"/usr/bin/{program}"
    wanted = [(path, stat.S_IFSOCK) for path in _SOCKETS]
    wanted += [(f"/lib/firmware/nvidia/{version}", stat.S_IFDIR), *((path, stat.S_IFREG) for path in _MORE)]
    for path, kind in wanted:
        if _is(sweep, path, kind):
            yield path, path


def _is_program(sweep: Sweep, path: str) -> bool:
    """A script is none: it starts another program, which a container would not have."""
    try:
        return read_shared_library(sweep, path) is not None
    except Error:  # not there
        return False


def _is(sweep: Sweep, path: str, kind: int) -> bool:
    try:
        return stat.S_IFMT(sweep.stat(path).st_mode) == kind
    except Error:  # not there
        return False


def _require(libraries: Iterable[Library], version: str, driver_root: str) -> None:
    names = {name for library in libraries for name in library.names}
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise HardwareError(
            f"driver {version} is loaded, but below {driver_root} there is no {missing[0]} of that version: install the "
            "driver's libraries, or set the driver root to where they are",
            path=driver_root,
        )
