"""The field manager of the real API server as a running program, built with the module file of the Kubernetes of `make e2e`."""

from __future__ import annotations

from pathlib import Path

from tests.go_oracle import GoOracle, go_program

SOURCE = Path(__file__).parent
MODULE = SOURCE.parent / "e2e" / "tools" / "kubernetes" / "go.mod"


def program() -> Path:
    return go_program(SOURCE, MODULE, "oracle-apply")


class ApplyOracle(GoOracle):
    """It is asked for the schema of kinds, or for what a sequence of applies and updates makes."""

    def __init__(self) -> None:
        super().__init__([program()])
