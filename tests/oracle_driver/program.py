"""Those who read what a DRA driver writes, as a running program: Kubernetes' ResourceSlice controller and metadata
decoder, and KubeVirt's virt-launcher.
"""

from __future__ import annotations

from pathlib import Path

from tests.go_oracle import GoOracle, go_program

SOURCE = Path(__file__).parent


def program() -> Path:
    return go_program(SOURCE, SOURCE / "go.mod", "oracle-driver")


class DriverOracle(GoOracle):
    """It is asked for the end of `slices`, or for `metadata`; see main.go."""

    def __init__(self) -> None:
        super().__init__([program()])
