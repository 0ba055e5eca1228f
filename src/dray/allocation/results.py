"""From picks to AllocationResults: devices, configuration, and the nodes where they can be used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from dray.allocation.candidates import Candidate
from dray.allocation.faults import AllocationError
from dray.allocation.features import Tier
from dray.allocation.ledger import Pick
from dray.allocation.requests import PlannedClaim, Request
from dray.allocation.state import Rules
from dray.api.core.node import Node
from dray.api.resource.claim_status import (
    FROM_CLAIM,
    FROM_CLASS,
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from dray.api.selectors.types import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm

NewShareID = Callable[[], str]
"""Gives a fresh UUID, in lower case."""


def build_result(
    planned: PlannedClaim,
    picks: Sequence[Pick],
    chosen: Mapping[tuple[int, int], Request],
    node: Node,
    rules: Rules,
    new_share_id: NewShareID,
) -> AllocationResult:
    """The result of one claim. `chosen` tells the alternative of each firstAvailable request."""
    requests = [chosen.get((one[0].claim, one[0].index), one[0]) for one in planned.requests]
    try:
        selector = _node_selector([pick.candidate for pick in picks], node.metadata.name, rules.tier)
    except AllocationError as error:
        name = planned.claim.metadata.name
        raise AllocationError(f"create NodeSelector for claim {name}: {error}") from None
    return AllocationResult(
        devices=DeviceAllocationResult(
            results=tuple(_device(pick, rules, new_share_id) for pick in picks),
            config=_configuration(planned, requests, repeated=rules.profile.config_repeated),
        ),
        node_selector=selector,
    )


def _device(pick: Pick, rules: Rules, new_share_id: NewShareID) -> DeviceRequestAllocationResult:
    identity, device = pick.candidate.id, pick.candidate.device
    has_binding = rules.features.device_binding_and_status
    return DeviceRequestAllocationResult(
        request=pick.request.full_name,
        driver=identity.driver,
        pool=identity.pool,
        device=identity.device,
        admin_access=True if pick.request.is_admin else None,
        tolerations=pick.request.wish.tolerations,
        binding_conditions=device.binding_conditions if has_binding else (),
        binding_failure_conditions=device.binding_failure_conditions if has_binding else (),
        share_id=None if pick.amounts is None else new_share_id(),
        consumed_capacity=dict(pick.amounts or {}),
    )


def _configuration(
    planned: PlannedClaim, requests: Sequence[Request], *, repeated: bool
) -> tuple[DeviceAllocationConfiguration, ...]:
    """Classes first, each once and in the order of requests; then the claim's own."""
    found = [*_of_classes(requests), *_of_claim(planned, requests, repeated=repeated)]
    if repeated:
        return tuple(found)
    return tuple(
        msgspec.structs.replace(one, requests=())
        if one.requests and all(_is_named(request, one.requests) for request in requests)
        else one
        for one in found
    )


def _of_classes(requests: Sequence[Request]) -> Iterable[DeviceAllocationConfiguration]:
    users: dict[str, list[Request]] = {}
    for request in requests:
        users.setdefault(request.device_class.metadata.name, []).append(request)
    for using in users.values():
        names = tuple(request.full_name for request in using)
        for one in using[0].device_class.spec.config:
            yield DeviceAllocationConfiguration(source=FROM_CLASS, requests=names, opaque=one.opaque)


def _of_claim(
    planned: PlannedClaim, requests: Sequence[Request], *, repeated: bool
) -> Iterable[DeviceAllocationConfiguration]:
    for one in planned.claim.spec.devices.config:
        times = 1
        if one.requests:
            times = sum(_is_named(request, one.requests) for request in requests)
        entry = DeviceAllocationConfiguration(source=FROM_CLAIM, requests=one.requests, opaque=one.opaque)
        yield from [entry] * (times if repeated else min(times, 1))


def _is_named(request: Request, names: Iterable[str]) -> bool:
    return request.base_name in names or request.full_name in names


def _node_selector(candidates: Iterable[Candidate], node: str, tier: Tier) -> NodeSelector | None:
    """One node if any device is tied to it, else what the devices' own selectors ask together; None is anywhere."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for candidate in candidates:
        source = candidate.device if candidate.spec.per_device_node_selection else candidate.spec
        if source.node_name is not None:
            return _only(source.node_name if tier is Tier.STABLE else node)
        if candidate.device.binds_to_node and tier is not Tier.STABLE:
            return _only(node)
        terms = source.node_selector.node_selector_terms if source.node_selector is not None else ()
        if len(terms) > 1:
            raise AllocationError(f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms")
        for term in terms:
            _add_new(fields, term.match_fields)
            _add_new(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(term,))


def _only(node: str) -> NodeSelector:
    requirement = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(requirement,)),))


def _add_new(known: list[NodeSelectorRequirement], more: Iterable[NodeSelectorRequirement]) -> None:
    for one in more:
        if not any(
            one.key == other.key and one.operator == other.operator and set(one.values) == set(other.values)
            for other in known
        ):
            known.append(one)
