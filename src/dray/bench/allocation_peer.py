"""Kubernetes' own allocator as the peer: the oracle of the checkout's tests, built and asked for workloads."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from dray.errors import NotFoundError, ProtocolError
from dray.testing.kubernetes.tools import cache_dir

SOURCE = Path("tests/oracle")
PEER = "Go allocator (Kubernetes 1.36.4)"
_SECONDS = 900.0


def allocator_peer(source: Path = SOURCE, *, build: bool = True) -> Path:
    """The program, built once for each state of its source. NotFoundError says why there is none."""
    if not (source / "bench.go").is_file():
        raise NotFoundError(
            f"the Go oracle's source {source} is not here: run from a checkout of Dray", kind="peer"
        )
    digest = hashlib.sha256()
    for path in (source / "go.mod", source / "go.sum", *sorted(source.glob("*.go"))):
        digest.update(path.name.encode() + path.read_bytes())
    program = cache_dir().parent / "bench" / digest.hexdigest()[:16] / "oracle"
    if not program.exists():
        if not build or shutil.which("go") is None:
            raise NotFoundError(
                "the Go oracle is not built: `dray bench allocation` builds it where Go is on PATH",
                kind="peer",
            )
        _build(source, program)
    return program


def _build(source: Path, program: Path) -> None:
    """It appears under its name when it is complete."""
    program.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
        unfinished = Path(scratch) / program.name
        command = ["go", "build", "-p", "2", "-trimpath", "-ldflags", "-s -w", "-o", str(unfinished), "."]
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
            raise NotFoundError(f"the Go oracle cannot be built: {last}", kind="peer")
        unfinished.rename(program)


def ask(program: Path, workload: dict[str, Any], tier: str, seconds: int) -> dict[str, Any]:
    """The peer's placements, with their times. `seconds` is for each call to its allocator."""
    command = [str(program), "bench", "-tier", tier, "-timeout", f"{seconds}s"]
    done = subprocess.run(
        command, input=json.dumps(workload).encode(), stdout=subprocess.PIPE, timeout=_SECONDS, check=False
    )
    if done.returncode or not done.stdout:
        raise ProtocolError(f"the Go oracle ended with {done.returncode} at workload {workload['name']}")
    answer: dict[str, Any] = json.loads(done.stdout)
    if answer["error"]:
        raise ProtocolError(f"the Go oracle could not run workload {workload['name']}: {answer['error']}")
    return answer
