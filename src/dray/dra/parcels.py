"""The values that the modules of this room pass to each other."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import msgspec

from dray.drivers.contract import Device


class ClaimRef(msgspec.Struct, frozen=True, order=True):
    """A claim as the kubelet names it. It may be gone, or another claim may have its name by now: `uid` counts."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class PreparedDevice(msgspec.Struct, frozen=True):
    """A device of a claim as the kubelet is answered. `requests` are base names: those of subrequests are cut off."""

    requests: tuple[str, ...]
    pool: str
    device: str
    cdi_ids: tuple[str, ...] = ()
    share_id: str | None = None


@dataclass(frozen=True, slots=True)
class NodeRef:
    """The node that we serve; slices belong to it."""

    name: str
    uid: str


class ClaimDoor(Protocol):
    """The ledger of holders as this door sees it (`inventory/holds.py`)."""

    async def take(self, claim: ClaimRef, devices: Collection[Device]) -> None:
        """Call before a claim gets these; ConflictError, which names the holder, where another door gave one away.

        Twice the same is fine. On disk when it returns.
        """
        ...

    def restore(self, claim: ClaimRef, devices: Collection[Device]) -> None:
        """Call at start for one that is prepared with these, as our own notes say; nobody is asked."""
        ...

    async def give_back(self, claim: ClaimRef) -> None:
        """Call when the claim has nothing any more."""
        ...
