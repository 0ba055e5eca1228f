"""Kubernetes' own device and topology managers as the peer: the oracle of the checkout's tests, built and asked for times."""

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

SOURCE = Path("tests/oracle_kubelet")
MODULE = Path("tests/e2e/tools/kubernetes/go.mod")
PEER = "Go kubelet (Kubernetes 1.36.4)"
_SECONDS = 600.0


def kubelet_peer(source: Path = SOURCE, module: Path = MODULE, *, build: bool = True) -> Path:
    """The program, built once for each state of its source. NotFoundError says why there is none."""
    if not (source / "load.go").is_file():
        raise NotFoundError(
            f"the Go oracle's source {source} is not here: run from a checkout of Dray", kind="peer"
        )
    digest = hashlib.sha256()
    own = (path for path in source.iterdir() if path.suffix in (".go", ".s", ".mod"))
    for path in (module, module.with_suffix(".sum"), *sorted(own)):
        digest.update(path.name.encode() + path.read_bytes())
    program = cache_dir().parent / "bench" / digest.hexdigest()[:16] / "oracle"
    if not program.exists():
        if not build or shutil.which("go") is None:
            raise NotFoundError(
                "the Go oracle is not built: `dray bench kubelet` builds it where Go is on PATH", kind="peer"
            )
        build_go(source, program, f"-modfile={module.resolve()}", ".", what="the Go oracle")
    return program


def ask_merge(program: Path, document: dict[str, Any]) -> dict[str, Any]:
    """The merged hint, and the time of the fastest merge."""
    done = subprocess.run(
        [str(program), "merging"],
        input=json.dumps(document).encode() + b"\n",
        stdout=subprocess.PIPE,
        timeout=_SECONDS,
        check=False,
    )
    answer: dict[str, Any] = json.loads(done.stdout or b"{}")
    if done.returncode or answer.get("error", "it said nothing"):
        raise ProtocolError(
            f"the Go oracle could not merge {document['name']}: {answer.get('error') or done.returncode}"
        )
    return answer
