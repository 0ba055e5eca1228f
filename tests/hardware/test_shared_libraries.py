from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dray.errors import HardwareError, NotFoundError
from dray.hardware.host_root import HostRoot
from dray.hardware.shared_libraries import (
    AARCH64,
    X86_64,
    CachedLibrary,
    SharedLibrary,
    parse_loader_cache,
    read_loader_cache,
    read_shared_library,
)
from tests.campaign import campaign, seeded
from tests.hardware.elf_files import elf, library, new_cache, old_cache
from tests.waiting import PATIENCE

ENTRIES = [("libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"), ("libz.so.1", "/lib/libz.so.1")]
WANTED = tuple(CachedLibrary(name, path) for name, path in ENTRIES)
THIS = HostRoot(Path("/"))


@pytest.fixture
def root(tmp_path: Path) -> HostRoot:
    (tmp_path / "etc").mkdir()
    return HostRoot(tmp_path)


@pytest.mark.parametrize("write", [old_cache, new_cache])
def test_both_formats(write: Callable[[list[tuple[str, str]]], bytes]) -> None:
    assert parse_loader_cache(write(ENTRIES)) == WANTED
    assert parse_loader_cache(write([])) == ()


@pytest.mark.parametrize("odd", [0, 1])
def test_the_new_format_behind_the_old_one_counts(odd: int) -> None:
    """The old part has another entry, which nobody looks at; the new one begins where the machine likes to align it."""
    old = old_cache([("libold.so.1", "/old")] * (1 + odd))
    start = 16 + 12 * (1 + odd)
    start += -start % 8
    assert parse_loader_cache(old[:start].ljust(start, b"\0") + new_cache(ENTRIES)) == WANTED


@pytest.mark.skipif(os.geteuid() != 0, reason="ldconfig takes another root as root only")
@pytest.mark.parametrize("form", ["new", "compat", "old"])
def test_caches_of_the_real_ldconfig(root: HostRoot, form: str) -> None:
    real = next(entry for entry in read_loader_cache(THIS) if entry.name.startswith("libc.so"))
    directory = root.path / "usr/lib/here"
    directory.mkdir(parents=True)
    shutil.copy(real.path, directory / real.name)
    (root.path / "etc/ld.so.conf").write_text("/usr/lib/here\n")
    ldconfig = shutil.which("ldconfig", path="/usr/sbin:/sbin:/usr/bin") or "ldconfig"
    subprocess.run([ldconfig, "-r", root.path, "-X", "-c", form], check=True, timeout=PATIENCE)
    assert read_loader_cache(root) == (CachedLibrary(real.name, f"/usr/lib/here/{real.name}"),)


def test_this_machine_agrees_with_its_own_cache() -> None:
    """What a cache lists by its soname really has it."""
    entries = [entry for entry in read_loader_cache(THIS) if ".so." in entry.name][:40]
    found = [(entry.name, read_shared_library(THIS, entry.path)) for entry in entries]
    sonames = [(name, one.soname) for name, one in found if one is not None and one.soname]
    agreeing = [name for name, soname in sonames if name == soname]
    assert len(agreeing) >= len(sonames) * 0.8


def test_no_cache_and_no_cache_at_all(root: HostRoot) -> None:
    assert read_loader_cache(root) == ()
    for content in (
        b"",
        b"nonsense",
        new_cache(ENTRIES)[:60],
        old_cache(ENTRIES)[:20],
        b"glibc-ld.so.cache1.1",
    ):
        (root.path / "etc/ld.so.cache").write_bytes(content)
        with pytest.raises(HardwareError, match="run ldconfig"):
            read_loader_cache(root)


def test_damaged_caches_raise_nothing_else() -> None:
    chance = seeded(7)
    for whole in (new_cache(ENTRIES), old_cache(ENTRIES)):
        for _ in range(campaign(300, 100_000)):
            damaged = bytearray(whole[: chance.randrange(len(whole) + 1)])
            for _ in range(chance.randrange(4)):
                if damaged:
                    damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            try:
                entries = parse_loader_cache(bytes(damaged))
            except HardwareError:
                continue
            assert all(entry.name and entry.path.startswith("/") for entry in entries)


def test_what_a_library_is_called(root: HostRoot) -> None:
    library(root.path / "a.so", "libcuda.so.1")
    library(root.path / "b.so", "libcuda.so.1", AARCH64)
    library(root.path / "c.so")
    assert read_shared_library(root, "/a.so") == SharedLibrary(X86_64, "libcuda.so.1")
    assert read_shared_library(root, "/b.so") == SharedLibrary(AARCH64, "libcuda.so.1")
    assert read_shared_library(root, "/c.so") == SharedLibrary(X86_64, "")
    with pytest.raises(NotFoundError):
        read_shared_library(root, "/nothing.so")


def test_what_is_no_library(root: HostRoot) -> None:
    (root.path / "text").write_text("#!/bin/sh\n")
    (root.path / "empty").touch()
    library(root.path / "small", "libcuda.so.1", is_64=False)
    for path in ("/text", "/empty", "/small", "/etc"):
        assert read_shared_library(root, path) is None


def test_damaged_libraries_raise_nothing(root: HostRoot) -> None:
    chance = seeded(8)
    whole = elf("libcuda.so.1")
    for _ in range(campaign(300, 50_000)):
        damaged = bytearray(whole[: chance.randrange(len(whole) + 1)])
        for _ in range(chance.randrange(6)):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        (root.path / "x.so").write_bytes(damaged)
        found = read_shared_library(root, "/x.so")
        assert found is None or isinstance(found.soname, str)
