"""The oracle as a running program: built once for each state of its source, then asked case by case.

It needs Go and, the first time, the module registry.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from dray.testing.kubernetes.tools import cache_dir

SOURCE = Path(__file__).parent
MODULES = {"1.36": "go", "1.37": "kubernetes-1.37"}
"""The module file of each version of Kubernetes, without its ending. The program is the same."""

Case = dict[str, Any]
Answer = dict[str, Any]
Question = Literal["allocate", "select", "evaluate", "bench"]


def oracle_program(version: str = "1.36") -> Path:
    """The program. The build is quiet about CPU (two compilers at most) and shares Go's own cache with the other tools."""
    module = MODULES[version]
    digest = hashlib.sha256()
    for name in (f"{module}.mod", f"{module}.sum", *sorted(path.name for path in SOURCE.glob("*.go"))):
        digest.update(name.encode() + (SOURCE / name).read_bytes())
    program = cache_dir().parent / "oracle" / digest.hexdigest()[:16] / "oracle"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
        with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
            built = Path(scratch) / "oracle"
            command = ["go", "build", "-p", "2", "-trimpath", "-ldflags", "-s -w"]
            command += [f"-modfile={module}.mod", "-o", str(built), "."]
            subprocess.run(command, cwd=SOURCE, env=environment, check=True)
            built.rename(program)
    return program


class Oracle:
    """A running oracle; leave it to end the program. One question, one answer: nothing is kept between cases."""

    def __init__(
        self,
        question: Question,
        *,
        tier: str = "experimental",
        timeout: str = "5s",
        version: str = "1.36",
    ) -> None:
        command = [str(oracle_program(version)), question, "-tier", tier, "-timeout", timeout]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Oracle:
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

    def ask_all(self, cases: Iterable[Case]) -> list[Answer]:
        return [self.ask(case) for case in cases]
