"""The reference implementation of CDI as a running program: built once for each state of its source. It needs Go."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from dray.testing.kubernetes.tools import cache_dir

SOURCE = Path(__file__).parent


def cdi_program() -> Path:
    """The program. The build shares Go's own cache with the other tools."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        digest.update(name.encode() + (SOURCE / name).read_bytes())
    program = cache_dir().parent / "oracle" / digest.hexdigest()[:16] / "oracle-cdi"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
        with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
            built = Path(scratch) / "oracle-cdi"
            command = ["go", "build", "-p", "2", "-trimpath", "-ldflags", "-s -w", "-o", str(built), "."]
            subprocess.run(command, cwd=SOURCE, env=environment, check=True)
            built.rename(program)
    return program


class CdiOracle:
    """The running program; leave it to end it. Nothing is kept between questions."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([cdi_program()], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> CdiOracle:
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

    def ask(self, **question: Any) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(question).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the oracle ended at {question}"
        answer: dict[str, Any] = json.loads(line)
        return answer
