"""Plays a recording of NVML back, and lets things happen to its cards: errors, loss, MIG devices that come and go.

    cards = Recorded.load(Path("a100-mig.json"))
    with cards.open(root) as nvml: ...
    cards.report(XidEvent(uuid, 79))

Recordings are made by `dray/testing/nvml/recorder.py`; those composed by hand say so in `about`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from dray.errors import InvalidError
from dray.hardware.host_root import Place
from dray.hardware.nvml.codes import Code, NvmlError
from dray.hardware.nvml.facts import Placement, XidEvent
from dray.hardware.nvml.recorded_cards import Card, Instance
from dray.hardware.nvml.recorded_session import RecordedSession

FORMAT = 1


class Recorded:
    """The machine of a recording. Its state is shared by all sessions; one thread at a time changes it."""

    def __init__(self, recording: dict[str, Any]) -> None:
        if recording.get("format") != FORMAT:
            found = recording.get("format")
            raise InvalidError(
                f"recording has format {found!r}, not {FORMAT}: record it anew", field="format"
            )
        self.recording = recording
        self.system: dict[str, Any] = recording["system"]
        self.cards = [_card(entry) for entry in recording["gpus"]]
        self.queues: list[Any] = []
        """Event queues of open sessions."""
        self.changed: Callable[[], None] = _nothing
        """Called after every change to MIG devices, so that somebody can make the kernel's files follow."""

    @classmethod
    def load(cls, path: Path) -> Self:
        """Of a file. InvalidError where it is no recording."""
        try:
            found = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise InvalidError(f"{path} is no recording of NVML: {error}", field=str(path)) from error
        if not isinstance(found, dict):
            raise InvalidError(f"{path} is no recording of NVML: it holds no object", field=str(path))
        return cls(copy.deepcopy(found))

    @contextmanager
    def open(self, root: Place | None = None) -> Iterator[RecordedSession]:
        """A session, as `session.open_nvml` gives one."""
        session = RecordedSession(self)
        try:
            yield session
        finally:
            session.close()

    def card(self, uuid: str) -> Card:
        """A card by UUID, also a lost one; NvmlError NOT_FOUND."""
        for card in self.cards:
            if card.uuid == uuid:
                return card
        raise NvmlError(f"reach {uuid}", Code.NOT_FOUND)

    # What happens to cards.

    def report(self, event: XidEvent) -> None:
        """The driver reports an error to everyone who listens."""
        for queue in self.queues:
            queue.take(event)

    def lose(self, uuid: str) -> None:
        """The card falls off the bus: every question about it fails from now on."""
        self.card(uuid).is_lost = True

    def reset(self, uuid: str) -> None:
        """The card is reset, and well again."""
        card = self.card(uuid)
        card.is_lost = False
        card.answers["recoveryAction"] = 0

    def ask_recovery(self, uuid: str, action: int) -> None:
        """The driver wants something done about the card: 1 is a reset."""
        self.card(uuid).answers["recoveryAction"] = action

    def take_away(self, uuid: str) -> Card:
        """The card leaves the driver: it was unplugged, or another driver has it now."""
        card = self.card(uuid)
        self.cards.remove(card)
        return card

    def give_back(self, card: Card) -> None:
        """It comes back, at the end."""
        self.cards.append(card)

    def set_mig(self, uuid: str, *, on: bool) -> None:
        """Somebody else switches MIG."""
        card = self.card(uuid)
        card.answers["migMode"] = [int(on), int(on)]
        if not on:
            card.instances.clear()
        self.changed()

    def use(self, uuid: str, *, by_somebody: bool = True) -> None:
        """Somebody runs a program on a card or a MIG device, or has ended it."""
        for card in self.cards:
            if card.uuid == uuid:
                card.is_used = by_somebody
            for instance in card.instances:
                if instance.uuid == uuid:
                    instance.is_used = by_somebody


def _card(entry: dict[str, Any]) -> Card:
    instances = [
        Instance(
            gpu_instance=mig["gpuInstance"],
            profile_id=mig["gpuInstanceInfo"]["profileId"],
            placement=Placement(
                mig["gpuInstanceInfo"]["placement"]["start"], mig["gpuInstanceInfo"]["placement"]["size"]
            ),
            slices=mig["attributes"]["gpuInstanceSliceCount"],
            compute_instance=mig["computeInstance"],
            compute_slices=mig["attributes"]["computeInstanceSliceCount"],
            uuid=mig["uuid"],
        )
        for mig in entry.get("migDevices", ())
    ]
    return Card(entry, instances, is_lost="handle" in entry)


def _nothing() -> None:
    return None
