"""Whether pods and claims agree, once the controllers have settled: a program decides, nobody's eye."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dray.api.core import Pod
from dray.api.kinds import PODS, RESOURCE_CLAIMS
from dray.api.limits import POD_CLAIM_NAME_ANNOTATION
from dray.api.resource import ResourceClaim
from dray.client.client import Client
from dray.controllers.done_pods import is_done
from dray.semantics.claims import claim_names, owning_pod


async def faults(client: Client) -> list[str]:
    """What is wrong; nothing where each pod has each claim once, none is left over, and reservations are exact."""
    pods = (await client.list(PODS)).items
    claims = (await client.list(RESOURCE_CLAIMS)).items
    return [*_owned(pods, claims), *_recorded(pods, claims), *_reserved(pods, claims)]


def _owned(pods: Iterable[Pod], claims: Iterable[ResourceClaim]) -> Iterable[str]:
    """One claim for each entry of a pod that may run, and none for another pod."""
    entries = {
        (pod.metadata.uid, one.name)
        for pod in pods
        if not is_done(pod) and pod.metadata.deletion_timestamp is None
        for one in pod.spec.resource_claims
        if one.resource_claim_template_name is not None
    }
    made = Counter(
        (owner.uid, claim.metadata.annotations.get(POD_CLAIM_NAME_ANNOTATION, ""))
        for claim in claims
        if (owner := owning_pod(claim)) is not None
    )
    yield from (f"{count} claims for {key}" for key, count in sorted(made.items()) if count > 1)
    yield from (f"no claim for {key}" for key in sorted(entries - made.keys()))
    living = {pod.metadata.uid for pod in pods if not is_done(pod)}
    yield from (f"claim left over of {key}" for key in sorted(made) if key[0] not in living)


def _recorded(pods: Iterable[Pod], claims: Iterable[ResourceClaim]) -> Iterable[str]:
    """A pod's record names a claim of its own for each entry."""
    by_name = {(claim.metadata.namespace, claim.metadata.name): claim for claim in claims}
    for pod in pods:
        if is_done(pod) or pod.metadata.deletion_timestamp is not None:
            continue
        wanted = {one.name for one in pod.spec.resource_claims if one.resource_claim_template_name}
        records = {one.name: one.resource_claim_name for one in pod.status.resource_claim_statuses}
        if wanted - records.keys():
            yield f"pod {pod.metadata.name}: nothing recorded for {sorted(wanted - records.keys())}"
        for entry, name in records.items():
            claim = by_name.get((pod.metadata.namespace, name or ""))
            owner = owning_pod(claim) if claim is not None else None
            if owner is None or owner.uid != pod.metadata.uid:
                yield f"pod {pod.metadata.name}: entry {entry} records {name}, which is not its claim"


def _reserved(pods: Iterable[Pod], claims: Iterable[ResourceClaim]) -> Iterable[str]:
    """Reserved for those that may use it and for nobody else; one that was freed has no finalizer."""
    users: dict[tuple[str, str], set[str]] = {}
    bound: dict[tuple[str, str], set[str]] = {}
    for pod in pods:
        if is_done(pod):
            continue
        for name in claim_names(pod):
            users.setdefault((pod.metadata.namespace, name), set()).add(pod.metadata.uid)
            if pod.spec.node_name and pod.metadata.deletion_timestamp is None:
                bound.setdefault((pod.metadata.namespace, name), set()).add(pod.metadata.uid)
    for claim in claims:
        key = (claim.metadata.namespace, claim.metadata.name)
        reserved = {one.uid for one in claim.status.reserved_for}
        if strangers := reserved - users.get(key, set()):
            yield f"claim {key}: reserved for {sorted(strangers)}, who do not use it"
        if claim.status.allocation is not None and (missing := bound.get(key, set()) - reserved):
            yield f"claim {key}: not reserved for {sorted(missing)}, who run with it"
        if claim.status.allocation is None and claim.metadata.finalizers:
            yield f"claim {key}: free, but has {claim.metadata.finalizers}"
