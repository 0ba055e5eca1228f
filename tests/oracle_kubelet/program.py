"""The kubelet's oracle as a running program: built once for each state of its source, then asked case by case.

It needs Go and, the first time, the module registry. It is built with the module file of the real kubelet of `make e2e`, so
that both are one version and share Go's cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from dray.testing.kubernetes.tools import cache_dir

SOURCE = Path(__file__).parent
MODULE = SOURCE.parent / "e2e" / "tools" / "kubernetes" / "go.mod"

Case = dict[str, Any]
Answer = dict[str, Any]


def oracle_program() -> Path:
    """The program. The build is quiet about CPU: two compilers at most."""
    digest = hashlib.sha256()
    own = sorted(path for path in SOURCE.iterdir() if path.suffix in (".go", ".s", ".mod"))
    for path in (MODULE, MODULE.with_suffix(".sum"), *own):
        digest.update(path.name.encode() + path.read_bytes())
    program = cache_dir().parent / "oracle-kubelet" / digest.hexdigest()[:16] / "oracle"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
        with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
            built = Path(scratch) / "oracle"
            command = ["go", "build", "-p", "2", "-trimpath", "-ldflags", "-s -w"]
            command += [f"-modfile={MODULE}", "-o", str(built), "."]
            subprocess.run(command, cwd=SOURCE, env=environment, check=True)
            built.rename(program)
    return program


class KubeletOracle:
    """A running oracle; leave it to end the program. One question, one answer: nothing is kept between cases."""

    def __init__(self, question: Literal["merge", "devices"]) -> None:
        self._process = subprocess.Popen(
            [str(oracle_program()), question], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> KubeletOracle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=5)

    def ask(self, case: Case) -> Answer:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(case).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the oracle ended at case {case.get('name')}"
        answer: Answer = json.loads(line)
        return answer
