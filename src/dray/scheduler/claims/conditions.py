"""Binding conditions: some devices must report that they are attached before a pod may start with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dray.api.meta import Condition
from dray.api.quoting import quote
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import AllocatedDeviceStatus, DeviceRequestAllocationResult
from dray.scheduler.claims.settings import Settings


class Binding(StrEnum):
    """How far the devices are."""

    READY = "ready"
    PENDING = "pending"
    FAILED = "failed"
    TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True)
class Readiness:
    """`reason` is set where the wait is over without success."""

    binding: Binding
    reason: str = ""

    @property
    def is_lost(self) -> bool:
        """Whether waiting on cannot help: the claim needs other devices."""
        return self.binding in (Binding.FAILED, Binding.TIMED_OUT)


_READY = Readiness(Binding.READY)


def has_conditions(claim: ResourceClaim) -> bool:
    """Whether any of the claim's devices must be waited for."""
    return any(one.binding_conditions for one in _results(claim))


def readiness(claim: ResourceClaim, settings: Settings, now: datetime) -> Readiness:
    """Of one claim. Devices are looked at in order: one that is not ready hides the failure of a later one."""
    if not settings.has_binding_conditions:
        return _READY
    for result in _results(claim):
        found = _of_device(claim, result, settings) if result.binding_conditions else _READY
        if found.binding is Binding.PENDING and _is_late(claim, settings, now):
            return Readiness(Binding.TIMED_OUT, f"device binding timeout: claim={claim.metadata.name}")
        if found is not _READY:
            return found
    return _READY


def readiness_of_all(
    claims: Iterable[ResourceClaim], settings: Settings, started: datetime, now: datetime
) -> Readiness:
    """For a pod that waits to be bound since `started`; asked again whenever a claim changes and when time is up."""
    for claim in claims:
        found = readiness(claim, settings, now)
        if found.binding is Binding.PENDING and now >= started + settings.binding_timeout:
            return Readiness(Binding.TIMED_OUT, f"device binding timeout: claim={claim.metadata.name}")
        if found.binding is not Binding.READY:
            return found
    return _READY


def summary(claims: Iterable[ResourceClaim], settings: Settings) -> str:
    """One line for a log: the devices that are not ready, with the conditions that lack or have failed."""
    parts = []
    for claim in claims:
        for result in _results(claim):
            device = _status(claim, result, settings)
            states = _states(device)
            failed = [one for one in result.binding_failure_conditions if one in states]
            lacking = [one for one in result.binding_conditions if one not in states]
            if result.binding_conditions and (failed or lacking):
                text = f"<driver={result.driver}, pool={result.pool}> {result.device}"
                text += f" failed=[{','.join(failed)}]" if failed else ""
                parts.append(text + (f" pending=[{','.join(lacking)}]" if lacking else ""))
    return "; ".join(parts)


def _of_device(claim: ResourceClaim, result: DeviceRequestAllocationResult, settings: Settings) -> Readiness:
    device = _status(claim, result, settings)
    states = _states(device)
    for name in result.binding_failure_conditions:
        if one := states.get(name):
            where = f"claim={claim.metadata.name}, reason={one.reason}, message={quote(one.message)}"
            return Readiness(Binding.FAILED, f"device binding failed: {where}")
    if all(name in states for name in result.binding_conditions):
        return _READY
    return Readiness(Binding.PENDING)


def _states(device: AllocatedDeviceStatus | None) -> Mapping[str, Condition]:
    """The conditions that are true."""
    return {one.type: one for one in (device.conditions if device else ()) if one.status == "True"}


def _status(
    claim: ResourceClaim, result: DeviceRequestAllocationResult, settings: Settings
) -> AllocatedDeviceStatus | None:
    wanted = (result.driver, result.pool, result.device)
    for one in claim.status.devices:
        is_share = settings.quirks.status_ignores_share or one.share_id == result.share_id
        if (one.driver, one.pool, one.device) == wanted and is_share:
            return one
    return None


def _is_late(claim: ResourceClaim, settings: Settings, now: datetime) -> bool:
    """Whether the devices took longer since they were allocated than they may."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    return allocation.allocation_timestamp + settings.binding_timeout < now


def _results(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    allocation = claim.status.allocation
    return allocation.devices.results if allocation is not None else ()
