"""kube-scheduler's own plugins as a running program. It is built with the module file of the real kube-scheduler of `make e2e`,
so that both are one version and share Go's cache.
"""

from __future__ import annotations

from pathlib import Path

from tests.go_oracle import GoOracle, go_program

SOURCE = Path(__file__).parent
MODULE = SOURCE.parent / "e2e" / "tools" / "kubernetes" / "go.mod"


def program() -> Path:
    return go_program(SOURCE, MODULE, "oracle-fit")


class FitOracle(GoOracle):
    """It says for a pod what each plugin thinks of each node, and whom a change wakes. `gates` are GATE=true."""

    def __init__(self, *gates: str) -> None:
        super().__init__([program(), *gates])
