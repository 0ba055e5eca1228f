"""A device's story: discovered, published, allocated, prepared, released; with what the cluster recorded, and no more. Pure.

Times come from objects (a slice's creation, an allocation's timestamp, conditions, taints) and from Events with fixed
reasons (docs/reference/agent.md). An API server keeps Events for an hour or so, and of a deleted claim nothing else: the
notes say so where it matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from dray.api.core import Event
from dray.api.resource import ResourceClaim, ResourceSlice
from dray.api.taints import DeviceTaint
from dray.dashboard.fleet.happenings import Ended
from dray.dashboard.fleet.model import DeviceView, Moment
from dray.dashboard.fleet.workloads import text_of
from dray.semantics.devices import attribute
from dray.semantics.taints import DeviceHealth, device_health

_STAGES: Final = {
    "DevicePrepared": "prepared",
    "DevicePrepareFailed": "failed",
    "DeviceReleased": "released",
    "DeviceUnhealthy": "unhealthy",
    "DeviceRecovered": "healthy",
}
_NAMELESS: Final = ("DeviceReleased", "DevicePrepareFailed")
"""Events that name only their claim; which devices it had is told by others."""
_IDENTITIES: Final = ("uuid", "serial", "address", "pciBusID", "mdevUUID")
_BEGINNING: Final = datetime(1, 1, 1, tzinfo=UTC)
_ORDER: Final = {
    stage: number
    for number, stage in enumerate(
        ("discovered", "published", "allocated", "prepared", "failed", "unhealthy", "tainted", "healthy", "released")
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sources:
    """All that is known about one device. `events` are those told on its node; `claims` have it now."""

    device: DeviceView
    offered: ResourceSlice
    claims: Sequence[ResourceClaim] = ()
    events: Sequence[Event] = ()
    ended: Iterable[Ended] = ()


def story(known: Sources) -> tuple[list[Moment], list[str]]:
    """The moments, oldest first and those without a time before all, and notes on what cannot be known."""
    told = list(_from_events(known))
    moments = [
        *_beginning(known),
        *(one for claim in known.claims for one in _of_claim(known, claim, told)),
        *told,
        *_ended(known, told),
        *_tainted(known.device),
    ]
    moments.sort(key=lambda one: (one.time or _BEGINNING, _ORDER[one.stage]))
    return moments, list(_notes(known, told))


def _beginning(known: Sources) -> Iterator[Moment]:
    one, device = known.offered, known.device
    where = f"on node {device.node}" if device.node != "*" else "for several nodes"
    yield Moment(
        time=None, stage="discovered", text=f"found by its driver {where}; when is not recorded", by=device.driver
    )  # fmt: skip
    pool = one.spec.pool
    text = f"published in slice {one.metadata.name} of pool {pool.name}"
    if pool.generation > 1:
        text += f" (now of generation {pool.generation}; the device may have joined later than the slice)"
    yield Moment(time=one.metadata.creation_timestamp, stage="published", text=text, by=device.driver)


def _of_claim(known: Sources, claim: ResourceClaim, told: Sequence[Moment]) -> Iterator[Moment]:
    """Of a claim that has the device now."""
    name = text_of((claim.metadata.namespace, claim.metadata.name))
    pods = [f"{claim.metadata.namespace}/{one.name}" for one in claim.status.reserved_for]
    pod = pods[0] if pods else ""
    allocation = claim.status.allocation
    mine = [one for one in (allocation.devices.results if allocation else ()) if _is_this(known, one)]
    manager, written = _writer(claim)
    for one in mine[:1]:
        time = allocation.allocation_timestamp if allocation else None
        text = f"allocated to claim {name}, request {one.request}"
        yield Moment(
            time=time or written,
            stage="allocated",
            text=text,
            by=manager or "a scheduler",
            claim=name,
            pod=pod,
        )
    if any(one.claim == name and one.stage == "prepared" for one in told):
        return
    for status in claim.status.devices:
        for condition in status.conditions if _is_this(known, status) else ():
            if condition.type == "Ready":
                yield Moment(
                    time=condition.last_transition_time,
                    stage="prepared" if condition.status == "True" else "failed",
                    text=condition.message or condition.reason or f"Ready is {condition.status}",
                    by=known.device.driver,
                    claim=name,
                    pod=pod,
                )


def _is_this(known: Sources, one: Any) -> bool:
    """For an allocation's result and for a device's status."""
    return f"{one.driver}/{one.pool}/{one.device}" == known.device.id


def _writer(claim: ResourceClaim) -> tuple[str, datetime | None]:
    """Who wrote the allocation, and when; "" and None where the server does not tell."""
    for entry in claim.metadata.managed_fields:
        status = (entry.fields_v1 or {}).get("f:status") if isinstance(entry.fields_v1, dict) else None
        if isinstance(status, dict) and "f:allocation" in status:
            return entry.manager, entry.time
    return "", None


def _from_events(known: Sources) -> Iterator[Moment]:
    """What parts on the device's node told about it, or about claims that had it."""
    names = _Names(known)
    had = {
        event.involved_object.uid
        for event in known.events
        if event.reason == "DevicePrepared" and names.are_in(event.message)
    }
    had |= {claim.metadata.uid for claim in known.claims}
    for event in known.events:
        stage = _STAGES.get(event.reason)
        about = event.involved_object
        if stage is None or about.kind == "Pod":
            continue
        if names.are_in(event.message) or (event.reason in _NAMELESS and about.uid in had):
            name = text_of((about.namespace, about.name)) if about.kind == "ResourceClaim" else ""
            by = event.reporting_component or event.source.component
            yield Moment(
                time=event.last_seen, stage=stage, text=event.message, by=by, claim=name, pod=_pod(known, name)
            )  # fmt: skip


def _pod(known: Sources, claim: str) -> str:
    for holder in known.device.holders:
        if claim and holder.claim == claim and holder.pods:
            return holder.pods[0]
    return ""


class _Names:
    """Under which names Events may speak of a device: that in its slice, and what identifies it."""

    def __init__(self, known: Sources) -> None:
        device = next(one for one in known.offered.spec.devices or () if one.name == known.device.name)
        values = (attribute(device, known.device.driver, name) for name in _IDENTITIES)
        words = {known.device.name, *(one for one in values if isinstance(one, str) and one)}
        self._pattern = re.compile(
            rf"(?<![\w.:-])(?:{'|'.join(map(re.escape, sorted(words)))})(?![\w-]|[.:]\w)"
        )

    def are_in(self, text: str) -> bool:
        return self._pattern.search(text) is not None


def _ended(known: Sources, told: Sequence[Moment]) -> Iterator[Moment]:
    """Claims that gave it back while this process looked."""
    for one in known.ended:
        allocated = f"allocated to claim {one.claim}"
        if one.allocated is not None:
            yield Moment(time=one.allocated, stage="allocated", text=allocated, by="a scheduler", claim=one.claim)  # fmt: skip
        if not any(moment.claim == one.claim and moment.stage == "released" for moment in told):
            text = f"claim {one.claim} has it no more (noticed here then)"
            yield Moment(time=one.seen, stage="released", text=text, by="dray-dashboard", claim=one.claim)


def _tainted(device: DeviceView) -> Iterator[Moment]:
    for taint in device.taints:
        name = f"{taint.key}={taint.value}" if taint.value else taint.key
        told = DeviceTaint(key=taint.key, value=taint.value, effect=taint.effect)
        is_ill = device_health([told]) is DeviceHealth.UNHEALTHY and taint.by == "slice"
        by = device.driver if taint.by == "slice" else taint.by
        stage = "unhealthy" if is_ill else "tainted"
        yield Moment(time=taint.time, stage=stage, text=f"taint {name}:{taint.effect}", by=by)


def _notes(known: Sources, told: Sequence[Moment]) -> Iterator[str]:
    yield "Claims that are deleted leave no trace but Events, which a server forgets after an hour or so."
    is_given = any(one.door != "other" for one in known.device.holders)
    if is_given and not any(one.stage == "prepared" for one in told):
        ready = any(one.conditions for claim in known.claims for one in claim.status.devices)
        if not ready:
            yield "No driver told that the device is prepared: it may not be yet, or the driver does not tell."
    if any(one.door == "plugin" for one in known.device.holders):
        yield "A pod has it through a device plugin: since when is not recorded."
