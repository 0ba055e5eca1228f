"""What is prepared: the content of the checkpoint. Pure.

The file is read by older and newer versions of Dray, during one update by both at once. So an entry that we do not change
is kept byte by byte, with fields that only the other one knows; a field may be added without a new version, and one
that is there keeps its meaning. The version grows only where an older Dray must not touch the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

import msgspec

from dray.api.codec import decode_hook, encode_hook
from dray.api.resource.slice import DeviceAttribute
from dray.cdi.edits import ContainerEdits
from dray.dra.claims.asking import Allocation, WantedDevice
from dray.dra.claims.stored_device import StoredDevice, restore
from dray.dra.parcels import ClaimRef
from dray.drivers.contract import Asked, Device
from dray.runtime.files.checkpoint_format import Format, Unreadable

VERSION: Final = 1


class Phase(StrEnum):
    """STARTED: something may have been done to the host, and nobody was answered. COMPLETED: the kubelet may know."""

    STARTED = "PrepareStarted"
    COMPLETED = "PrepareCompleted"


class Holding(msgspec.Struct, frozen=True, omit_defaults=True):
    """One device of a request: as allocated, as it was, and the parts that nobody else may have."""

    wanted: WantedDevice
    device: StoredDevice
    parts: tuple[str, ...]
    attributes: dict[str, DeviceAttribute] = {}
    """As published; for the metadata file."""


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request of a claim. `edits` are known when it is completed."""

    name: str
    label: str
    holdings: tuple[Holding, ...]
    admin_access: bool = False
    parameters: tuple[dict[str, Any], ...] = ()
    edits: ContainerEdits = ContainerEdits()
    named: tuple[bool, ...] = ()

    @property
    def base_name(self) -> str:
        """Without the subrequest."""
        return self.name.partition("/")[0]

    def asked(self, claim_uid: str) -> Asked:
        """For the driver."""
        return Asked(
            claim_uid,
            self.label,
            tuple(restore(one.device) for one in self.holdings),
            self.parameters,
            self.admin_access,
            tuple(one.wanted.consumed for one in self.holdings),
            self.named,
        )


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One claim. `boot` is the id of the boot it belongs to: the host's part of it is gone with the next one.

    `passes`: a descriptor is served to its containers, by a process that may be gone.
    """

    claim: ClaimRef
    phase: Phase
    requests: tuple[Request, ...]
    pod_claim: str = ""
    boot: str = ""
    passes: bool = False

    @property
    def parts(self) -> frozenset[str]:
        """Of all its devices, those with adminAccess included: what is locked while the claim changes."""
        return frozenset(part for request in self.requests for one in request.holdings for part in one.parts)

    @property
    def allocation(self) -> Allocation:
        """What was allocated, to compare."""
        return tuple(
            (one.name, one.admin_access, tuple(held.wanted for held in one.holdings)) for one in self.requests
        )

    def held(self) -> Iterator[Holding]:
        """Devices that it alone may have, or shares of them; adminAccess holds nothing."""
        for request in self.requests:
            if not request.admin_access:
                yield from request.holdings

    def held_devices(self) -> tuple[Device, ...]:
        """Those as the ledger of holders takes them, each once."""
        found = {one.device.id: restore(one.device) for one in self.held()}
        return tuple(found[key] for key in sorted(found))


@dataclass(frozen=True, slots=True)
class Record:
    """An entry, its bytes in the file, and its parts, which are looked up for every claim."""

    entry: Entry
    raw: msgspec.Raw
    parts: frozenset[str]


def _record(entry: Entry, raw: msgspec.Raw) -> Record:
    return Record(entry, raw, entry.parts)


@dataclass(frozen=True, slots=True)
class State:
    """All that is prepared, by claim UID. `more` are fields of a newer Dray."""

    records: Mapping[str, Record] = field(default_factory=dict)
    more: Mapping[str, msgspec.Raw] = field(default_factory=dict)

    def entry(self, uid: str) -> Entry | None:
        """The entry of a claim."""
        record = self.records.get(uid)
        return None if record is None else record.entry

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All, by UID."""
        return tuple(self.records[uid].entry for uid in sorted(self.records))

    def with_parts(self, parts: frozenset[str]) -> tuple[Entry, ...]:
        """Those that have one of these parts, by UID."""
        found = [uid for uid, record in self.records.items() if not record.parts.isdisjoint(parts)]
        return tuple(self.records[uid].entry for uid in sorted(found))

    def with_entry(self, entry: Entry) -> State:
        """One more, or another one for the claim."""
        record = _record(entry, msgspec.Raw(encode_entry(entry)))
        return replace(self, records={**self.records, entry.claim.uid: record})

    def without(self, uids: Iterable[str]) -> State:
        """The same state where none of these is there."""
        gone = self.records.keys() & set(uids)
        if not gone:
            return self
        return replace(self, records={uid: one for uid, one in self.records.items() if uid not in gone})


class StateFormat(Format[State]):
    """The bytes: `{"claims": {UID: entry}}` and what others add."""

    def encode(self, data: State) -> bytes:
        """The whole file."""
        claims = {uid: record.raw for uid, record in data.records.items()}
        payload = {**data.more, "claims": claims}
        return _BYTES.encode(msgspec.json.encode(payload, order="deterministic"))

    def decode(self, content: bytes) -> State:
        """Unreadable where it is not a state."""
        payload = _BYTES.decode(content)
        try:
            fields = msgspec.json.decode(payload, type=dict[str, msgspec.Raw])
            claims = msgspec.json.decode(fields.pop("claims"), type=dict[str, msgspec.Raw])
            records = {uid: _record(decode_entry(raw), raw.copy()) for uid, raw in claims.items()}
        except (msgspec.MsgspecError, ValueError, TypeError, LookupError, RecursionError) as error:
            raise Unreadable(f"its content does not fit: {error}") from error
        if any(uid != record.entry.claim.uid for uid, record in records.items()):
            raise Unreadable("an entry is kept under the UID of another claim")
        return State(records, {name: raw.copy() for name, raw in fields.items()})


_BYTES: Final = Format(bytes, version=VERSION)
STATE_FORMAT: Final = StateFormat(State, version=VERSION)
_encoder: Final = msgspec.json.Encoder(enc_hook=encode_hook, order="deterministic")
_decoder: Final = msgspec.json.Decoder(Entry, dec_hook=decode_hook)


def encode_entry(entry: Entry) -> bytes:
    """JSON; equal entries give equal bytes."""
    return _encoder.encode(entry)


def decode_entry(data: bytes | str | msgspec.Raw) -> Entry:
    """msgspec's errors where it does not fit; fields that it does not know are left out."""
    return _decoder.decode(data)
