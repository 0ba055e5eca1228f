"""Install what a guest needs: unpack Debian's QEMU and kernel into the cache, and build the one module it lacks.

The result appears under its final name only when it is complete, so an interrupted run is simply run again.
"""

from __future__ import annotations

import fcntl
import platform
import re
import shutil
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from dray.errors import InvalidError, NotFoundError
from dray.testing import debian
from dray.testing.install_steps import Say, run_step
from dray.testing.machine import modules
from dray.testing.machine.parts import BUILD_PACKAGES, LEFT_OUT, MODULES, PACKAGES, Parts, library_path

# A parent device in software that offers mediated devices. The kernel has it as a sample, so no package ships it built.
SAMPLE = "samples/vfio-mdev/mtty.c"
# It has 24 ports; to make and remove devices for all of them takes long in a guest.
_ALL_PORTS, _FEW_PORTS = re.compile(r"(#define\s+MAX_MTTYS\s+)\d+"), r"\g<1>8"
# Much of what is unpacked and never read here.
_NOT_KEPT = ("boot", "lib/modules", "usr/lib/modules", "usr/share/doc", "usr/share/locale", "usr/share/man")


def check_machine() -> None:
    """Raise one clear line where this machine cannot run the guest: it shares the machine's own programs."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise InvalidError(
            f"make e2e needs Linux on x86_64; this is {platform.system()} on {platform.machine()}."
        )
    debian.check_debian()


def install(parts: Parts, say: Say) -> None:
    """Install unless it is there already. Two at once are fine: the second waits, and finds it done."""
    check_machine()
    if parts.is_installed():
        return
    parts.directory.parent.mkdir(parents=True, exist_ok=True)
    with _alone(parts.directory.parent / "machine.lock"):
        if parts.is_installed():
            return
        started = time.monotonic()
        say(f"installing a QEMU guest into {parts.directory} (first time: about a minute)")
        scratch = parts.directory.with_suffix(".unfinished")
        shutil.rmtree(scratch, ignore_errors=True)
        _install(Parts(scratch / "result"), scratch, say)
        (scratch / "result").rename(parts.directory)
        shutil.rmtree(scratch)
        size = sum(path.lstat().st_size for path in parts.directory.rglob("*")) / 1e6
        say(f"installed {size:.0f} MB in {time.monotonic() - started:.0f} s")


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _install(parts: Parts, scratch: Path, say: Say) -> None:
    root, build = parts.directory / "root", scratch / "build"
    _unpack(PACKAGES, scratch / "packages", root, say)
    _unpack(BUILD_PACKAGES, scratch / "build-packages", build, say)
    say(f"building {Path(SAMPLE).stem}.ko")
    mtty = _build_sample(build, scratch / "sample")
    kernels = sorted((root / "boot").glob("vmlinuz-*"))
    if len(kernels) != 1:
        raise NotFoundError(f"Debian's linux-image-amd64 holds {len(kernels)} kernels instead of one.")
    kernels[0].rename(parts.kernel)
    _keep_modules(root, mtty, parts.modules)
    for name in _NOT_KEPT:
        shutil.rmtree(root / name, ignore_errors=True)
    for path in sorted(root.rglob("*")):
        if path.is_symlink() and not path.exists():  # to what is not kept, or an installation would have made
            path.unlink()


def _unpack(packages: tuple[str, ...], downloads: Path, into: Path, say: Say) -> None:
    downloads.mkdir(parents=True)
    say(f"fetching Debian packages {', '.join(packages)} and what they need")
    debian.download_closure(packages, downloads)
    archives = sorted(downloads.glob("*.deb"))
    say(f"  {len(archives)} packages, {sum(path.stat().st_size for path in archives) / 1e6:.0f} MB")
    debian.unpack(archives, into, LEFT_OUT)


def _build_sample(build: Path, work: Path) -> Path:
    """Build the module as Debian's headers say, with their compiler, wherever they are unpacked."""
    work.mkdir()
    _extract(build, SAMPLE, work)
    source = work / Path(SAMPLE).name
    source.write_text(_ALL_PORTS.sub(_FEW_PORTS, source.read_text()))
    (work / "Makefile").write_text(f"obj-m := {source.stem}.o\n")
    headers = _one(build, "usr/src/linux-headers-*/Module.symvers").parent
    makefile = headers / "Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src/", f"{build}/usr/src/"))
    env = {"PATH": f"{build}/usr/bin:/usr/sbin:/usr/bin:/sbin:/bin", **library_path(build)}
    run_step(["make", "-C", str(headers), f"M={work}", f"CC={_compiler(headers)}", "modules"], work, env)
    return source.with_suffix(".ko")


def _extract(build: Path, name: str, into: Path) -> None:
    """Take one file out of the kernel's source; what is packed after it is not read."""
    with tarfile.open(_one(build, "usr/src/linux-source-*.tar.xz"), "r|xz") as source:
        for member in source:
            if member.name.partition("/")[2] == name:
                content = source.extractfile(member)
                assert content is not None
                (into / Path(name).name).write_bytes(content.read())
                return
    raise NotFoundError(f"Debian's linux-source holds no {name}.")


def _compiler(headers: Path) -> str:
    """The compiler that built the kernel: modules must be built with the same."""
    for line in (headers / "include" / "config" / "auto.conf").read_text().splitlines():
        key, _, value = line.partition("=")
        if key == "CONFIG_CC_VERSION_TEXT":
            return value.strip('"').split()[0]
    raise NotFoundError(f"{headers} does not say which compiler built the kernel.")


def _keep_modules(root: Path, mtty: Path, into: Path) -> None:
    into.mkdir()
    found = {**modules.names(root), mtty.stem: mtty}
    read = partial(_read, found)
    order = modules.load_order(MODULES, read, modules.builtin(root))
    for name in order:
        (into / f"{name}.ko").write_bytes(read(name))
    (into / "order").write_text("".join(f"{name}\n" for name in order))


def _read(found: dict[str, Path], name: str) -> bytes:
    if name not in found:
        raise NotFoundError(
            f"Debian's kernel has no module {name}, neither built in nor apart.", kind="module", name=name
        )
    return modules.read_module(found[name])


def _one(directory: Path, pattern: str) -> Path:
    found = sorted(directory.glob(pattern))
    if len(found) != 1:
        raise NotFoundError(f"{directory} holds {len(found)} of {pattern} instead of one.")
    return found[0]
