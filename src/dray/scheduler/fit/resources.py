"""CPU, memory, storage, extended resources and the number of pods."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from dray.scheduler.fit.rejection import NODE_RESOURCES_FIT, Rejection
from dray.scheduler.nodes import NodeInfo
from dray.scheduler.requests import CPU, MEMORY, STORAGE, Amounts

_FIRST: Final = (CPU, MEMORY, STORAGE)


def refused(wanted: Amounts, info: NodeInfo, served: Collection[str] = ()) -> Rejection | None:
    """What the node has too little of.

    `served` are extended resources that a device class stands for: on a node without a device plugin for them they
    are left to the devices' own check.
    """
    has, used = info.allocatable, info.requested
    short = [
        name for name, amount in wanted.items() if amount and amount > has.get(name, 0) - used.get(name, 0)
    ]
    has_room = len(info.pods) < info.allowed_pods
    if has_room and not short:
        return None
    lacking = sorted((name for name in short if name not in served or has.get(name, 0) > 0), key=_place)
    if has_room and not lacking:
        return None
    reasons = () if has_room else ("Too many pods",)
    return Rejection(
        check=NODE_RESOURCES_FIT,
        reasons=(*reasons, *(f"Insufficient {name}" for name in lacking)),
        can_resolve=all(wanted[name] <= has.get(name, 0) for name in lacking),
    )


def _place(name: str) -> tuple[int, str]:
    """First the three that every node has, then the others by name."""
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST)), name
