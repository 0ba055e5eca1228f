"""The Go programs that Dray is measured against, built from the checkout's tools modules.

`agent-peer` serves any number of devices on the library of Kubernetes' sample-device-plugin; the sample itself, which
`python -m dray.testing.kubernetes install` builds, has two.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from dray.errors import NotFoundError
from dray.testing.kubernetes.tools import KUBERNETES, cache_dir, locate

MODULES = Path("tests/e2e/tools")
_SECONDS = 900.0


def agent_peer(modules: Path = MODULES, *, build: bool = True) -> Path:
    """The program, built once for each state of its source. NotFoundError says why there is none."""
    module = modules / KUBERNETES.name
    source = module / "agent-peer"
    if not source.is_dir():
        raise NotFoundError(
            f"the Go peer's source {source} is not here: run from a checkout of Dray", kind="peer"
        )
    digest = hashlib.sha256()
    for path in (module / "go.mod", module / "go.sum", *sorted(source.glob("*.go"))):
        digest.update(path.name.encode() + path.read_bytes())
    program = cache_dir().parent / "bench" / digest.hexdigest()[:16] / source.name
    if not program.exists():
        if not build or shutil.which("go") is None:
            raise NotFoundError(
                "the Go peer is not built: `dray bench agent` builds it where Go is on PATH", kind="peer"
            )
        build_go(module, program, f"./{program.name}")
    return program


def sample_plugin(modules: Path = MODULES) -> Path:
    """Kubernetes' own sample. NotFoundError says how to get it."""
    hint = "the Go sample-device-plugin is not built: `python -m dray.testing.kubernetes install` builds it"
    if not (modules / KUBERNETES.name).is_dir():
        raise NotFoundError(hint, kind="peer")
    program = locate(modules).path("sample-device-plugin")
    if not program.exists():
        raise NotFoundError(hint, kind="peer")
    return program


def build_go(source: Path, program: Path, *words: str, what: str = "the Go peer") -> None:
    """With the flags of the e2e builds, so that they share work. It appears under its name when it is complete.

    NotFoundError says what Go said.
    """
    program.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
        unfinished = Path(scratch) / program.name
        command = ["go", "build", "-p", "2", "-trimpath", "-ldflags", "-s -w", "-o", str(unfinished), *words]
        done = subprocess.run(
            command,
            cwd=source,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["go said nothing"])[-1]
            raise NotFoundError(f"{what} cannot be built: {last}", kind="peer")
        unfinished.rename(program)
