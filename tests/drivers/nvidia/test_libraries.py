from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from dray.cdi.edits import Mount
from dray.drivers.nvidia.libraries import Library, driver_version, find_driver_files
from dray.errors import HardwareError, NotFoundError
from dray.hardware.host_root import HostRoot
from dray.hardware.shared_libraries import AARCH64, X86_64
from tests.hardware.elf_files import library, new_cache

VERSION = "580.159.04"
DEBIAN = "usr/lib/x86_64-linux-gnu"
OPEN_MODULE = (
    f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {VERSION}  Release Build  (root@host)\n"
)
CLOSED_MODULE = f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {VERSION}  Tue Jan  1 00:00:00 UTC 2026\n"


@pytest.fixture
def root(tmp_path: Path) -> HostRoot:
    file(tmp_path / "proc/driver/nvidia/version", f"{OPEN_MODULE}GCC version:  gcc version 13.3.0\n")
    return HostRoot(tmp_path)


def file(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def install(directory: Path, name: str, soname: str = "", machine: int = X86_64) -> None:
    """A library of the driver with its links, as the driver's installer leaves them."""
    library(directory / f"{name}.so.{VERSION}", soname or f"{name}.so.{VERSION}", machine)
    if soname:
        (directory / soname).symlink_to(f"{name}.so.{VERSION}")
        (directory / f"{name}.so").symlink_to(soname)


def driver(directory: Path, machine: int = X86_64) -> None:
    install(directory, "libcuda", "libcuda.so.1", machine)
    install(directory, "libnvidia-ml", "libnvidia-ml.so.1", machine)
    install(directory, "libnvidia-gpucomp", machine=machine)


@pytest.mark.parametrize("text", [OPEN_MODULE, CLOSED_MODULE])
def test_the_version_is_the_kernel_modules(root: HostRoot, text: str) -> None:
    file(root.path / "proc/driver/nvidia/version", text)
    assert driver_version(root) == VERSION


def test_without_a_driver(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="modprobe nvidia"):
        driver_version(HostRoot(tmp_path))
    file(tmp_path / "proc/driver/nvidia/version", "something else")
    with pytest.raises(HardwareError, match="no driver version"):
        driver_version(HostRoot(tmp_path))


def test_every_name_of_a_library_in_both_directories_that_loaders_search(root: HostRoot) -> None:
    driver(root.path / DEBIAN)
    found = find_driver_files(root)
    assert found.libraries == (
        Library(
            f"/{DEBIAN}/libcuda.so.{VERSION}", ("libcuda.so", "libcuda.so.1", f"libcuda.so.{VERSION}"), X86_64
        ),
        Library(f"/{DEBIAN}/libnvidia-gpucomp.so.{VERSION}", (f"libnvidia-gpucomp.so.{VERSION}",), X86_64),
        Library(
            f"/{DEBIAN}/libnvidia-ml.so.{VERSION}",
            ("libnvidia-ml.so", "libnvidia-ml.so.1", f"libnvidia-ml.so.{VERSION}"),
            X86_64,
        ),
    )
    mounts = found.edits().mounts
    assert len(mounts) == 2 * 7 and all(mount.read_only for mount in mounts)
    for directory in (f"/{DEBIAN}", "/usr/lib64"):
        for name in ("libcuda.so", "libcuda.so.1", f"libcuda.so.{VERSION}"):
            assert Mount(f"/{DEBIAN}/libcuda.so.{VERSION}", f"{directory}/{name}", read_only=True) in mounts


def test_the_soname_is_mounted_where_the_host_has_no_link(root: HostRoot) -> None:
    """An image that was never run through ldconfig."""
    library(root.path / "usr/lib64" / f"libcuda.so.{VERSION}", "libcuda.so.1")
    library(root.path / "usr/lib64" / f"libnvidia-ml.so.{VERSION}", "libnvidia-ml.so.1")
    names = [library.names for library in find_driver_files(root).libraries]
    assert names == [
        ("libcuda.so.1", f"libcuda.so.{VERSION}"),
        ("libnvidia-ml.so.1", f"libnvidia-ml.so.{VERSION}"),
    ]


def test_a_directory_that_only_the_loaders_cache_knows(root: HostRoot) -> None:
    """As on the H200 the recording is from: libraries in a place of their own, and links to them in /usr/lib."""
    there = root.path / "opt/vendor/nvidia/lib64"
    driver(there)
    (root.path / "usr/lib").mkdir(parents=True)
    (root.path / "lib").symlink_to("usr/lib")
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (root.path / "usr/lib" / name).symlink_to(f"/opt/vendor/nvidia/lib64/{name}")
    (root.path / "etc").mkdir()
    cache = [("libcuda.so.1", "/lib/libcuda.so.1"), ("libz.so.1", "/lib/libz.so.1")]
    (root.path / "etc/ld.so.cache").write_bytes(new_cache(cache))
    found = find_driver_files(root)
    assert [library.path for library in found.libraries] == [
        f"/opt/vendor/nvidia/lib64/{name}.so.{VERSION}"
        for name in ("libcuda", "libnvidia-gpucomp", "libnvidia-ml")
    ]
    assert found.libraries[0].names == ("libcuda.so", "libcuda.so.1", f"libcuda.so.{VERSION}")


def test_debians_alternatives(root: HostRoot) -> None:
    """libcuda.so.1 leads through /etc/alternatives into a directory of the version in use."""
    real = root.path / DEBIAN / "nvidia/special"
    driver(real)
    (root.path / "etc/alternatives").mkdir(parents=True)
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        (root.path / "etc/alternatives" / name).symlink_to(f"/{DEBIAN}/nvidia/special/{name}")
        (root.path / DEBIAN / name).symlink_to(f"/etc/alternatives/{name}")
    cache = [
        ("libcuda.so.1", f"/{DEBIAN}/libcuda.so.1"),
        ("libnvidia-ml.so.1", f"/{DEBIAN}/libnvidia-ml.so.1"),
    ]
    (root.path / "etc/ld.so.cache").write_bytes(new_cache(cache))
    assert [library.path for library in find_driver_files(root).libraries] == [
        f"/{DEBIAN}/nvidia/special/{name}.so.{VERSION}"
        for name in ("libcuda", "libnvidia-gpucomp", "libnvidia-ml")
    ]


def test_other_versions_other_machines_and_what_is_no_library_stay_out(root: HostRoot) -> None:
    driver(root.path / DEBIAN)
    library(root.path / DEBIAN / "libnvidia-old.so.535.1", "libnvidia-old.so.1")
    library(root.path / DEBIAN / f"libnvidia-small.so.{VERSION}", "libnvidia-small.so.1", is_64=False)
    library(root.path / DEBIAN / f"libnvidia-other.so.{VERSION}", "libnvidia-other.so.1", machine=8)
    file(root.path / DEBIAN / f"libnvidia-text.so.{VERSION}", "INPUT(libcuda.so)")
    (root.path / DEBIAN / f"libnvidia-gone.so.{VERSION}").symlink_to("nothing")
    found = find_driver_files(root)
    assert [library.path.rpartition("/")[2].partition(".")[0] for library in found.libraries] == [
        "libcuda",
        "libnvidia-gpucomp",
        "libnvidia-ml",
    ]


def test_a_name_that_a_library_gives_itself_is_no_path(root: HostRoot) -> None:
    driver(root.path / DEBIAN)
    library(root.path / DEBIAN / f"libnvidia-evil.so.{VERSION}", "../../../etc/passwd")
    names = {name for library in find_driver_files(root).libraries for name in library.names}
    assert not [name for name in names if "/" in name]


def test_arm(root: HostRoot) -> None:
    driver(root.path / "usr/lib/aarch64-linux-gnu", AARCH64)
    directories = {
        mount.container_path.rpartition("/")[0] for mount in find_driver_files(root).edits().mounts
    }
    assert directories == {"/usr/lib/aarch64-linux-gnu", "/usr/lib64"}


def test_a_driver_that_a_container_brought(root: HostRoot) -> None:
    inside = root.path / "run/nvidia/driver"
    driver(inside / DEBIAN)
    library(inside / "usr/bin/nvidia-smi")
    driver(root.path / "usr/lib64")  # an old installation of the host itself, which must not count
    found = find_driver_files(root, "/run/nvidia/driver")
    assert {library.path.startswith(f"/run/nvidia/driver/{DEBIAN}/") for library in found.libraries} == {True}
    assert found.others == (("/run/nvidia/driver/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi"),)


def test_programs_sockets_and_firmware_where_they_are(
    root: HostRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(root.path / DEBIAN)
    library(root.path / "usr/bin/nvidia-smi")
    file(root.path / "usr/bin/nvidia-debugdump", "#!/bin/sh\nexec /usr/local/nvidia/bin/nvidia-debugdump\n")
    library(root.path / "usr/local/nvidia/bin/nvidia-debugdump")
    file(root.path / f"lib/firmware/nvidia/{VERSION}/gsp_tu10x.bin")
    file(root.path / "lib/firmware/nvidia/535.1/gsp_tu10x.bin")
    (root.path / "run/nvidia-persistenced").mkdir(parents=True)
    monkeypatch.chdir(root.path)  # a socket's path may be 107 bytes long
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("run/nvidia-persistenced/socket")
        found = find_driver_files(root)
    assert found.others == (
        ("/usr/local/nvidia/bin/nvidia-debugdump", "/usr/bin/nvidia-debugdump"),
        ("/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi"),
        ("/run/nvidia-persistenced/socket", "/run/nvidia-persistenced/socket"),
        (f"/lib/firmware/nvidia/{VERSION}", f"/lib/firmware/nvidia/{VERSION}"),
    )
    assert Mount("/usr/bin/nvidia-smi", "/usr/bin/nvidia-smi", read_only=True) in found.edits().mounts


def test_a_driver_without_its_libraries_says_what_to_do(root: HostRoot) -> None:
    with pytest.raises(HardwareError, match=r"driver 580\.159\.04 is loaded.*no libcuda\.so\.1.*driver root"):
        find_driver_files(root)
    install(root.path / DEBIAN, "libcuda", "libcuda.so.1")
    with pytest.raises(HardwareError, match=r"no libnvidia-ml\.so\.1"):
        find_driver_files(root)


def test_the_same_host_gives_the_same_bytes(root: HostRoot) -> None:
    driver(root.path / DEBIAN)
    driver(root.path / "usr/lib64")
    assert find_driver_files(root) == find_driver_files(root)
    assert find_driver_files(root).edits() == find_driver_files(root).edits()


def test_a_cache_that_cannot_be_read_is_told_and_the_usual_places_do(root: HostRoot) -> None:
    driver(root.path / DEBIAN)
    file(root.path / "etc/ld.so.cache", "nonsense")
    found = find_driver_files(root)
    assert len(found.libraries) == 3 and "run ldconfig" in found.problems[0].message


def age(root: HostRoot) -> None:
    """As if all of it had been there for an hour."""
    before = time.time() - 3600
    for path in (root.path, *root.path.rglob("*")):
        os.utime(path, (before, before), follow_symlinks=False)


def test_an_unchanged_host_is_not_searched_again(root: HostRoot) -> None:
    driver(root.path / DEBIAN)
    file(root.path / "etc/ld.so.cache", "nonsense")
    assert (
        find_driver_files(root).problems is not find_driver_files(root).problems
    )  # just installed: not sure yet
    age(root)
    assert find_driver_files(root).problems is find_driver_files(root).problems


def test_what_changed_since_the_last_look_is_seen(root: HostRoot) -> None:
    there = root.path / "opt/nvidia-new"
    install(there, "libnvidia-far", "libnvidia-far.so.1")
    driver(root.path / DEBIAN)
    (root.path / "etc").mkdir()
    age(root)
    first = find_driver_files(root)
    library(root.path / DEBIAN / f"libnvidia-new.so.{VERSION}", "libnvidia-new.so.1")
    assert len(find_driver_files(root).libraries) == len(first.libraries) + 1
    (root.path / DEBIAN / f"libnvidia-new.so.{VERSION}").unlink()
    assert find_driver_files(root) == first
    age(root)
    assert find_driver_files(root) == first
    cache = [("libnvidia-far.so.1", "/opt/nvidia-new/libnvidia-far.so.1")]
    (root.path / "etc/ld.so.cache").write_bytes(new_cache(cache))
    assert len(find_driver_files(root).libraries) == len(first.libraries) + 1
    age(root)
    find_driver_files(root)
    install(there, "libnvidia-further", "libnvidia-further.so.1")
    assert len(find_driver_files(root).libraries) == len(first.libraries) + 2
    file(root.path / "proc/driver/nvidia/version", OPEN_MODULE.replace(VERSION, "581.1"))
    with pytest.raises(HardwareError, match=r"driver 581\.1 is loaded"):
        find_driver_files(root)


def test_a_library_that_goes_is_missed_at_once(root: HostRoot) -> None:
    driver(root.path / "usr/lib64")
    for wait in (False, True):
        if wait:
            driver(root.path / "usr/lib64")
            age(root)
        find_driver_files(root)
        for path in (root.path / "usr/lib64").iterdir():
            path.unlink()
        with pytest.raises(HardwareError, match=r"no libcuda\.so\.1"):
            find_driver_files(root)
