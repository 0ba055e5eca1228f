"""The reference implementation of CDI as a running program."""

from __future__ import annotations

from pathlib import Path

from tests.go_oracle import GoOracle, go_program

SOURCE = Path(__file__).parent


def program() -> Path:
    return go_program(SOURCE, SOURCE / "go.mod", "oracle-cdi")


class CdiOracle(GoOracle):
    """It has one question, with the fields that a case has."""

    def __init__(self) -> None:
        super().__init__([program()])
