"""The file `dra_manager_state`, byte for byte as a kubelet of Kubernetes 1.36 reads and writes it.

    {"Data":"<the claims as JSON text>","Checksum":<CRC-32 of that text>}

Unlike there a file that cannot be used does not keep the node from starting: it is set aside and told.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import msgspec

from dray.errors import InvalidError
from dray.kubelet.claims.claim_info import ClaimDevice, ClaimInfo
from dray.runtime.clock import Clock
from dray.runtime.files.checkpoint import Checkpoint
from dray.runtime.files.checkpoint_format import Format, Unreadable
from dray.runtime.logs import get_log

FILE_NAME = "dra_manager_state"
_log = get_log("kubelet.claims")
_KIND, _API_VERSION = "DRACheckpoint", "checkpoint.dra.kubelet.k8s.io/v1"
# Go's JSON writer escapes these in every string, and the checksum is over its text.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_ESCAPED = str.maketrans(_ESCAPES)
Claims = tuple[ClaimInfo, ...]
Names = tuple[str, ...] | None


class _Device(msgspec.Struct, frozen=True, rename="pascal"):
    pool_name: str = ""
    device_name: str = ""
    share_id: str | None = msgspec.field(default=None, name="ShareID")
    request_names: Names = None
    cdi_device_ids: Names = msgspec.field(default=None, name="CDIDeviceIDs")


class _Driver(msgspec.Struct, frozen=True, rename="pascal"):
    devices: tuple[_Device, ...] | None = None


class _Claim(msgspec.Struct, frozen=True, rename="pascal"):
    claim_uid: str = msgspec.field(default="", name="ClaimUID")
    claim_name: str = ""
    namespace: str = ""
    pod_uids: dict[str, dict[str, object]] | None = msgspec.field(default=None, name="PodUIDs")
    driver_state: dict[str, _Driver] | None = None


class _Data(msgspec.Struct, frozen=True):
    kind: str = _KIND
    api_version: str = msgspec.field(default=_API_VERSION, name="apiVersion")
    claims: tuple[_Claim, ...] | None = msgspec.field(default=None, name="ClaimInfoStateList")


class _File(msgspec.Struct, frozen=True):
    data: str = msgspec.field(default="", name="Data")
    checksum: int = msgspec.field(default=0, name="Checksum")


def encode(claims: Iterable[ClaimInfo]) -> bytes:
    """The whole file; the same claims always give the same bytes."""
    rows = tuple(_to_row(claim) for claim in sorted(claims, key=lambda claim: claim.key))
    inner = _go_json(_Data(claims=rows or None))
    return _go_json(_File(inner.decode(), zlib.crc32(inner)))


def decode(content: bytes) -> Claims:
    """The claims in a file; Unreadable where it is not one. The version is not looked at, nor are unknown fields."""
    file = _parsed(content, _File, "it")
    found = zlib.crc32(file.data.encode())
    if found != file.checksum:
        raise Unreadable(f"checkpoint is corrupted: checksum {file.checksum}, but the data has {found}")
    return tuple(_from_row(row) for row in _parsed(file.data.encode(), _Data, "its data").claims or ())


class StateFile:
    """The file as the manager uses it. `open()` once, then `save()`; `close()` in the end."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._checkpoint = Checkpoint(path, _StateFormat(tuple), clock=clock)
        self._saved: bytes | None = None

    def open(self) -> Claims:
        """What was there; nothing on a first start. Errors of the directory are raised: ask for another one."""
        loaded = self._checkpoint.open()
        if loaded.set_aside is not None:
            _log.error(
                "the record of prepared claims is lost: drivers may hold devices that nobody gives back, "
                "restart the pods with claims on this node",
                error=str(loaded.set_aside),
            )
        return loaded.data or ()

    def save(self, claims: Claims) -> None:
        """Returns when it is durable. What is there already is not written again."""
        content = encode(claims)
        if content == self._saved:
            return
        self._saved = None
        self._checkpoint.save(claims)
        self._saved = content

    def close(self) -> None:
        """Let others have the file."""
        self._checkpoint.__exit__()


class _StateFormat(Format[Claims]):
    def encode(self, data: Claims) -> bytes:
        content = encode(data)
        if len(content) > self.max_size:
            raise InvalidError(f"the claims of this node need {len(content)} bytes, too many to be kept")
        return content

    def decode(self, content: bytes) -> Claims:
        return decode(content)


T = TypeVar("T")


def _parsed(content: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unreadable(f"{what} cannot be read: {error}") from error


def _go_json(value: msgspec.Struct) -> bytes:
    return msgspec.json.encode(value).decode().translate(_ESCAPED).encode()


def _to_row(claim: ClaimInfo) -> _Claim:
    drivers = {
        name: _Driver(tuple(_to_device(device) for device in claim.drivers[name]) or None)
        for name in sorted(claim.drivers)
    }
    return _Claim(claim.uid, claim.name, claim.namespace, {uid: {} for uid in sorted(claim.pods)}, drivers)


def _to_device(device: ClaimDevice) -> _Device:
    return _Device(device.pool, device.name, device.share_id, device.requests or None, device.cdi_ids or None)


def _from_row(row: _Claim) -> ClaimInfo:
    drivers = {
        name: tuple(_from_device(device) for device in driver.devices or ())
        for name, driver in (row.driver_state or {}).items()
    }
    return ClaimInfo(row.namespace, row.claim_name, row.claim_uid, frozenset(row.pod_uids or ()), drivers)


def _from_device(row: _Device) -> ClaimDevice:
    return ClaimDevice(
        row.pool_name, row.device_name, row.share_id, row.request_names or (), row.cdi_device_ids or ()
    )
