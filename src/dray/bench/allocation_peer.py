"""Kubernetes' own allocator as the peer: the oracle of the checkout's tests, built and asked for workloads."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from dray.bench.peers import build_go
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
        build_go(source, program, ".", what="the Go oracle")
    return program


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
