"""Unpack the layers of an image, one over the other, into a directory that nothing leaves."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tarfile
from pathlib import Path
from typing import IO

from dray.errors import InvalidError, NotFoundError
from dray.runtime.files.safepath import Links, Root, SafePath

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_CAPABILITY = "SCHILY.xattr.security.capability"
_COPY = 1 << 20
_MOST_ENTRIES = 2_000_000


def unpack(layer: IO[bytes], target: Path) -> None:
    """Apply one layer (tar, plain or gzip). InvalidError where an entry would leave the directory, or is no such file."""
    made: set[str] = set()
    try:
        with tarfile.open(fileobj=layer, mode="r|*") as archive, Root(target) as root:
            for number, member in enumerate(archive):
                if number >= _MOST_ENTRIES:
                    raise InvalidError(f"a layer has more than {_MOST_ENTRIES} files", field=str(target))
                _apply(archive, member, root, made)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InvalidError(
            f"cannot unpack a layer into {str(target)!r}: {error}", field=str(target)
        ) from error


def clean_path(name: str) -> str:
    """Relative and without dots; empty for the root. InvalidError for one that climbs."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name:
        raise InvalidError(f"layer entry {name!r} leaves the image", field=name)
    return "/".join(parts)


def _apply(archive: tarfile.TarFile, member: tarfile.TarInfo, root: Root, made: set[str]) -> None:
    path = clean_path(member.name)
    if not path:
        return
    parent, _, name = path.rpartition("/")
    with _directory(root, parent) as directory:
        if name == _OPAQUE:
            for other in directory.listdir():
                if f"{parent}/{other}".lstrip("/") not in made:
                    _remove(directory, other)
            return
        if name.startswith(_WHITEOUT):
            _remove(directory, clean_path(name.removeprefix(_WHITEOUT)))
            return
        _note(made, path)
        _put(archive, member, root, directory, name)


def _note(made: set[str], path: str) -> None:
    """An opaque mark hides what lower layers have, not what this one brought, in whatever order they come."""
    while path and path not in made:
        made.add(path)
        path = path.rpartition("/")[0]


def _directory(root: Root, path: str) -> SafePath:
    """The directory, made where a layer forgot it. Links on the way stay inside the root."""
    with contextlib.suppress(NotFoundError):
        return root.open(path or ".", links=Links.FOLLOW)
    parent, _, name = path.rpartition("/")
    with _directory(root, parent) as above:
        return above.mkdir(name, 0o755)


def _put(
    archive: tarfile.TarFile, member: tarfile.TarInfo, root: Root, directory: SafePath, name: str
) -> None:
    fd = directory.fileno()
    if not (member.isdir() and _is_directory(directory, name)):
        _remove(directory, name)
    if member.isdir():
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=fd)
    elif member.isfile():
        _write(archive, member, fd, name)
    elif member.issym():
        os.symlink(member.linkname, name, dir_fd=fd)
    elif member.islnk():
        _link(member, root, fd, name)
        return
    elif member.isfifo():
        os.mkfifo(name, dir_fd=fd)
    elif member.ischr() or member.isblk():
        kind = stat.S_IFCHR if member.ischr() else stat.S_IFBLK
        os.mknod(name, kind | 0o600, os.makedev(member.devmajor, member.devminor), dir_fd=fd)
    else:
        return
    _finish(member, fd, name)


def _link(member: tarfile.TarInfo, root: Root, fd: int, name: str) -> None:
    """To the very entry, also where that is a symbolic link: the last part is never followed."""
    parent, _, last = clean_path(member.linkname).rpartition("/")
    with root.open(parent or ".", links=Links.FOLLOW) as directory:
        os.link(last, name, src_dir_fd=directory.fileno(), dst_dir_fd=fd, follow_symlinks=False)


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, fd: int, name: str) -> None:
    source = archive.extractfile(member)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=fd), "wb") as file:
        if source is not None:
            shutil.copyfileobj(source, file, _COPY)


def _finish(member: tarfile.TarInfo, fd: int, name: str) -> None:
    """Owner before mode: the kernel drops set-id bits at a change of owner."""
    if os.geteuid() == 0:
        os.chown(name, member.uid, member.gid, dir_fd=fd, follow_symlinks=False)
    if not member.issym():
        os.chmod(name, stat.S_IMODE(member.mode), dir_fd=fd)
    if (capability := member.pax_headers.get(_CAPABILITY)) is not None:
        value = capability.encode("utf-8", "surrogateescape")
        os.setxattr(f"/proc/self/fd/{fd}/{name}", "security.capability", value, follow_symlinks=False)
    with contextlib.suppress(OSError, OverflowError):
        os.utime(name, (member.mtime, member.mtime), dir_fd=fd, follow_symlinks=False)


def _is_directory(directory: SafePath, name: str) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return stat.S_ISDIR(os.stat(name, dir_fd=directory.fileno(), follow_symlinks=False).st_mode)
    return False


def _remove(directory: SafePath, name: str) -> None:
    if _is_directory(directory, name):
        shutil.rmtree(name, dir_fd=directory.fileno())
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory.fileno())
