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
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from dray.errors import DeniedError, InvalidError, NotFoundError, UnavailableError
from dray.testing.kubernetes.tools import DEBIAN_PROGRAMS, GO_MODULES, GoModule, Tools

ATTEMPTS = 3
PAUSE_S = 5.0
HEARTBEAT_S = 30.0

Say = Callable[[str], None]
Waiting = Callable[[float], None]


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
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NotFoundError(
            "make e2e needs a Debian or Ubuntu machine: apt-get and dpkg-deb are not on PATH."
        )
    packages = sorted({package for package, _ in DEBIAN_PROGRAMS.values()})
    say(f"fetching Debian packages {', '.join(packages)}")
    final = tools.debian_dir()
    final.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="debian-", dir=final.parent) as scratch:
        downloads = Path(scratch) / "downloads"
        downloads.mkdir()
        _download_debian(packages, downloads)
        unpacked = Path(scratch) / "unpacked"
        for archive in sorted(downloads.glob("*.deb")):
            _run(["dpkg-deb", "-x", str(archive), str(unpacked)], downloads)
        shutil.rmtree(final, ignore_errors=True)
        unpacked.rename(final)
    absent = [program for program in DEBIAN_PROGRAMS if not tools.path(program).exists()]
    if absent:
        raise NotFoundError(
            f"Debian's packages {', '.join(packages)} did not hold {', '.join(absent)} where expected."
        )


def _download_debian(packages: Sequence[str], into: Path) -> None:
    """Try with the package lists at hand; where that fails they are missing or old, so refresh them."""
    # Without the sandbox option apt warns about a directory its own user cannot enter.
    fetch = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *packages]
    for _ in range(ATTEMPTS):
        try:
            _run(fetch, into)
            return
        except UnavailableError:
            for partial in into.iterdir():
                partial.unlink()
            _run_again(["apt-get", "-q", "update"], into)
    _run(fetch, into)


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
        raise InvalidError(f"make e2e needs Go >= 1.26: {_last_line(answer.stderr)}")
    return answer.stdout.strip()


def _build(source: Path, module: GoModule, program: str, target: Path, waiting: Waiting) -> None:
    unfinished = target / f".{program}.{os.getpid()}"
    command = ["go", "build", "-trimpath", "-tags", module.tags, "-ldflags", module.ldflags]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    try:
        _run_again([*command, "-o", str(unfinished), module.programs[program]], source, environment, waiting)
        unfinished.rename(target / program)
    finally:
        unfinished.unlink(missing_ok=True)


def _run_again(
    argv: Sequence[str], cwd: Path, env: dict[str, str] | None = None, waiting: Waiting | None = None
) -> None:
    """Like `_run`, but a failure (most often the network) is tried twice more."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _run(argv, cwd, env, waiting)
            return
        except UnavailableError:
            if attempt == ATTEMPTS:
                raise
            time.sleep(PAUSE_S * attempt)


def _run(
    argv: Sequence[str], cwd: Path, env: dict[str, str] | None = None, waiting: Waiting | None = None
) -> None:
    """Run a command to its end. `waiting` is told now and then for how many seconds it has been running."""
    started = time.monotonic()
    output = subprocess.PIPE
    with subprocess.Popen(
        ["nice", *argv], cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
    ) as process:
        while True:
            try:
                said, _ = process.communicate(timeout=HEARTBEAT_S)
                break
            except subprocess.TimeoutExpired:
                if waiting is not None:
                    waiting(time.monotonic() - started)
            except BaseException:
                process.kill()
                raise
    if process.returncode != 0:
        why = _last_line(said.decode(errors="replace"))
        raise UnavailableError(f"`{' '.join(argv[:3])} ...` failed ({process.returncode}): {why}")


def _last_line(text: str) -> str:
    """The last lines that say something, short enough for one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-3:])[-500:] or "no output"
