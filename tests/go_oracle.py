"""Go programs that answer questions, one line of JSON each: built once for each state of their source, then asked case by case.

They need Go and, the first time, the module registry.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dray.testing.kubernetes.tools import cache_dir

Case = dict[str, Any]
Answer = dict[str, Any]


def go_program(source: Path, module: Path, name: str = "oracle") -> Path:
    """The program, kept under `name`. Two compilers at most, and Go's own cache is shared with the other tools."""
    digest = hashlib.sha256()
    own = (path for path in source.iterdir() if path.suffix in (".go", ".s"))
    for path in sorted({*own, source / "go.mod", module, module.with_suffix(".sum")}):
        digest.update(path.name.encode() + path.read_bytes())
    program = cache_dir().parent / name / digest.hexdigest()[:16] / "oracle"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
        with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
            built = Path(scratch) / "oracle"
            command = ["go", "build", "-p", "2", "-trimpath", "-ldflags", "-s -w"]
            command += [f"-modfile={module}", "-o", str(built), "."]
            subprocess.run(command, cwd=source, env=environment, check=True)
            built.rename(program)
    return program


class GoOracle:
    """A running program; leave it to end it. One question, one answer: nothing is kept between cases."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
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
        assert line, f"the oracle ended at case {case.get('name', case)}"
        answer: Answer = json.loads(line)
        return answer

    def ask_all(self, cases: Iterable[Case]) -> list[Answer]:
        return [self.ask(case) for case in cases]
