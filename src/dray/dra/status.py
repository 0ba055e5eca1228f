"""Our entries of a claim's `status.devices`: that the devices are ready, and what their driver tells of them.

For people and controllers. Preparing never waits for it and never fails by it. Written by server-side apply, so that
entries of other drivers, and conditions that others put into ours, stay as they are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from dray.api.codec import encode, to_raw
from dray.api.kinds import RESOURCE_CLAIMS
from dray.api.meta import Condition, to_time
from dray.api.resource import ResourceClaim
from dray.api.resource.claim_status import AllocatedDeviceStatus, NetworkDeviceData
from dray.client.client import Client
from dray.client.requests import PatchType, Preconditions, WriteOptions
from dray.dra.metrics import Method
from dray.dra.parcels import ClaimRef, PreparedDevice
from dray.errors import ConflictError, DeniedError, Error, InvalidError, NotFoundError
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.tasks import running
from dray.runtime.workqueue import WorkQueue

_log = get_log("dra")

READY: Final = "Ready"
MOST_WAITING: Final = 4096
DATA_BYTES: Final = 10 * 1024
"""Of one device's data: an API server takes no more."""
DENIED_SECONDS: Final = 300.0
"""How long nothing is tried after a refusal of our rights; until then what would be written is dropped."""
PAUSE: Final = 0.5
"""Seconds between a claim's change and its status: a pod that starts has the machine for itself, and of claims that are
deleted with their pod nothing is written."""
_AT_ONCE: Final = 4
_ALLOCATION, _DEVICES = "status.allocation", "/status/devices"
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeviceDetails:
    """What a driver tells of a prepared device beside that it is ready. `data` is any JSON object."""

    data: Mapping[str, Any] | None = None
    network: NetworkDeviceData | None = None
    conditions: tuple[Condition, ...] = ()


Details = Callable[[PreparedDevice], DeviceDetails]
_NOTHING: Final = DeviceDetails()
_IS_READY: Final = Condition(
    type=READY, status="True", reason="Prepared", message="the device is ready for use"
)


@dataclass(frozen=True, slots=True, eq=False)
class _Wanted:
    """`claim` is None where our entries are to go."""

    ref: ClaimRef
    claim: ResourceClaim | None = None
    devices: tuple[PreparedDevice, ...] = ()


class ClaimStatus:
    """Keeps the entries of one driver; the newest word for a claim counts. Used within `writing`.

    Nothing of it is remembered over a restart: a claim is prepared again then, or unprepared.
    """

    def __init__(
        self, client: Client, driver: str, clock: Clock, *, details: Details = lambda device: _NOTHING
    ) -> None:
        self._client = client
        self._driver, self._manager = driver, f"dray-{driver}"
        self._clock = clock
        self._details = details
        self._wanted: dict[str, _Wanted] = {}
        self._queue: WorkQueue[str] = WorkQueue(
            f"status of claims of {driver}", clock, BackoffPolicy(first=0.2, limit=60.0)
        )
        self._denied_until = 0.0
        self._complained = False

    @property
    def is_idle(self) -> bool:
        """Whether all is written, or given up."""
        return not self._wanted

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Writes while entered; what waits then is dropped."""
        async with running(self._queue.run(self._write, workers=_AT_ONCE), name=self._queue.name):
            yield

    def prepared(self, claim: ResourceClaim, devices: tuple[PreparedDevice, ...]) -> None:
        """Called after each prepare; where the claim says so already, nothing is written."""
        meta = claim.metadata
        self._want(_Wanted(ClaimRef(meta.namespace, meta.name, meta.uid), claim, devices))

    def unprepared(self, ref: ClaimRef) -> None:
        """Called after each unprepare: our entries go, if the claim is still there."""
        self._want(_Wanted(ref))

    def failed(self, method: Method, ref: ClaimRef, error: Error) -> None:
        """Not told here: a claim without our entries is not ready."""

    def _want(self, wanted: _Wanted) -> None:
        ref = wanted.ref
        if self._clock.monotonic() < self._denied_until:
            return
        if len(self._wanted) >= MOST_WAITING and ref.uid not in self._wanted:
            _log.warning("too many claims wait for their status", driver=self._driver, claim=str(ref))
            return
        self._wanted[ref.uid] = wanted
        self._queue.add_after(ref.uid, PAUSE)

    async def _write(self, uid: str) -> None:
        """One claim. UnavailableError brings it again."""
        wanted = self._wanted.get(uid)
        if wanted is None:
            return
        try:
            await self._apply(wanted)
        except DeniedError as error:
            self._tell_denied(error)
        except InvalidError as error:
            _log.warning("claim status not written", claim=str(wanted.ref), error=str(error))
        except NotFoundError:
            pass  # it is gone, and its status with it
        except ConflictError:
            if await self._is_there(wanted.ref):
                raise
        if self._wanted.get(uid) is wanted:
            del self._wanted[uid]

    async def _apply(self, wanted: _Wanted) -> None:
        ref, claim = wanted.ref, wanted.claim
        entries = () if claim is None else tuple(self._entry(claim, device) for device in wanted.devices)
        if claim is not None and is_told(claim, self._driver, entries):
            return
        status = {"devices": [to_raw(entry) for entry in entries]} if entries else {}
        document = {"metadata": {"name": ref.name}, "status": status}
        try:
            written = await self._client.apply(
                RESOURCE_CLAIMS,
                document,
                manager=self._manager,
                force=True,
                namespace=ref.namespace,
                subresource="status",
                preconditions=Preconditions(uid=ref.uid),
            )
        except InvalidError as error:
            if error.field != _ALLOCATION:
                raise
            is_done = False
        else:  # what was put in by a patch does not go by server-side apply
            is_done = not _is_ready_still(written, self._driver, entries)
        if not is_done:
            await self._replace(ref, status.get("devices", []))

    async def _replace(self, ref: ClaimRef, entries: Sequence[Document]) -> None:
        """Put our entries in by a JSON patch.

        Server-side apply makes the API server write the whole status anew. Where the allocation holds parameters whose
        keys are not sorted (Go writes `kind` first), or a number as `1.0`, they come out in other bytes than they were
        stored in, and the server refuses to change what is allocated. A JSON patch leaves the rest as it is, but for
        spaces.
        """
        claim = await self._client.get_raw(RESOURCE_CLAIMS, ref.name, namespace=ref.namespace)
        changes = operations(claim.get("status", {}).get("devices"), self._driver, entries)
        if not changes:
            return
        try:
            await self._client.patch(
                RESOURCE_CLAIMS,
                ref.name,
                changes,
                PatchType.JSON,
                namespace=ref.namespace,
                subresource="status",
                options=WriteOptions(field_manager=self._manager),
                preconditions=Preconditions(ref.uid, claim["metadata"]["resourceVersion"]),
            )
        except InvalidError as error:
            if error.field != _ALLOCATION:
                raise
            text = "was made with spaces between the JSON of its parameters, which the API server drops and misses"
            raise InvalidError(f"{text}: send it without (kubectl does)", field=_ALLOCATION) from error

    async def _is_there(self, ref: ClaimRef) -> bool:
        try:
            claim = await self._client.get(RESOURCE_CLAIMS, ref.name, namespace=ref.namespace)
        except NotFoundError:
            return False
        return claim.metadata.uid == ref.uid

    def _tell_denied(self, error: Error) -> None:
        """Once: it stays until somebody changes the rights."""
        self._denied_until = self._clock.monotonic() + DENIED_SECONDS
        self._wanted.clear()
        if self._complained:
            return
        self._complained = True
        _log.warning(
            "claims go without status of their devices: the driver's account needs patch on resourceclaims/status "
            "and, from Kubernetes 1.36 on, the verb associated-node:patch on resourceclaims/driver",
            driver=self._driver,
            error=str(error),
        )

    def _entry(self, claim: ResourceClaim, device: PreparedDevice) -> AllocatedDeviceStatus:
        details = self._details(device)
        data = dict(details.data) if details.data is not None else None
        if data is not None and len(encode(data)) > DATA_BYTES:
            _log.warning("data of a device is left out: too large", device=device.device, limit=DATA_BYTES)
            data = None
        entry = AllocatedDeviceStatus(
            driver=self._driver,
            pool=device.pool,
            device=device.device,
            share_id=device.share_id,
            data=data,
            network_data=details.network,
        )
        before = next((one for one in claim.status.devices if _key(one) == _key(entry)), entry)
        now = to_time(self._clock.now())
        conditions = tuple(_since(one, before, now) for one in (_IS_READY, *details.conditions))
        return msgspec.structs.replace(entry, conditions=conditions)


def is_told(claim: ResourceClaim, driver: str, entries: tuple[AllocatedDeviceStatus, ...]) -> bool:
    """Whether the claim has exactly these entries of ours, conditions of others aside."""
    found = {_key(one): one for one in claim.status.devices if one.driver == driver}
    if set(found) != {_key(entry) for entry in entries}:
        return False
    return all(_says(found[_key(entry)], entry) for entry in entries)


def _is_ready_still(claim: ResourceClaim, driver: str, entries: tuple[AllocatedDeviceStatus, ...]) -> bool:
    wanted = {_key(one) for one in entries}
    ours = [one for one in claim.status.devices if one.driver == driver and _key(one) not in wanted]
    return any(condition.type == READY for one in ours for condition in one.conditions)


def operations(devices: list[Document] | None, driver: str, entries: Iterable[Document]) -> list[Document]:
    """A JSON patch of a claim that replaces the driver's entries; others' stay, and their conditions in ours."""
    found = list(devices or ())
    mine = {_raw_key(one): place for place, one in enumerate(found) if one.get("driver") == driver}
    made = [
        _with_theirs(entry, found[mine[_raw_key(entry)]] if _raw_key(entry) in mine else {})
        for entry in entries
    ]
    gone = [{"op": "remove", "path": f"{_DEVICES}/{place}"} for place in sorted(mine.values(), reverse=True)]
    if devices is None and made:
        return [{"op": "add", "path": _DEVICES, "value": made}]
    return gone + [{"op": "add", "path": f"{_DEVICES}/-", "value": one} for one in made]


def _with_theirs(entry: Document, before: Document) -> Document:
    conditions = entry.get("conditions", [])
    types = {one["type"] for one in conditions}
    theirs = [one for one in before.get("conditions", []) if one["type"] not in types]
    return {**entry, "conditions": [*conditions, *theirs]}


def _raw_key(entry: Document) -> tuple[str, ...]:
    return tuple(entry.get(name) or "" for name in ("driver", "pool", "device", "shareID"))


def _says(found: AllocatedDeviceStatus, entry: AllocatedDeviceStatus) -> bool:
    return (
        set(entry.conditions) <= set(found.conditions)
        and found.data == entry.data
        and found.network_data == entry.network_data
    )


def _key(entry: AllocatedDeviceStatus) -> tuple[str, str, str, str]:
    return entry.driver, entry.pool, entry.device, entry.share_id or ""


def _since(condition: Condition, before: AllocatedDeviceStatus, now: datetime) -> Condition:
    """The condition with the time since when it has its status."""
    same = next((one for one in before.conditions if one.type == condition.type), None)
    kept = same.last_transition_time if same is not None and same.status == condition.status else None
    return msgspec.structs.replace(condition, last_transition_time=kept or now)
