"""Install what a real node needs: unpack Debian packages and build Go programs into the cache.

Each program appears under its final name only when it is complete, so an interrupted run is simply run again.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dray.errors import DeniedError, InvalidError, NotFoundError
from dray.testing import debian
from dray.testing.install_steps import Say, Waiting, last_line, run_again
from dray.testing.kubernetes.tools import DEBIAN_PROGRAMS, GO_MODULES, GoModule, Tools


def check_machine() -> None:
    """Raise one clear line where this machine cannot run the cluster at all."""
    if platform.system() != "Linux":
        raise InvalidError(f"make e2e needs Linux; this is {platform.system()}.")
    if os.geteuid() != 0:
        raise DeniedError(
            "make e2e needs root (it starts a kubelet and containers); run it as root or with sudo."
        )
    if shutil.which("go") is None:
        raise NotFoundError(
            "make e2e needs Go >= 1.26 on PATH (it builds Kubernetes); see https://go.dev/dl/."
        )


def install(tools: Tools, say: Say) -> None:
    """Install what is missing; returns at once when nothing is. `say` gets one line of progress at a time."""
    check_machine()
    missing = tools.missing()
    if not missing:
        return
    started = time.monotonic()
    say(f"installing a real Kubernetes into {tools.cache} (first time: up to 15 minutes)")
    if any(program in DEBIAN_PROGRAMS for program in missing):
        _unpack_debian(tools, say)
    for module in GO_MODULES:
        wanted = [program for program in module.programs if program in missing]
        if wanted:
            _build_module(tools, module, wanted, say)
    say(f"installed in {time.monotonic() - started:.0f} s")


def _unpack_debian(tools: Tools, say: Say) -> None:
    debian.check_debian()
    packages = sorted({package for package, _ in DEBIAN_PROGRAMS.values()})
    say(f"fetching Debian packages {', '.join(packages)}")
    final = tools.debian_dir()
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="debian-", dir=final.parent) as scratch:
        downloads = Path(scratch) / "downloads"
        downloads.mkdir()
        debian.download(packages, downloads)
        unpacked = Path(scratch) / "unpacked"
        debian.unpack(downloads.glob("*.deb"), unpacked)
        shutil.rmtree(final, ignore_errors=True)
        unpacked.rename(final)
    absent = [program for program in DEBIAN_PROGRAMS if not tools.path(program).exists()]
    if absent:
        raise NotFoundError(
            f"Debian's packages {', '.join(packages)} did not hold {', '.join(absent)} where expected."
        )


def _build_module(tools: Tools, module: GoModule, programs: Sequence[str], say: Say) -> None:
    source = tools.modules / module.name
    say(f"building {module.name} {module.version} with {_go_version(source)}")
    target = tools.module_dir(module)
    target.mkdir(parents=True, exist_ok=True)
    for number, program in enumerate(programs, 1):
        title = f"  {number}/{len(programs)} {program}"
        started = time.monotonic()
        _build(source, module, program, target, partial(_say_waiting, say, title))
        size = (target / program).stat().st_size / 1e6
        say(f"{title}: {size:.0f} MB in {time.monotonic() - started:.0f} s")


def _say_waiting(say: Say, title: str, spent: float) -> None:
    say(f"{title} ... {spent:.0f} s")


def _go_version(source: Path) -> str:
    """The Go release that will build `source`. Go fetches a newer one itself where the module asks for it."""
    answer = subprocess.run(
        ["go", "env", "GOVERSION"], cwd=source, capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise InvalidError(f"make e2e needs Go >= 1.26: {last_line(answer.stderr)}")
    return answer.stdout.strip()


def _build(source: Path, module: GoModule, program: str, target: Path, waiting: Waiting) -> None:
    unfinished = target / f".{program}.{os.getpid()}"
    command = ["go", "build", "-trimpath", "-tags", module.tags, "-ldflags", module.ldflags]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    try:
        run_again([*command, "-o", str(unfinished), module.programs[program]], source, environment, waiting)
        unfinished.rename(target / program)
    finally:
        unfinished.unlink(missing_ok=True)
