"""The bytes of `kubelet_internal_checkpoint`: a kubelet reads what is written here, and the other way round. Pure.

The checksum is over a Go-like print of the content, not over the JSON. What did not change since the last time, a grant or a
resource, is neither printed nor summed again, so one more grant costs about the same however many there are.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from dray.kubelet.devices.checksum import OFFSET, Segment, fnv
from dray.kubelet.devices.grants import Grant
from dray.runtime.files.checkpoint_format import Format, Unreadable

MAX_SIZE = 64 * 1024 * 1024
MAX_LISTED = 512 * 1024
"""Characters. The ids of a resource beyond that are left out: readers take only its name, and summing them takes long."""
Registered = Mapping[str, Collection[str] | None]
_NIL = "<nil>"
_ESCAPES = (
    (b"<", rb"\u003c"),
    (b">", rb"\u003e"),
    (b"&", rb"\u0026"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)
_HEAD = Segment("(checkpoint.checkpointData){PodDeviceEntries:([]checkpoint.PodDevicesEntry)")
_START = _HEAD.after(OFFSET)
_NO_ENTRIES = Segment(_NIL)
_MIDDLE = Segment(" RegisteredDevices:(map[string][]string)")
_MAP_OPEN, _SPACE, _MAP_CLOSE = Segment("map["), Segment(" "), Segment("]")


class _Entry(
    msgspec.Struct,
    frozen=True,
    rename={
        "pod_uid": "PodUID",
        "container": "ContainerName",
        "resource": "ResourceName",
        "ids_by_node": "DeviceIDs",
        "response": "AllocResp",
    },
):
    pod_uid: str = ""
    container: str = ""
    resource: str = ""
    ids_by_node: dict[int, tuple[str, ...] | None] | None = None
    response: bytes | None = None


class _Data(
    msgspec.Struct,
    frozen=True,
    rename={"entries": "PodDeviceEntries", "registered": "RegisteredDevices"},
):
    entries: tuple[_Entry, ...] | None = None
    registered: dict[str, tuple[str, ...] | None] | None = None


class _File(msgspec.Struct, frozen=True, rename={"data": "Data", "checksum": "Checksum"}):
    data: _Data
    checksum: int


@dataclass(frozen=True, slots=True)
class Saved:
    """What a file holds: all grants in order, and the resources with their healthy devices."""

    grants: tuple[Grant, ...]
    registered: Registered


@dataclass(frozen=True, slots=True)
class Text:
    """A whole file and, where it was read, what is in it."""

    content: bytes
    saved: Saved | None = None


class CheckpointFormat(Format[Text]):
    """For `runtime.files.checkpoint`, which writes durably and sets aside what cannot be read."""

    def encode(self, data: Text) -> bytes:
        """Written as it is."""
        return data.content

    def decode(self, content: bytes) -> Text:
        """Unreadable where the JSON or the checksum is wrong."""
        if len(content) > self.max_size:
            raise Unreadable(f"it is larger than the limit of {self.max_size} bytes")
        return Text(content, decode(content))


FORMAT = CheckpointFormat(Text, max_size=MAX_SIZE)


def decode(content: bytes) -> Saved:
    """What a kubelet, or this module, wrote; Unreadable otherwise."""
    try:
        read = msgspec.json.decode(content, type=_File)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unreadable(f"it is not a kubelet's checkpoint: {error}") from error
    entries = read.data.entries
    grants = tuple(
        Grant(one.pod_uid, one.container, one.resource, one.ids_by_node, one.response)
        for one in entries or ()
    )
    registered = read.data.registered
    segments = [Segment(_grant_text(one)) for one in grants]
    behind = None if entries is None else _after_grants(segments, _START)
    total = _after_all(behind, len(segments), [Segment(_registered_text(registered))])
    if total != read.checksum:
        raise Unreadable(f"checkpoint is corrupted: its checksum is {read.checksum}, and should be {total}")
    return Saved(grants, registered or {})


@dataclass(slots=True, eq=False)
class _Piece:
    """One grant or one resource as it was written last: `source` is the very object, so `is` tells whether it changed."""

    source: object
    json: bytes
    segment: Segment


@dataclass(slots=True)
class CheckpointWriter:
    """Turns grants into a file again and again."""

    _grants: dict[int, _Piece] = field(default_factory=dict)
    """By the grant's identity, which is its own as long as the piece has it."""
    _resources: dict[str, _Piece] = field(default_factory=dict)
    _summed: list[_Piece] = field(default_factory=list)
    """The grants of the last time, and the checksum behind them: as a rule there are only more of them the next time."""
    _total: int = 0

    def encode(self, grants: Iterable[Grant], registered: Registered) -> bytes:
        """The whole file. Grants keep their order, resources and ids are sorted."""
        pieces = [self._grants.get(id(grant)) or self._new(grant) for grant in grants]
        if len(self._grants) > 2 * len(pieces):
            self._grants = {id(one.source): one for one in pieces}
        before, self._resources = self._resources, {}
        for name, ids in sorted(registered.items(), key=lambda pair: pair[0].encode()):
            piece = before.get(name)
            self._resources[name] = piece if piece and piece.source is ids else _resource_piece(name, ids)
        return _join(pieces, tuple(self._resources.values()), self._sum(pieces))

    def _new(self, grant: Grant) -> _Piece:
        piece = self._grants[id(grant)] = _grant_piece(grant)
        return piece

    def _sum(self, pieces: list[_Piece]) -> int | None:
        """The checksum up to the last of the grants; None without any."""
        known = len(self._summed)
        if not known or pieces[:known] != self._summed:
            known, self._total = 0, _START
        fresh = (one.segment for one in pieces[known:])
        self._total = _after_grants(fresh, self._total, is_first=not known)
        self._summed = pieces
        return self._total if pieces else None


def _join(grants: Collection[_Piece], resources: Collection[_Piece], behind_grants: int | None) -> bytes:
    total = _after_all(behind_grants, len(grants), _spaced(resources))
    return b'{"Data":{"PodDeviceEntries":%s,"RegisteredDevices":{%s}},"Checksum":%d}' % (
        b"[%s]" % b",".join(one.json for one in grants) if grants else b"null",
        b",".join(one.json for one in resources),
        total,
    )


def _spaced(resources: Collection[_Piece]) -> list[Segment]:
    segments = [_MAP_OPEN]
    for one in resources:
        segments += (one.segment, _SPACE)
    return [*(segments[:-1] if resources else segments), _MAP_CLOSE]


def _after_grants(grants: Iterable[Segment], total: int, *, is_first: bool = True) -> int:
    before = b"[" if is_first else b" "
    for segment in grants:
        total = segment.after(fnv(before, total))
        before = b" "
    return total


def _after_all(behind_grants: int | None, count: int, registered: Iterable[Segment]) -> int:
    """`behind_grants` is None where Go has a nil list, which is not an empty one."""
    if behind_grants is None:
        total = _NO_ENTRIES.after(_START)
    else:
        total = fnv(b"]" if count else b"[]", behind_grants)
    total = _MIDDLE.after(total)
    for segment in registered:
        total = segment.after(total)
    return fnv(b"}", total)


def _grant_piece(grant: Grant) -> _Piece:
    nodes = grant.ids_by_node
    value = {
        "PodUID": grant.pod_uid,
        "ContainerName": grant.container,
        "ResourceName": grant.resource,
        "DeviceIDs": None if nodes is None else {str(node): nodes[node] for node in sorted(nodes, key=str)},
        "AllocResp": None if grant.response is None else base64.b64encode(grant.response).decode(),
    }
    return _Piece(grant, _json(value), Segment(_grant_text(grant)))


def _resource_piece(name: str, ids: Collection[str] | None) -> _Piece:
    value = None if ids is None else sorted(ids) if sum(map(len, ids)) <= MAX_LISTED else []
    return _Piece(ids, _json(name) + b":" + _json(value), Segment(f"{name}:{_list_text(value)}"))


def _grant_text(grant: Grant) -> str:
    nodes = grant.ids_by_node
    devices = (
        _NIL
        if nodes is None
        else "map[" + " ".join(f"{node}:{_list_text(nodes[node])}" for node in sorted(nodes)) + "]"
    )
    return (
        f"{{PodUID:(string){grant.pod_uid} ContainerName:(string){grant.container} "
        f"ResourceName:(string){grant.resource} DeviceIDs:(checkpoint.DevicesPerNUMA){devices} "
        f"AllocResp:([]uint8){_list_text(None if grant.response is None else map(str, grant.response))}}}"
    )


def _registered_text(registered: Registered | None) -> str:
    if registered is None:
        return _NIL
    names = sorted(registered, key=str.encode)
    return "map[" + " ".join(f"{name}:{_list_text(registered[name])}" for name in names) + "]"


def _list_text(values: Iterable[str] | None) -> str:
    return _NIL if values is None else f"[{' '.join(values)}]"


def _json(value: object) -> bytes:
    """As Go writes it, which keeps texts safe inside of HTML."""
    text = msgspec.json.encode(value)
    for sign, escape in _ESCAPES:
        text = text.replace(sign, escape)
    return text
