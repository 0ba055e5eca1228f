"""What the publisher of slices keeps in mind from one turn to the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dray.api.resource.slice import ResourceSlice
from dray.dra.slices.dropped import offerable
from dray.dra.slices.layout import SliceContents, Version
from dray.dra.slices.reconcile import TaintKey, dated, taint_keys, taint_times
from dray.errors import Error, InvalidError


@dataclass(frozen=True, slots=True)
class _Adopted:
    """A slice that the server stores only in part."""

    asked: SliceContents
    stored: SliceContents


@dataclass(slots=True)
class ServerMemory:
    """How the server takes our slices. `version` is None until asked; `is_node_sure`: the node's uid is known to be right."""

    is_node_sure: bool
    version: Version | None = None
    _lacks: set[str] = field(default_factory=set)
    _asked: list[SliceContents] = field(default_factory=list)
    _adopted: dict[int, _Adopted] = field(default_factory=dict)
    _times: dict[TaintKey, datetime] = field(default_factory=dict)

    def doubt(self) -> None:
        """Fields that were dropped are tried again: the server may be another one."""
        self._lacks.clear()
        self._adopted.clear()
        self.is_node_sure = False

    def for_server(
        self, slices: Sequence[SliceContents], existing: Sequence[ResourceSlice]
    ) -> list[SliceContents]:
        """What to compare with: what the server can store of each, with the times of taints.

        Those times stay when the slices that had them are gone, and go with the taint.
        """
        keys = taint_keys(slices)
        times = taint_times(existing) | self._times
        self._times = {key: time for key, time in times.items() if key in keys}
        self._asked = [offerable(one, self._lacks) for one in slices]
        return [dated(self._storable(index, one), self._times) for index, one in enumerate(self._asked)]

    def stored(self, one: ResourceSlice) -> None:
        """The server's answer: it dates new taints."""
        self._times |= taint_times([one])

    def adopt(self, index: int, stored: ResourceSlice, features: Iterable[str]) -> None:
        """The server drops fields of a slice that `for_server` told, for want of these features.

        What it keeps is as good as what was wanted, else it would be sent for ever.
        """
        kept = SliceContents(stored.spec.devices or (), stored.spec.shared_counters or ())
        self._adopted[index] = _Adopted(self._asked[index], kept)
        self._lacks |= set(features)

    def _storable(self, index: int, asked: SliceContents) -> SliceContents:
        adopted = self._adopted.get(index)
        return adopted.stored if adopted is not None and adopted.asked == asked else asked


@dataclass(slots=True)
class Told:
    """What was said, so that it is said once, and how often the server refused what is wanted now."""

    failure: str = ""
    refusals: int = 0
    _texts: set[str] = field(default_factory=set)

    def is_new(self, text: str) -> bool:
        """True once for each text."""
        if text in self._texts:
            return False
        self._texts.add(text)
        return True

    def is_new_failure(self, error: Error) -> bool:
        """Whether the last failure was another one. The names of new objects are made up, so faults count, not texts."""
        text = str(error)
        if isinstance(error, InvalidError) and error.causes:
            text = "; ".join(str(cause) for cause in error.causes)
        is_new = text != self.failure
        self.failure = text
        return is_new

    def succeeded(self) -> None:
        """Nothing is wrong any more."""
        self.failure, self.refusals = "", 0
