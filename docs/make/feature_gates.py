"""The feature gates that Dray knows, out of the table that decides which are on."""

from __future__ import annotations

from docs.make.made import table
from dray.semantics.features import RELEASES, Gate, graduation


def feature_gates() -> str:
    """A row for each gate, a column for each release of Kubernetes."""
    head = ("gate", *(f"1.{minor}" for minor in RELEASES))
    return table(head, ((f"`{gate}`", *(_state(gate, minor) for minor in RELEASES)) for gate in Gate))


def _state(gate: Gate, minor: int) -> str:
    found = graduation(gate, minor)
    return f"{found.stage}, {'on' if found.default else 'off'}" if found is not None else "–"
