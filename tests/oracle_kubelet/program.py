"""The kubelet's oracle as a running program. It is built with the module file of the real kubelet of `make e2e`, so that both are
one version and share Go's cache.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tests.go_oracle import GoOracle, go_program

SOURCE = Path(__file__).parent
MODULE = SOURCE.parent / "e2e" / "tools" / "kubernetes" / "go.mod"


def program() -> Path:
    return go_program(SOURCE, MODULE, "oracle-kubelet")


class KubeletOracle(GoOracle):
    """The kubelet's own device and topology managers."""

    def __init__(self, question: Literal["merge", "devices"]) -> None:
        super().__init__([program(), question])
