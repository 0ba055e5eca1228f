"""PreFilter: what can be said about a pod's claims before any node is looked at."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Final

from dray.allocation.budget import UNLIMITED, Spending
from dray.api.core.pod import Pod
from dray.api.limits import MAX_RESERVED_FOR
from dray.api.resource.claim import DeviceRequest, ResourceClaim
from dray.api.resource.claim_status import AllocationResult
from dray.api.selectors.nodes import NodeMatcher, compile_node_selector
from dray.errors import InvalidError
from dray.scheduler.claims.extended import special_claim, wanted_by
from dray.scheduler.claims.groups import consumers_of
from dray.scheduler.claims.outcome import SKIP, SUCCESS, Status, failure, unresolvable
from dray.scheduler.claims.pod_claims import PodClaims
from dray.scheduler.claims.resolve import full_name, resolve
from dray.scheduler.claims.settings import Settings
from dray.scheduler.claims.tracking import Tracker
from dray.semantics.claims import is_reserved_for_pod

_LOOK: Final = 2
"""What it costs a budget to look at a claim or a request."""
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PreFiltered:
    """The plan is whole only where the status is success; with SKIP there is nothing for the later steps to do."""

    status: Status
    plan: PodClaims


def pre_filter(
    pod: Pod,
    tracker: Tracker,
    settings: Settings,
    shared: Set[str] = _NONE,
    budget: Spending = UNLIMITED,
) -> PreFiltered:
    """At the start of a cycle. `shared` are uids of claims whose allocation in flight this pod may rely on too. Raises
    TimeLimitError."""
    plan = PodClaims(pod)
    resolved = resolve(pod, tracker.get, pod_groups=settings.workload_claims)
    if resolved.problem:
        return PreFiltered(unresolvable(resolved.problem), plan)
    claims, wanted = resolved.claims, {}
    if settings.extended_resource:
        wanted = wanted_by(pod, tracker.catalogue.class_of)
    if wanted:
        claims = (*claims, tracker.special_of(pod.metadata.uid) or special_claim(pod))
    consumers = consumers_of(pod, resolved.entries, tracker.groups) if settings.workload_claims else ()
    if isinstance(consumers, str):
        return PreFiltered(unresolvable(consumers), plan)
    if not claims:
        return PreFiltered(SKIP, plan)
    users = len(resolved.claims)
    available: list[NodeMatcher | None] = []
    pending: dict[int, AllocationResult] = {}
    for place, claim in enumerate(claims):
        budget.charge(_LOOK * (1 + len(claim.spec.devices.requests)))
        status, where = _look(pod, claim, tracker, settings, is_special=place == users)
        available.append(where)
        on_its_way = tracker.pending(claim.metadata.uid) if status.is_success else None
        if on_its_way is not None and claim.status.allocation is None:
            if claim.metadata.uid not in shared:
                text = f"resource claim {full_name(claim)} is in the process of being allocated"
                status = unresolvable(text)
            pending[place] = on_its_way
        if not status.is_success:
            return PreFiltered(status, plan)
    names = tuple(one.name for one in resolved.entries)
    plan = PodClaims(pod, claims, users, tuple(available), pending, wanted, names, consumers)
    return PreFiltered(SUCCESS, plan)


def _look(
    pod: Pod, claim: ResourceClaim, tracker: Tracker, settings: Settings, *, is_special: bool
) -> tuple[Status, NodeMatcher | None]:
    """At one claim: whether it may be used at all, and where if it is allocated."""
    allocation = claim.status.allocation
    if allocation is None:
        return (SUCCESS if is_special else _check_requests(claim, tracker, settings)), None
    is_full = len(claim.status.reserved_for) >= MAX_RESERVED_FOR and not settings.quirks.full_claims_tried
    if is_full and not is_reserved_for_pod(claim, pod, pod_groups=settings.workload_claims):
        return unresolvable("resourceclaim in use"), None
    if allocation.node_selector is None:
        return SUCCESS, None
    try:
        return SUCCESS, compile_node_selector(allocation.node_selector)
    except InvalidError as error:
        return failure(str(error)), None


def _check_requests(claim: ResourceClaim, tracker: Tracker, settings: Settings) -> Status:
    """Without its classes a claim cannot be allocated anywhere."""
    for request in claim.spec.devices.requests:
        status = _check_request(claim, request, tracker, settings)
        if not status.is_success:
            return status
    return SUCCESS


def _check_request(
    claim: ResourceClaim, request: DeviceRequest, tracker: Tracker, settings: Settings
) -> Status:
    where = f"resource claim {full_name(claim)}, request {request.name}"
    if request.exactly is not None:
        wishes = [(request.name, request.exactly.device_class_name)]
    elif not request.first_available:
        return unresolvable(f"{where}: unknown request type")
    elif not settings.options.features.prioritized_list:
        return unresolvable(f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled")
    else:
        wishes = [(f"{request.name}/{one.name}", one.device_class_name) for one in request.first_available]
    for name, device_class in wishes:
        if not device_class:
            return failure(f"request {name}: unsupported request type")
        if device_class not in tracker.catalogue.classes:
            return unresolvable(f"request {name}: device class {device_class} does not exist")
    return SUCCESS
