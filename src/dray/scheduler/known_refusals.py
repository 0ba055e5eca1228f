"""What was refused to a pod is refused to the next one that asks for the same, until something changes: many wait for one device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.api.core import Node
from dray.scheduler.claims.filter import Filter
from dray.scheduler.decision import Refused
from dray.scheduler.diagnosis import Diagnosis
from dray.scheduler.shapes import Shape

_KEPT: Final = 64

Asked = tuple[bytes, bytes]
"""Digests of the pod's shape and of what its claims ask for."""
State = tuple[int, int]
"""Of nodes and devices: another one with every change."""


@dataclass(frozen=True, slots=True)
class KnownRefusal:
    """Nothing of the pod that was refused: it may be large, and gone."""

    state: State
    diagnosis: Diagnosis
    short: tuple[Node, ...]


class KnownRefusals:
    """The last ones."""

    def __init__(self) -> None:
        self._known: dict[Asked, KnownRefusal] = {}

    def get(self, asked: Asked, state: State) -> KnownRefusal | None:
        """One that still holds."""
        known = self._known.get(asked)
        return known if known is not None and known.state == state else None

    def put(self, asked: Asked, state: State, refused: Refused) -> None:
        """One more."""
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[asked] = KnownRefusal(state, refused.diagnosis, refused.short)

    def clear(self) -> None:
        """Forget all, where something changed that no state tells."""
        self._known.clear()


def asked_for(shape: Shape, asked: Filter | None) -> Asked | None:
    """What pods must have in common to be refused alike; None where a pod's own claims or status matter."""
    if not shape.key:
        return None
    if asked is None:
        return shape.key, b""
    plan = asked.plan
    if plan.special is not None or plan.pending or any(one.status.allocation for one in plan.claims):
        return None
    return shape.key, asked.digest
