"""A kind that the configuration names no more, while claims still have devices of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from dray.drivers.contract import Device, Discovery
from dray.errors import NotFoundError
from dray.hardware.host_root import Place


@dataclass(frozen=True, slots=True)
class LeftDriver:
    """Finds nothing and hands out nothing. With it claims are answered for as before, and given back."""

    kind: str

    def discover(self, root: Place, known: Sequence[Device] = ()) -> Discovery:
        """Nothing."""
        return Discovery((), (), ())

    def prepare(self, resource: str, devices: Sequence[Device]) -> NoReturn:
        """A claim that was never prepared: its devices are not offered any more."""
        raise NotFoundError(
            f"{resource}: devices of kind {self.kind} are not served any more: see the agent's configuration",
            kind="device",
            name=resource,
        )
