"""A pod and a claim in full: what they ask for, what they got, why they wait, what happened. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dray.api.core import Pod
from dray.api.core.container import Container, ContainerStatus
from dray.api.resource import ResourceClaim, ResourceClaimTemplate
from dray.api.resource.claim import DeviceRequest, DeviceSubRequest, ExactDeviceRequest, ResourceClaimSpec
from dray.apiserver.http.showing.ages import age
from dray.apiserver.http.showing.pod_cells import pod_cells
from dray.cli.tables import NOTHING, Table, listed
from dray.cli.views.claim_words import (
    amount,
    claim_state,
    devices_of,
    node_of,
    users,
    why_claim_waits,
    why_pod_waits,
)
from dray.cli.views.objects import Objects
from dray.cli.views.sections import Fact, Paper, events_about, events_block, meta_facts, table_of
from dray.semantics.claims import ClaimName, claim_for_entry, claim_names


def describe_pod(pod: Pod, around: Objects, paper: Paper, explanation: Sequence[str] = ()) -> list[str]:
    """`explanation` are the first lines of why it does not fit, where it waits for devices."""
    now, status = around.now, pod.status
    cells = [str(one) for one in pod_cells(pod, now)]
    facts: list[Fact] = [
        *meta_facts(pod.metadata, now),
        ("Status", cells[2]),
        ("Why", why_pod_waits(pod)),
        ("Node", pod.spec.node_name or "not on a node yet"),
        ("IP", status.pod_ip),
        ("Scheduler", pod.spec.scheduler_name),
        ("Gates", ", ".join(one.name for one in pod.spec.scheduling_gates)),
    ]
    claims = {
        one.metadata.name: one for one in around.claims if one.metadata.namespace == pod.metadata.namespace
    }
    lines = paper.facts(facts)
    lines += paper.block("Containers", _containers(pod, claims))
    lines += paper.block("Claims", _claims(pod, claims))
    if explanation:
        lines += paper.lines("What `dray explain` says", explanation)
        lines.append(f"  `dray explain pod/{pod.metadata.name} -n {pod.metadata.namespace}` says all")
    lines += paper.block(
        "Conditions",
        table_of(
            ("TYPE", "STATUS", "REASON"),
            [(one.type, one.status, one.reason or NOTHING) for one in status.conditions],
            states=["STATUS"],
        ),
    )
    return lines + events_block(paper, events_about(around.events, "Pod", pod.metadata), now)


def _containers(pod: Pod, claims: Mapping[str, ResourceClaim]) -> Table:
    statuses = {
        one.name: one for one in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    }
    rows = []
    for kind, each in (("init ", pod.spec.init_containers), ("", pod.spec.containers)):
        for container in each:
            told = statuses.get(container.name)
            rows.append(
                (
                    f"{kind}{container.name}",
                    container.image,
                    _state(told),
                    str(told.restart_count if told is not None else 0),
                    listed(container_devices(pod, container, claims, told), most=4),
                )
            )
    return table_of(("NAME", "IMAGE", "STATE", "RESTARTS", "DEVICES"), rows, states=["STATE"])


def _state(status: ContainerStatus | None) -> str:
    if status is None:
        return "Waiting"
    if status.state.running is not None:
        return "Running"
    if (ended := status.state.terminated) is not None:
        return f"{ended.reason or 'Ended'}: exit code {ended.exit_code}"
    waiting = status.state.waiting
    return (waiting.reason if waiting is not None else "") or "Waiting"


def container_devices(
    pod: Pod, container: Container, claims: Mapping[str, ResourceClaim], status: ContainerStatus | None
) -> list[str]:
    """What one container got: devices of its claims, and ids that device plugins gave it; what it waits for is told so."""
    named = {one.name: one for one in pod.spec.resource_claims}
    found: list[str] = []
    for use in container.resources.claims:
        entry = named.get(use.name)
        which = claim_for_entry(pod, entry) if entry is not None else None
        claim = claims.get(which.name) if isinstance(which, ClaimName) else None
        if claim is None or claim.status.allocation is None:
            found.append(f"{use.name}: not allocated")
            continue
        found += [
            f"{one.driver}/{one.pool}/{one.device}"
            for one in claim.status.allocation.devices.results
            if not use.request or use.request == one.request.partition("/")[0]
        ]
    for resource in status.allocated_resources_status if status is not None else ():
        if not resource.name.startswith("claim:"):
            found += [f"{resource.name}: {one.resource_id}" for one in resource.resources]
    given = {resource.name for resource in status.allocated_resources_status} if status is not None else set()
    asked = {
        name: count for name, count in container.resources.limits.items() if "/" in name and name not in given
    }
    waits = "" if pod.spec.node_name else ": not allocated"
    return found + [f"{count} {name}{waits}" for name, count in sorted(asked.items())]


def _claims(pod: Pod, claims: Mapping[str, ResourceClaim]) -> Table:
    rows = []
    for entry in pod.spec.resource_claims:
        which = claim_for_entry(pod, entry)
        name = which.name if isinstance(which, ClaimName) else ""
        claim = claims.get(name)
        template = entry.resource_claim_template_name
        missing = "not made yet" if template and not name else "not there"
        state = claim_state(claim) if claim is not None else missing
        source = f"template {template}" if template else "by name"
        devices = listed(devices_of(claim) if claim is not None else [], most=4)
        rows.append((entry.name, name or NOTHING, source, state, devices))
    extended = pod.status.extended_resource_claim_status
    if extended is not None:
        claim = claims.get(extended.resource_claim_name)
        rows.append(
            (
                NOTHING,
                extended.resource_claim_name,
                "extended resources",
                claim_state(claim) if claim is not None else "not there",
                listed(devices_of(claim) if claim is not None else [], most=4),
            )
        )
    return table_of(("NAME", "CLAIM", "FROM", "STATE", "DEVICES"), rows, states=["STATE"])


def describe_claim(
    claim: ResourceClaim, around: Objects, paper: Paper, explanation: Sequence[str] = ()
) -> list[str]:
    """Request by request, what was given for each, who may use it, and what its drivers say."""
    now, status = around.now, claim.status
    pods = users(around.pods).get((claim.metadata.namespace, claim.metadata.name), [])
    classes = [one.metadata.name for one in around.classes] if not around.notes else None
    allocated = status.allocation
    since = allocated.allocation_timestamp if allocated is not None else None
    facts: list[Fact] = [
        *meta_facts(claim.metadata, now),
        ("State", claim_state(claim)),
        ("Why", why_claim_waits(claim, pods, classes)),
        ("Node", node_of(claim, pods)),
        ("Allocated", f"{age(since, now)} ago" if since is not None else ""),
    ]
    lines = paper.facts(facts) + _requests(claim.spec, paper, claim)
    if allocated is not None:
        rows = [
            (
                one.request,
                f"{one.driver}/{one.pool}/{one.device}",
                "admin access"
                if one.admin_access
                else ", ".join(f"{key} {value}" for key, value in sorted(one.consumed_capacity.items()))
                or (one.share_id or "whole"),
            )
            for one in allocated.devices.results
        ]
        lines += paper.block(
            "Allocation", table_of(("REQUEST", "DEVICE", "SHARE"), rows), nothing="no devices"
        )
    consumers = [(one.resource, one.name, one.uid) for one in status.reserved_for]
    lines += paper.block("Reserved for", table_of(("KIND", "NAME", "UID"), consumers), nothing="nobody")
    waiting = [
        pod.metadata.name
        for pod in pods
        if pod.metadata.name not in {one.name for one in status.reserved_for}
    ]
    lines += paper.lines("Other pods that name it", waiting)
    lines += paper.block("What drivers say", _reports(claim))
    if explanation:
        lines += paper.lines("What `dray explain` says", explanation)
        lines.append(f"  `dray explain {claim.metadata.name} -n {claim.metadata.namespace}` says all")
    return lines + events_block(paper, events_about(around.events, "ResourceClaim", claim.metadata), now)


def _reports(claim: ResourceClaim) -> Table:
    rows = []
    for one in claim.status.devices:
        conditions = [f"{each.type}={each.status}" for each in one.conditions]
        network = one.network_data
        address = f"{network.interface_name} {', '.join(network.ips)}".strip() if network is not None else ""
        rows.append(
            (
                f"{one.driver}/{one.pool}/{one.device}",
                listed(conditions),
                next((each.message for each in one.conditions if each.message), "") or address,
            )
        )
    return table_of(("DEVICE", "CONDITIONS", "MESSAGE"), rows)


def _requests(spec: ResourceClaimSpec, paper: Paper, claim: ResourceClaim | None = None) -> list[str]:
    rows = [row for request in spec.devices.requests for row in _rows_of(request, claim)]
    lines = paper.block("Requests", table_of(("REQUEST", "CLASS", "COUNT", "GOT", "SELECTORS"), rows))
    constraints = [
        f"{'the same' if one.match_attribute else 'different'} {one.match_attribute or one.distinct_attribute} for "
        f"{', '.join(one.requests) or 'all requests'}"
        for one in spec.devices.constraints
    ]
    configured = [one.opaque.driver for one in spec.devices.config if one.opaque is not None]
    lines += paper.lines("Constraints", constraints)
    return lines + paper.lines("Configured for", configured)


def _rows_of(request: DeviceRequest, claim: ResourceClaim | None) -> list[tuple[str, ...]]:
    if request.exactly is not None:
        return [_row(request.name, request.exactly, claim)]
    return [_row(f"{request.name}/{one.name}", one, claim) for one in request.first_available]


def _row(
    name: str, request: ExactDeviceRequest | DeviceSubRequest, claim: ResourceClaim | None
) -> tuple[str, ...]:
    allocated = claim.status.allocation if claim is not None else None
    got = (
        [one.device for one in allocated.devices.results if one.request == name]
        if allocated is not None
        else []
    )
    selectors = [one.cel.expression for one in request.selectors if one.cel is not None]
    capacity = request.capacity.requests if request.capacity is not None else {}
    wanted = [*selectors, *(f"{key} {value} or more" for key, value in sorted(capacity.items()))]
    return (name, request.device_class_name, amount(request), listed(got), " and ".join(wanted) or NOTHING)


def describe_template(template: ResourceClaimTemplate, around: Objects, paper: Paper) -> list[str]:
    """What each claim made from it asks for, and which pods name it."""
    lines = paper.facts(meta_facts(template.metadata, around.now)) + _requests(template.spec.spec, paper)
    name, space = template.metadata.name, template.metadata.namespace
    pods = [
        (pod.metadata.name, pod.status.phase, listed(sorted(claim_names(pod))))
        for pod in around.pods
        if pod.metadata.namespace == space
        and any(one.resource_claim_template_name == name for one in pod.spec.resource_claims)
    ]
    return lines + paper.block(
        "Pods that name it", table_of(("NAME", "STATUS", "CLAIMS"), pods, states=["STATUS"]), nothing="none"
    )
