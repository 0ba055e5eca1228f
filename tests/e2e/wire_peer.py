"""The Go program of the interop tests, which calls our services and serves its own (`tests/wire/peer`)."""

from __future__ import annotations

from pathlib import Path

from tests.go_oracle import go_program

SOURCE = Path(__file__).parents[1] / "wire" / "peer"


def peer_program() -> Path:
    return go_program(SOURCE, SOURCE / "go.mod", "wire-peer")
