"""Claims, pods and events as rows of lists: made when somebody asks, filtered before they are made. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

from dray.allocation.cluster.cluster_dump import is_device_resource
from dray.api.core import Event, Pod
from dray.api.meta import ObjectMeta
from dray.api.resource import ResourceClaim
from dray.client.store import Key
from dray.dashboard.fleet.model import ClaimRow, DeviceId, EventRow, PodRow
from dray.dashboard.fleet.picture import Picture
from dray.dashboard.fleet.workloads import claim_state, claims_of, pod_state, text_of
from dray.errors import InvalidError
from dray.semantics.pools import PoolID
from dray.semantics.requests import pod_requests

DEFAULT_LIMIT: Final = 200
MOST_ROWS: Final = 5000
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which rows somebody wants. No states: all of them; `search` is a part of what a row says, in any case of letters."""

    states: frozenset[str] = frozenset()
    search: str = ""
    limit: int = DEFAULT_LIMIT

    @staticmethod
    def of(query: Mapping[str, str]) -> Filter:
        """From an address; InvalidError names the part of it."""
        text = query.get("limit", str(DEFAULT_LIMIT))
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_ROWS):
            raise InvalidError(f"limit must be a number from 1 to {MOST_ROWS}", field="limit")
        states = frozenset(filter(None, query.get("state", "").split(",")))
        return Filter(states, query.get("search", "").strip().lower(), int(text))


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """The first rows of those that match. `states` counts those that match the search, by state."""

    rows: tuple[T, ...]
    total: int
    states: Mapping[str, int]


def claim_rows(picture: Picture, wanted: Filter, now: datetime) -> Found[ClaimRow]:
    """Those that wait first, then the newest."""
    found = [(claim_state(claim), claim) for claim in picture.claims.values()]
    return _chosen(found, wanted, lambda claim: claim_row(picture, claim, now), _claim_words)


def pod_rows(picture: Picture, wanted: Filter, now: datetime) -> Found[PodRow]:
    """Those that wait first, then the newest."""
    found = [(pod_state(pod), pod) for pod in picture.pods.values()]
    return _chosen(found, wanted, lambda pod: pod_row(picture, pod, now), _pod_words)


def _chosen(
    found: Iterable[tuple[str, Any]],
    wanted: Filter,
    make: Callable[[Any], T],
    words: Callable[[Any], Iterable[str]],
) -> Found[T]:
    matching = [
        (state, one)
        for state, one in found
        if not wanted.search or any(wanted.search in word.lower() for word in words(one))
    ]
    states = Counter(state for state, _ in matching)
    chosen = [(state, one) for state, one in matching if not wanted.states or state in wanted.states]
    chosen.sort(key=_order)
    return Found(tuple(make(one) for _, one in chosen[: wanted.limit]), len(chosen), dict(sorted(states.items())))  # fmt: skip


def _order(found: tuple[str, Any]) -> tuple[bool, float, str, str]:
    state, meta = found[0], found[1].metadata
    created = (meta.creation_timestamp or _LONG_AGO).timestamp()
    return state != "pending", -created, meta.namespace, meta.name


def _claim_words(claim: ResourceClaim) -> Iterable[str]:
    yield text_of((claim.metadata.namespace, claim.metadata.name))
    yield from _classes(claim)
    yield from _devices(claim)
    yield from (one.name for one in claim.status.reserved_for)


def _pod_words(pod: Pod) -> Iterable[str]:
    yield text_of((pod.metadata.namespace, pod.metadata.name))
    yield pod.spec.node_name
    yield from map(text_of, claims_of(pod))


def claim_row(picture: Picture, claim: ResourceClaim, now: datetime) -> ClaimRow:
    """One claim, with the pods that have it, or wait for it."""
    meta = claim.metadata
    reserved = [(meta.namespace, one.name) for one in claim.status.reserved_for if one.resource == "pods"]
    pods = dict.fromkeys((*reserved, *picture.pods_of((meta.namespace, meta.name)), *_owners(meta)))
    return ClaimRow(
        namespace=meta.namespace,
        name=meta.name,
        state=claim_state(claim),
        device_class=", ".join(_classes(claim)),
        requests=len(claim.spec.devices.requests),
        devices=_devices(claim),
        node=_node(picture, claim),
        pods=tuple(map(text_of, pods)),
        created=meta.creation_timestamp,
        age=_age(meta, now),
        reason=_not_ready(claim),
    )


def pod_row(picture: Picture, pod: Pod, now: datetime) -> PodRow:
    """One pod, with the devices of its claims."""
    meta, claims = pod.metadata, list(claims_of(pod))
    known = [picture.claims[key] for key in claims if key in picture.claims]
    amounts = {
        name: str(amount) for name, amount in sorted(pod_requests(pod).items()) if is_device_resource(name)
    }
    return PodRow(
        namespace=meta.namespace,
        name=meta.name,
        state=pod_state(pod),
        devices=tuple(device for claim in known for device in _devices(claim)),
        node=pod.spec.node_name,
        claims=tuple(map(text_of, claims)),
        resources=amounts,
        created=meta.creation_timestamp,
        age=_age(meta, now),
        reason=_why(pod),
    )  # fmt: skip


def _owners(meta: ObjectMeta) -> Iterable[Key]:
    return [(meta.namespace, one.name) for one in meta.owner_references if one.kind == "Pod"]


def _classes(claim: ResourceClaim) -> list[str]:
    found: dict[str, None] = {}
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            found[request.exactly.device_class_name] = None
        found |= dict.fromkeys(one.device_class_name for one in request.first_available)
    return list(found)


def _devices(claim: ResourceClaim) -> tuple[str, ...]:
    results = claim.status.allocation.devices.results if claim.status.allocation else ()
    return tuple(dict.fromkeys(str(DeviceId(one.driver, one.pool, one.device)) for one in results))


def _node(picture: Picture, claim: ResourceClaim) -> str:
    """Where its devices are, "" where that is no single node."""
    results = claim.status.allocation.devices.results if claim.status.allocation else ()
    nodes = {picture.node_of(PoolID(one.driver, one.pool)) for one in results}
    return nodes.pop() if len(nodes) == 1 else ""


def _not_ready(claim: ResourceClaim) -> str:
    """What drivers say against its devices."""
    return next(
        (
            f"{one.device}: {condition.message or condition.reason}"
            for one in claim.status.devices
            for condition in one.conditions
            if condition.type == "Ready" and condition.status == "False"
        ),
        "",
    )


def _why(pod: Pod) -> str:
    """What keeps a pod from running, in the words of whoever noticed."""
    if pod.status.reason or pod.status.message:
        return ": ".join(filter(None, (pod.status.reason, pod.status.message)))
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message or condition.reason
    return ""


def _age(meta: ObjectMeta, now: datetime) -> int:
    created = meta.creation_timestamp
    return max(int((now - created).total_seconds()), 0) if created is not None else 0


def event_row(event: Event) -> EventRow:
    """One event; a series is told by its last."""
    about = event.involved_object
    place = f"{about.namespace}/" if about.namespace else ""
    source = event.source
    return EventRow(
        key=text_of((event.metadata.namespace, event.metadata.name)),
        time=event.last_seen,
        type=event.type,
        reason=event.reason,
        object=f"{about.kind} {place}{about.name}",
        message=event.message,
        by=" on ".join(filter(None, (event.reporting_component or source.component, source.host))),
        count=max(event.series.count if event.series else 0, event.count, 1),
    )
