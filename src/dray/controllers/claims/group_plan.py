"""What a PodGroup's claims need: to be made and recorded. Its pods share them. Pure; asked again after every change.

Only where the gate DRAWorkloadResourceClaims is on. Reservations are the scheduler's, or those of pods that bypassed it.
"""

from __future__ import annotations

from dray.api.core.pod import PodResourceClaimStatus
from dray.api.scheduling import PodGroup, PodGroupResourceClaim
from dray.controllers.claims.known import Known
from dray.controllers.claims.making import Making, Owner, made_for
from dray.controllers.claims.steps import ClaimPolicy, CreateClaim, Fault, PodPlan, PodStep, RecordClaims
from dray.semantics.claims import ClaimName, NoClaim, claim_for_entry, is_for_group


def plan_group(group: PodGroup, known: Known, policy: ClaimPolicy) -> PodPlan:
    """The steps for this group; none for one that is being deleted."""
    if group.metadata.deletion_timestamp is not None:
        return PodPlan()
    making = Making()
    for entry in group.spec.resource_claims:
        making.add(entry.name, _make(group, entry, known, policy))
    steps: list[PodStep] = [*making.creates]
    if making.names:
        steps.append(RecordClaims(_statuses(group, making.names, policy)))
    return PodPlan(tuple(steps), tuple(making.faults))


def lacks_something(group: PodGroup, known: Known) -> bool:
    """Whether the plan may have anything to do."""
    return any(_lacks(group, entry, known) for entry in group.spec.resource_claims)


def recorded(group: PodGroup, entry: str) -> PodResourceClaimStatus | None:
    """What the group's status says about an entry from a template."""
    for one in group.status.resource_claim_statuses:
        if one.name == entry:
            return PodResourceClaimStatus(name=one.name, resource_claim_name=one.resource_claim_name)
    return None


def _make(
    group: PodGroup, entry: PodGroupResourceClaim, known: Known, policy: ClaimPolicy
) -> CreateClaim | str | Fault | None:
    """A claim to make, the name of one to record, why there is none, or None where all is well."""
    found = claim_for_entry(group, entry)
    if found is NoClaim.NO_SOURCE:
        text = "neither resourceClaimName nor resourceClaimTemplateName is set"
        return Fault(entry.name, text, group.kind)
    if not _lacks(group, entry, known):
        return None
    old = found.name if isinstance(found, ClaimName) else ""
    wanted = entry.resource_claim_template_name or ""
    return made_for(Owner.of(group), entry.name, wanted, known, policy, instead_of=old)


def _lacks(group: PodGroup, entry: PodGroupResourceClaim, known: Known) -> bool:
    found = claim_for_entry(group, entry)
    if not isinstance(found, ClaimName):
        return found is not NoClaim.NOT_NEEDED
    claim = known.claim(group.metadata.namespace, found.name)
    return found.from_template and (claim is None or not is_for_group(claim, group))


def _statuses(
    group: PodGroup, new: dict[str, str], policy: ClaimPolicy
) -> tuple[PodResourceClaimStatus, ...]:
    """In the order of the group's entries, those that were recorded before included."""
    found = []
    for entry in group.spec.resource_claims:
        old = None if policy.new_statuses_only else recorded(group, entry.name)
        if entry.name in new:
            old = PodResourceClaimStatus(name=entry.name, resource_claim_name=new[entry.name])
        if old is not None:
            found.append(old)
    return tuple(found)
