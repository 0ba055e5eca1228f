"""Shared libraries of the host: what its loader's cache lists, and what name a library gives itself.

The cache is read as glibc reads it, in the format of today, the one before 2.2 and the two in one file. No program of the
host is run.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from dray.errors import Error, HardwareError, InvalidError, NotFoundError
from dray.hardware.host_root import Place
from dray.runtime.files.safefile import told

CACHE = "/etc/ld.so.cache"
X86_64 = 62
AARCH64 = 183
"""Machines, as an ELF file spells them."""

_CACHE_LIMIT = 16 << 20
_OLD = b"ld.so-1.7.0\0"
_NEW = b"glibc-ld.so.cache1.1"
_OLD_ENTRY = struct.Struct("<iII")
_NEW_HEADER = struct.Struct("<20sII B3x I 12x")
_NEW_ENTRY = struct.Struct("<iIIIQ")
_PATH_LIMIT = 4096

_ELF = struct.Struct("<4sBBB9x HHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_DYNAMIC = struct.Struct("<qQ")
_SEGMENT_LOAD, _SEGMENT_DYNAMIC = 1, 2
_TAG_END, _TAG_STRINGS, _TAG_SONAME = 0, 5, 14
_TABLE_LIMIT = 1 << 16
_OFFSETS = 1 << 62


@dataclass(frozen=True, slots=True)
class CachedLibrary:
    """One line of `ldconfig -p`: the name that programs ask for, and the file they get."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class SharedLibrary:
    """A 64-bit ELF file. `soname` is the name it gives itself, empty where it gives none."""

    machine: int
    soname: str


def read_loader_cache(root: Place, path: str = CACHE) -> tuple[CachedLibrary, ...]:
    """What the host's cache lists, in its order; nothing where there is no cache. HardwareError where it is no cache."""
    with root.sweep() as sweep:
        try:
            with sweep.open(path) as file:
                content = file.read(_CACHE_LIMIT)
        except NotFoundError:
            return ()
        except InvalidError as error:
            raise HardwareError(f"cannot read the loader's cache: {error}", path=path) from error
    return parse_loader_cache(content, path)


def parse_loader_cache(content: bytes, path: str = CACHE) -> tuple[CachedLibrary, ...]:
    """The same from bytes. Entries that lead nowhere are left out."""
    if content.startswith(_NEW):
        return _new_entries(content, path)
    if not content.startswith(_OLD):
        raise HardwareError(f"{path} is not the cache of glibc's loader: run ldconfig", path=path)
    count = int.from_bytes(content[len(_OLD) : len(_OLD) + 4], "little")
    start = len(_OLD) + 4
    end = start + count * _OLD_ENTRY.size
    for aligned in (-(-end // 8) * 8, -(-end // 4) * 4):  # by the machine it was written on
        if content.startswith(_NEW, aligned):
            return _new_entries(content[aligned:], path)
    if end > len(content):
        raise _cut(path)
    offsets = [_OLD_ENTRY.unpack_from(content, start + at * _OLD_ENTRY.size) for at in range(count)]
    return _named(content[end:], [(key, value) for _flags, key, value in offsets])


def read_shared_library(root: Place, path: str) -> SharedLibrary | None:
    """What the file is; None where it is no 64-bit little-endian library. NotFoundError where nothing is there."""
    try:
        with (
            root.sweep() as sweep,
            sweep.open(path) as file,
            file.reopened(os.O_RDONLY, "read") as descriptor,
            told("read", path),
        ):
            return _library(descriptor)
    except (struct.error, InvalidError):  # shorter than it says, or no plain file
        return None


def _new_entries(content: bytes, path: str) -> tuple[CachedLibrary, ...]:
    if len(content) < _NEW_HEADER.size:
        raise _cut(path)
    count = _NEW_HEADER.unpack_from(content)[1]
    if _NEW_HEADER.size + count * _NEW_ENTRY.size > len(content):
        raise _cut(path)
    places = range(_NEW_HEADER.size, _NEW_HEADER.size + count * _NEW_ENTRY.size, _NEW_ENTRY.size)
    entries = [_NEW_ENTRY.unpack_from(content, place) for place in places]
    return _named(content, [(key, value) for _flags, key, value, _version, _hardware in entries])


def _named(strings: bytes, offsets: list[tuple[int, int]]) -> tuple[CachedLibrary, ...]:
    found = [(_text(strings, key), _text(strings, value)) for key, value in offsets]
    return tuple(CachedLibrary(name, path) for name, path in found if name and path.startswith("/"))


def _text(strings: bytes, offset: int) -> str:
    """The text at the offset; empty where there is none, or none that a path can be."""
    end = strings.find(b"\0", offset, offset + _PATH_LIMIT)
    if offset >= len(strings) or end < 0:
        return ""
    try:
        return strings[offset:end].decode()
    except UnicodeDecodeError:
        return ""


def _cut(path: str) -> Error:
    return HardwareError(f"{path} ends in the middle: run ldconfig", path=path)


def _library(descriptor: int) -> SharedLibrary | None:
    header = _ELF.unpack(_read(descriptor, _ELF.size, 0))
    magic, is_64, is_little, _version, _type, machine = header[:6]
    if (magic, is_64, is_little) != (b"\x7fELF", 2, 1):
        return None
    offset, size, count = header[8], header[12], header[13]
    if size != _SEGMENT.size or count * size > _TABLE_LIMIT:
        return None
    table = _read(descriptor, count * size, offset)
    segments = [_SEGMENT.unpack_from(table, at * size) for at in range(count)]
    loads = [(segment[3], segment[2], segment[5]) for segment in segments if segment[0] == _SEGMENT_LOAD]
    dynamic = next((segment for segment in segments if segment[0] == _SEGMENT_DYNAMIC), None)
    soname = "" if dynamic is None else _soname(descriptor, dynamic[2], dynamic[5], loads)
    return SharedLibrary(machine, soname)


def _soname(descriptor: int, offset: int, size: int, loads: list[tuple[int, int, int]]) -> str:
    tags: dict[int, int] = {}
    table = _read(descriptor, min(size, _TABLE_LIMIT), offset)
    for tag, value in _DYNAMIC.iter_unpack(table[: len(table) // _DYNAMIC.size * _DYNAMIC.size]):
        if tag == _TAG_END:
            break
        tags.setdefault(tag, value)
    if _TAG_SONAME not in tags or _TAG_STRINGS not in tags:
        return ""
    strings = tags[_TAG_STRINGS]
    for address, place, length in loads:
        if address <= strings < address + length:
            at = strings - address + place + tags[_TAG_SONAME]
            return _text(_read(descriptor, _PATH_LIMIT, at), 0)
    return ""


def _read(descriptor: int, size: int, offset: int) -> bytes:
    """As much as is there; nothing beyond what a file can have."""
    return os.pread(descriptor, size, offset) if offset < _OFFSETS else b""
