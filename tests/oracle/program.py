"""The allocator's and the selectors' oracle as a running program."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tests.go_oracle import GoOracle, go_program

SOURCE = Path(__file__).parent
MODULES = {"1.36": "go.mod", "1.37": "kubernetes-1.37.mod"}
"""The module file of each version of Kubernetes. The program is the same."""

Question = Literal["allocate", "select", "evaluate", "bench"]


def program(version: str) -> Path:
    return go_program(SOURCE, SOURCE / MODULES[version])


class Oracle(GoOracle):
    """Kubernetes' own allocator, or its CEL."""

    def __init__(
        self,
        question: Question,
        *,
        tier: str = "experimental",
        timeout: str = "5s",
        version: str = "1.36",
    ) -> None:
        super().__init__([program(version), question, "-tier", tier, "-timeout", timeout])
