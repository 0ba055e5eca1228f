"""Shared libraries made by hand: as much of ELF as tells what a library is called. No compiler is needed."""

from __future__ import annotations

import struct
from pathlib import Path

X86_64 = 62


def elf(soname: str, machine: int = X86_64, *, is_64: bool = True) -> bytes:
    """A library with one segment, whose dynamic section names it; without `soname` it has no such entry."""
    strings = b"\0" + soname.encode() + b"\0"
    base, header, segments = 0x1000, 64, 2 * 56
    at = header + segments
    tags = [(5, base + at), *([(14, 1)] if soname else []), (0, 0)]
    dynamic = b"".join(struct.pack("<qQ", *tag) for tag in tags)
    size = at + len(strings) + len(dynamic)
    start = struct.pack(
        "<4sBBB9xHHIQQQIHHHHHH",
        b"\x7fELF",
        2 if is_64 else 1,
        1,
        1,
        3,
        machine,
        1,
        0,
        64,
        0,
        0,
        64,
        56,
        2,
        0,
        0,
        0,
    )
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 0x1000)
    own = struct.pack("<IIQQQQQQ", 2, 4, at + len(strings), base, base, len(dynamic), len(dynamic), 8)
    return start + load + own + strings + dynamic


def library(path: Path, soname: str = "", machine: int = X86_64, *, is_64: bool = True) -> Path:
    """The same as a file, with its directories."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(elf(soname, machine, is_64=is_64))
    return path


def old_cache(entries: list[tuple[str, str]]) -> bytes:
    """A loader's cache as glibc wrote it before 2.2."""
    places, strings = [], b""
    for name, path in entries:
        places.append((len(strings), len(strings) + len(name) + 1))
        strings += name.encode() + b"\0" + path.encode() + b"\0"
    rows = b"".join(struct.pack("<iII", 0x0303, key, value) for key, value in places)
    return b"ld.so-1.7.0\0" + struct.pack("<I", len(entries)) + rows + strings


def new_cache(entries: list[tuple[str, str]]) -> bytes:
    """A loader's cache as glibc writes it."""
    rows, strings = b"", b""
    at = 48 + 24 * len(entries)
    for name, path in entries:
        key = at + len(strings)
        rows += struct.pack("<iIIIQ", 0x0303, key, key + len(name) + 1, 0, 0)
        strings += name.encode() + b"\0" + path.encode() + b"\0"
    return (
        struct.pack("<20sIIB3xI12x", b"glibc-ld.so.cache1.1", len(entries), len(strings), 2, 0)
        + rows
        + strings
    )
