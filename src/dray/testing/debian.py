"""Debian packages, unpacked into a directory and not installed: no service is started, nothing on the machine changes."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from dray.errors import NotFoundError, UnavailableError
from dray.testing.install_steps import ATTEMPTS, run_again, run_step

# Without the sandbox option apt warns about a directory its own user cannot enter.
_APT = ("apt-get", "-q", "-o", "APT::Sandbox::User=root")


def check_debian() -> None:
    """Raise one clear line where packages cannot be had."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NotFoundError(
            "make e2e needs a Debian or Ubuntu machine: apt-get and dpkg-deb are not on PATH."
        )


def download(packages: Sequence[str], into: Path) -> None:
    """Fetch the packages, and nothing they depend on, into the empty directory `into`."""
    _fetch([*_APT, "download", *packages], into)


def download_closure(packages: Sequence[str], into: Path) -> None:
    """Fetch the packages with all they depend on, whatever this machine has of it, into the empty directory `into`."""
    status, archives = into.parent / f"{into.name}.status", into.parent / f"{into.name}.partial"
    status.touch()
    (archives / "partial").mkdir(parents=True)
    options = {
        "Dir::State::status": status,  # a machine on which nothing is installed
        "Dir::Cache::archives": archives,
        "Debug::NoLocking": 1,  # both are ours alone
    }
    said = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    wanted = ["install", "-y", "--no-install-recommends", "--download-only", *packages]
    _fetch([*_APT, *said, *wanted], into)
    for archive in sorted(archives.glob("*.deb")):
        archive.rename(into / archive.name)
    shutil.rmtree(archives)


def unpack(archives: Iterable[Path], into: Path, without: Collection[str] = ()) -> None:
    """Unpack the archives, but not the packages named in `without`, over each other."""
    into.mkdir(parents=True, exist_ok=True)
    for archive in sorted(archives):
        if archive.name.partition("_")[0] not in without:
            run_step(["dpkg-deb", "-x", str(archive), str(into)], archive.parent)


def _fetch(command: Sequence[str], into: Path) -> None:
    """Try with the package lists at hand; where that fails they are missing or old, so refresh them."""
    for _ in range(ATTEMPTS):
        try:
            run_step(command, into)
            return
        except UnavailableError:
            for partial in into.iterdir():
                partial.unlink()
            run_again(["apt-get", "-q", "update"], into)
    run_step(command, into)
