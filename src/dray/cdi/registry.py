"""The CDI devices of a machine: the directories of spec files, read once. A change needs another reading.

Later directories override earlier ones. A device that two files of one directory define is unusable, since nobody can
tell which is meant. A broken file hides only itself. Every device that cannot be had has a reason.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.api.codec.yaml_reader import MAX_BYTES
from dray.cdi.names import parse_qualified, qualified
from dray.cdi.spec import Spec, SpecDevice, SpecFile, read_spec
from dray.cdi.validate import check_file
from dray.errors import Error, InvalidError
from dray.runtime.files.oserrors import from_os_error

DIRECTORIES: Final = (Path("/etc/cdi"), Path("/var/run/cdi"))
"""Where runtimes look, the later one wins: what people write, and what drivers generate."""

ENDINGS: Final = (".json", ".yaml")


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """A device that can be injected, with the spec it comes from. `name` is qualified."""

    name: str
    device: SpecDevice
    spec: Spec
    path: Path


@dataclass(frozen=True, slots=True)
class BrokenFile:
    """A file or directory that does not count, and why. `hides` are the devices it seems to have."""

    path: Path
    error: Error
    hides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A good file; the number of its directory is its priority."""

    path: Path
    priority: int
    spec: Spec


@dataclass(frozen=True, slots=True)
class Registry:
    """What was there when it was read. `conflicts` are devices that several files of one directory define."""

    devices: Mapping[str, FoundDevice]
    conflicts: Mapping[str, tuple[Path, ...]]
    broken: tuple[BrokenFile, ...] = ()

    def resolve(self, names: Iterable[str]) -> tuple[FoundDevice, ...]:
        """The devices in this order, each once. InvalidError names all that cannot be had, each with its reason."""
        asked = tuple(dict.fromkeys(names))
        missing = [name for name in asked if name not in self.devices]
        if missing:
            reasons = tuple(f"{name}: {self.reason(name)}" for name in missing)
            told = self.reason(missing[0]) if len(missing) == 1 else "; ".join(reasons)
            text = f"unresolvable CDI devices {', '.join(missing)}: {told}"
            raise InvalidError(text, field=missing[0], causes=reasons)
        return tuple(self.devices[name] for name in asked)

    def reason(self, name: str) -> str:
        """Why a device cannot be had."""
        if name in self.conflicts:
            return f"defined by {' and by '.join(map(str, self.conflicts[name]))}: remove one"
        for broken in self.broken:
            if name in broken.hides:
                return f"its file is broken: {broken.error}"
        try:
            kind = str(parse_qualified(name)).partition("=")[0]
        except InvalidError as error:
            return str(error).removeprefix(f"{name!r} is ")
        has_kind = any(known.startswith(f"{kind}=") for known in (*self.devices, *self.conflicts))
        return "no such device of this kind" if has_kind else f"no file has a usable device of kind {kind}"


def read_registry(directories: Sequence[Path] = DIRECTORIES) -> Registry:
    """Read all directories. One that is not there is empty; nothing here raises for what lies in them."""
    loaded: list[LoadedFile] = []
    broken: list[BrokenFile] = []
    for priority, directory in enumerate(directories):
        try:
            paths = list(spec_files(directory))
        except Error as error:
            broken.append(BrokenFile(directory, error))
            continue
        for path in paths:
            outcome = _load(path, priority)
            if isinstance(outcome, LoadedFile):
                loaded.append(outcome)
            elif outcome is not None:
                broken.append(outcome)
    return build_registry(loaded, broken)


def spec_files(directory: Path) -> Iterator[Path]:
    """The spec files of a directory, by name; directories in it do not count. None where it does not exist."""
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: os.fsencode(entry.name))
    except FileNotFoundError:
        return
    except OSError as error:
        raise from_os_error(error, "read", str(directory)) from error
    for entry in entries:
        if entry.name.endswith(ENDINGS) and not entry.is_dir(follow_symlinks=False):
            yield directory / entry.name


def build_registry(files: Iterable[LoadedFile], broken: Iterable[BrokenFile] = ()) -> Registry:
    """Decide which file each device comes from."""
    ranked: dict[str, dict[int, list[FoundDevice]]] = {}
    for file in files:
        for device in file.spec.devices:
            name = qualified(file.spec.kind, device.name)
            found = FoundDevice(name, device, file.spec, file.path)
            ranked.setdefault(name, {}).setdefault(file.priority, []).append(found)
    devices: dict[str, FoundDevice] = {}
    conflicts: dict[str, tuple[Path, ...]] = {}
    for name, by_priority in sorted(ranked.items()):
        best = by_priority[max(by_priority)]
        if len(best) == 1:
            devices[name] = best[0]
        else:
            conflicts[name] = tuple(sorted(found.path for found in best))
    return Registry(devices, conflicts, tuple(broken))


def read_file(path: Path) -> bytes:
    """The bytes of a spec file. Never waits on what is no file (a pipe), and never reads more than a spec may have."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise InvalidError(f"{path}: is not a file", field=str(path))
            with os.fdopen(descriptor, "rb", closefd=False) as opened:
                return opened.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise from_os_error(error, "read", str(path)) from error


def _load(path: Path, priority: int) -> LoadedFile | BrokenFile | None:
    """None where the file went away since the directory was listed."""
    read: SpecFile | None = None
    try:
        read = read_spec(read_file(path), str(path))
        check_file(read)
        return LoadedFile(path, priority, read.spec)
    except Error as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno == errno.ENOENT and not path.is_symlink():
            return None
        hides = (
            () if read is None else tuple(qualified(read.spec.kind, one.name) for one in read.spec.devices)
        )
        return BrokenFile(path, error, hides)
