"""The files of a ConfigMap, Secret, downward API or projected volume, as every kubelet lays them out.

    ..2026_11_18_16_30_00.4f1c9a/    the files of one version, whole
    ..data -> ..2026_11_18_16_30_00.4f1c9a
    key -> ..data/key                one for each first part of a path

A reader of `key` sees the old set or the new one, never a mixture: `..data` is renamed over. Everything goes by
descriptor, and what is there under a name is replaced itself: nothing is ever written through a link.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dray.errors import Error, InvalidError
from dray.runtime.files.removal import remove_tree
from dray.runtime.files.safefile import told
from dray.runtime.files.safepath import Root, SafePath

_DATA, _NEXT = "..data", "..data_tmp"
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LONGEST_PATH, _LONGEST_NAME, _DEEPEST_PATH = 4096, 255, 64
_MODES = 0o777


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """One file of such a volume."""

    path: str
    content: bytes
    mode: int


Files = Mapping[tuple[str, ...], ObjectFile]


def check_files(volume: str, files: Iterable[ObjectFile]) -> dict[tuple[str, ...], ObjectFile]:
    """By the parts of their paths; of two with one path the last one counts. InvalidError names the volume and the path."""
    found = {_parts(volume, one): one for one in files}
    for parts in found:
        for length in range(1, len(parts)):
            if parts[:length] in found:
                raise InvalidError(
                    f"volume {volume}: {'/'.join(parts[:length])!r} is a file, and {'/'.join(parts)!r} lies below it",
                    field=f"spec.volumes[{volume}]",
                )
    return found


def write_files(directory: Path, files: Files, now: datetime) -> None:
    """Make the directory hold exactly these. Repeatable after an error or a kill; what is already so is left as it is."""
    with Root(directory) as root, root.open(".") as volume:
        current = _current(volume)
        if current is None or not _holds(volume, current, files):
            current = f"..{now:%Y_%m_%d_%H_%M_%S}.{secrets.token_hex(6)}"
            _write_version(volume, current, files)
            _show(volume, {parts[0] for parts in files})
            _link(volume, _NEXT, current)
            _put_in_place(volume)
        else:
            _show(volume, {parts[0] for parts in files})
        _sweep(volume, {_DATA, current, *(parts[0] for parts in files)})


def _parts(volume: str, file: ObjectFile) -> tuple[str, ...]:
    parts = tuple(file.path.split("/"))
    problem = ""
    if not file.path or file.path.startswith("/"):
        problem = "must be relative"
    elif ".." in parts or parts[0].startswith(".."):
        problem = "leads out of its volume: it must not start with '..' or have it as a part"
    elif any(part in ("", ".") for part in parts) or "\0" in file.path:
        problem = "must not have empty parts, '.' or NUL"
    elif (
        len(os.fsencode(file.path)) > _LONGEST_PATH or max(map(len, map(os.fsencode, parts))) > _LONGEST_NAME
    ):
        problem = f"is too long: a path may have {_LONGEST_PATH} bytes, and a part of it {_LONGEST_NAME}"
    elif len(parts) > _DEEPEST_PATH:
        problem = f"has more than {_DEEPEST_PATH} parts"
    elif not 0 <= file.mode <= _MODES:
        problem = f"has mode {file.mode:o}, which must be from 0 to 777 (octal)"
    if problem:
        raise InvalidError(f"volume {volume}: file {file.path!r} {problem}", field=f"spec.volumes[{volume}]")
    return parts


def _current(volume: SafePath) -> str | None:
    """The version that counts; None where there is none, or what is there was not made by us."""
    try:
        name = volume.readlink(_DATA)
        with volume.child(name) as version:
            is_ours = name.startswith("..") and stat.S_ISDIR(version.stat().st_mode)
    except Error:
        return None
    return name if is_ours else None


def _holds(volume: SafePath, version: str, files: Files) -> bool:
    """Whether it has exactly these files, with these contents and modes."""
    try:
        with volume.child(version) as directory:
            return _has_only(directory, files) and all(
                _is_same(directory, parts, file) for parts, file in files.items()
            )
    except Error:
        return False


def _has_only(version: SafePath, files: Files) -> bool:
    """Whether nothing else is in it. Unexpected directories are not entered, so their depth does not matter."""
    directories = {parts[:length] for parts in files for length in range(len(parts))} or {()}
    for parts in sorted(directories):
        with _opened(version, parts) as directory:
            names = directory.listdir()
        if any((*parts, name) not in directories and (*parts, name) not in files for name in names):
            return False
    return True


@contextlib.contextmanager
def _opened(version: SafePath, parts: tuple[str, ...]) -> Iterator[SafePath]:
    with contextlib.ExitStack() as stack:
        at = version
        for name in parts:
            at = stack.enter_context(at.child(name))
        yield at


def _is_same(version: SafePath, parts: tuple[str, ...], file: ObjectFile) -> bool:
    with _opened(version, parts) as at:
        status = at.stat()
        if status.st_size != len(file.content) or stat.S_IMODE(status.st_mode) != file.mode:
            return False
        return at.read(len(file.content)) == file.content


def _write_version(volume: SafePath, name: str, files: Files) -> None:
    with volume.mkdir(name, 0o755) as version:
        for parts, file in files.items():
            with contextlib.ExitStack() as stack:
                at = version
                for part in parts[:-1]:
                    at = stack.enter_context(at.directory(part, 0o755))
                with told("write", f"{at.shown}/{parts[-1]}"):
                    _put(at.fileno(), parts[-1], file)


def _put(directory: int, name: str, file: ObjectFile) -> None:
    """Nobody reads it before its mode is right."""
    with os.fdopen(os.open(name, _CREATE, 0o600, dir_fd=directory), "wb") as opened:
        opened.write(file.content)
        opened.flush()
        os.fchmod(opened.fileno(), file.mode)


def _show(volume: SafePath, names: set[str]) -> None:
    """The names that containers know, each a link; another kind of file there gives way."""
    for name in sorted(names):
        target = f"{_DATA}/{name}"
        with contextlib.suppress(Error):
            if volume.readlink(name) == target:
                continue
        _link(volume, name, target)


def _link(volume: SafePath, name: str, target: str) -> None:
    _clear(volume, name)
    with told("make the link", f"{volume.shown}/{name}"):
        os.symlink(target, name, dir_fd=volume.fileno())


def _put_in_place(volume: SafePath) -> None:
    """The new version counts from here on, in one step; only another kind of file than our link has to go first."""
    try:
        volume.readlink(_DATA)
    except Error:
        _clear(volume, _DATA)
    volume.rename(_NEXT, _DATA)


def _sweep(volume: SafePath, wanted: set[str]) -> None:
    """Older versions, names of keys that are gone, and what a kill left."""
    for name in volume.listdir():
        if name not in wanted:
            _clear(volume, name)


def _clear(volume: SafePath, name: str) -> None:
    remove_tree(Path(volume.proc_path) / name)
