"""What a pod's claims need: to be made, recorded in the pod, reserved. Pure; asked again after every change."""

from __future__ import annotations

from typing import Any, Final

from dray.api.core import Pod
from dray.api.core.pod import PodResourceClaim, PodResourceClaimStatus
from dray.api.limits import POD_CLAIM_NAME_ANNOTATION
from dray.api.resource import ResourceClaim, ResourceClaimTemplate
from dray.controllers.claims.known import Known
from dray.controllers.claims.naming import claim_name, generate_name
from dray.controllers.claims.steps import (
    AddReservation,
    ClaimPolicy,
    CreateClaim,
    Fault,
    PodPlan,
    PodStep,
    RecordClaims,
)
from dray.controllers.pod_claims import consumer_of, is_done, is_for, is_for_entry, is_reserved, meant

_ATTEMPTS: Final = 16


def plan_pod(pod: Pod, known: Known, policy: ClaimPolicy) -> PodPlan:
    """The steps for this pod; none for one that is being deleted or will not run any more.

    A claim that exists for an entry but is not recorded (its maker died in between) is taken over, never made twice.
    """
    if pod.metadata.deletion_timestamp is not None or is_done(pod):
        return PodPlan()
    steps: list[PodStep] = []
    faults: list[Fault] = []
    new: dict[str, str] = {}
    for entry in pod.spec.resource_claims:
        made = _make(pod, entry, known, policy)
        if isinstance(made, Fault):
            faults.append(made)
        elif isinstance(made, CreateClaim):
            steps.append(made)
            new[entry.name] = made.name
        elif made is not None:
            new[entry.name] = made
    if new:
        steps.append(RecordClaims(_statuses(pod, new, policy)))
    return PodPlan((*steps, *_reservations(pod, new, known)), tuple(faults))


def _make(
    pod: Pod, entry: PodResourceClaim, known: Known, policy: ClaimPolicy
) -> CreateClaim | str | Fault | None:
    """A claim to make, the name of one to record, why there is none, or None where all is well."""
    found = meant(pod, entry)
    if found is None:
        return Fault(entry.name, "neither resourceClaimName nor resourceClaimTemplateName is set")
    if not found.from_template or (found.is_recorded and found.name is None):
        return None
    namespace = pod.metadata.namespace
    if found.name is not None:
        recorded = known.claim(namespace, found.name)
        if recorded is not None and is_for(recorded, pod):
            return None
    for claim in known.owned(pod.metadata.uid):
        if is_for_entry(claim, pod, entry.name):
            return claim.metadata.name
    name = entry.resource_claim_template_name or ""
    template = known.template(namespace, name)
    if template is None:
        return Fault(
            entry.name, f'resource claim template "{name}" not found: create it in namespace {namespace}'
        )
    if (why := _refusal(template, policy)) is not None:
        return Fault(entry.name, why)
    return _new_claim(pod, entry.name, template, known, instead_of=found.name or "")


def _refusal(template: ResourceClaimTemplate, policy: ClaimPolicy) -> str | None:
    requests = template.spec.spec.devices.requests
    if not policy.admin_access and any(one.exactly and one.exactly.admin_access for one in requests):
        return "admin access is requested, but the feature is disabled"
    if not policy.prioritized_list and any(one.first_available for one in requests):
        return "template includes a prioritized list of subrequests, but the feature is disabled"
    return None


def _new_claim(
    pod: Pod, entry: str, template: ResourceClaimTemplate, known: Known, *, instead_of: str
) -> CreateClaim | str | Fault:
    meta = pod.metadata
    for attempt in range(_ATTEMPTS):
        name = claim_name(meta.name, meta.uid, entry, attempt)
        holder = known.claim(meta.namespace, name)
        if holder is None:
            document = _document(pod, entry, template, name)
            return CreateClaim(
                entry, template.metadata.name, document, instead_of if instead_of != name else ""
            )
        if is_for_entry(holder, pod, entry):
            return name
    return Fault(entry, f"{_ATTEMPTS} names like {name} are taken by other claims: delete some of them")


def _document(pod: Pod, entry: str, template: ResourceClaimTemplate, name: str) -> dict[str, Any]:
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.metadata.name,
        "uid": pod.metadata.uid,
        "controller": True,
    }
    wanted = template.spec.metadata
    metadata: dict[str, Any] = {
        "name": name,
        "generateName": generate_name(pod.metadata.name, entry),
        "namespace": pod.metadata.namespace,
        "annotations": {**wanted.annotations, POD_CLAIM_NAME_ANNOTATION: entry},
        "ownerReferences": [owner],
    }
    if wanted.labels:
        metadata["labels"] = dict(wanted.labels)
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}


def _statuses(pod: Pod, new: dict[str, str], policy: ClaimPolicy) -> tuple[PodResourceClaimStatus, ...]:
    """In the order of the pod's entries. What was recorded before is said again: who applies owns all it said last."""
    old = {} if policy.new_statuses_only else {one.name: one for one in pod.status.resource_claim_statuses}
    return tuple(
        PodResourceClaimStatus(name=entry.name, resource_claim_name=new[entry.name])
        if entry.name in new
        else old[entry.name]
        for entry in pod.spec.resource_claims
        if entry.name in new or entry.name in old
    )


def _reservations(pod: Pod, new: dict[str, str], known: Known) -> tuple[AddReservation, ...]:
    """For a pod that has its node: claims that are allocated, but not reserved for it."""
    if not pod.spec.node_name:
        return ()
    found: dict[str, AddReservation] = {}
    for entry in pod.spec.resource_claims:
        one = meant(pod, entry)
        name = new.get(entry.name, one.name if one is not None else None)
        claim = None if name is None else known.claim(pod.metadata.namespace, name)
        if one is None or claim is None or (one.from_template and not is_for(claim, pod)):
            continue
        if needs_reservation(claim, pod):
            found[claim.metadata.name] = AddReservation(claim, consumer_of(pod))
    return tuple(found.values())


def needs_reservation(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the pod, which has its node, must be let in. A claim that is being deleted takes nobody in."""
    return (
        claim.status.allocation is not None
        and claim.metadata.deletion_timestamp is None
        and not is_reserved(claim, pod)
    )
