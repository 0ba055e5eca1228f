"""How a claim comes out of a template: for a pod, or for a PodGroup whose pods share it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from dray.api.core import Pod
from dray.api.limits import POD_CLAIM_NAME_ANNOTATION
from dray.api.resource import ResourceClaim, ResourceClaimTemplate
from dray.api.scheduling import PodGroup
from dray.controllers.claims.known import Known
from dray.controllers.claims.naming import claim_name, generate_name
from dray.controllers.claims.steps import ClaimPolicy, CreateClaim, Fault
from dray.semantics.claims import is_controlled_by

_ATTEMPTS: Final = 16


class Owner(msgspec.Struct, frozen=True):
    """For whom claims are made."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @staticmethod
    def of(one: Pod | PodGroup) -> Owner:
        """The pod or the group."""
        meta = one.metadata
        return Owner(one.api_version, one.kind, meta.namespace, meta.name, meta.uid)

    def owns(self, claim: ResourceClaim) -> bool:
        """Whether the claim was made for this very object and no other of the same name."""
        return is_controlled_by(claim, self.namespace, self.uid)

    def has_for(self, claim: ResourceClaim, entry: str) -> bool:
        """Whether the claim was made for this very entry of it, by whichever controller."""
        return self.owns(claim) and claim.metadata.annotations.get(POD_CLAIM_NAME_ANNOTATION) == entry


def found_for(owner: Owner, entry: str, known: Known) -> str | None:
    """The name of the claim that exists for the entry, though it may not be recorded: its maker died in between."""
    owned = (claim for claim in known.owned(owner.uid) if owner.has_for(claim, entry))
    return next((claim.metadata.name for claim in owned), None)


def made_for(
    owner: Owner, entry: str, wanted: str, known: Known, policy: ClaimPolicy, *, instead_of: str
) -> CreateClaim | str | Fault:
    """The claim of an entry that wants one from this template: to be made, or the name of one that is there already.

    `instead_of` is the one that is recorded and was not found.
    """
    if (name := found_for(owner, entry, known)) is not None:
        return name
    template = known.template(owner.namespace, wanted)
    if template is None:
        where = f"create it in namespace {owner.namespace}"
        return Fault(entry, f'resource claim template "{wanted}" not found: {where}', owner.kind)
    if (why := _refusal(template, policy)) is not None:
        return Fault(entry, why, owner.kind)
    return _new_claim(owner, entry, template, known, instead_of)


@dataclass(slots=True)
class Making:
    """What the entries of one pod or group come to: claims to make, names to record by entry, and faults."""

    creates: list[CreateClaim] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def add(self, entry: str, made: CreateClaim | str | Fault | None) -> None:
        """One entry; None where nothing is to be done for it."""
        if isinstance(made, Fault):
            self.faults.append(made)
        elif isinstance(made, CreateClaim):
            self.creates.append(made)
            self.names[entry] = made.name
        elif made is not None:
            self.names[entry] = made


def _refusal(template: ResourceClaimTemplate, policy: ClaimPolicy) -> str | None:
    requests = template.spec.spec.devices.requests
    if not policy.admin_access and any(one.exactly and one.exactly.admin_access for one in requests):
        return "admin access is requested, but the feature is disabled"
    if not policy.prioritized_list and any(one.first_available for one in requests):
        return "template includes a prioritized list of subrequests, but the feature is disabled"
    return None


def _new_claim(
    owner: Owner, entry: str, template: ResourceClaimTemplate, known: Known, instead_of: str
) -> CreateClaim | str | Fault:
    for attempt in range(_ATTEMPTS):
        name = claim_name(owner.name, owner.uid, entry, attempt)
        holder = known.claim(owner.namespace, name)
        if holder is None:
            document = _document(owner, entry, template, name)
            return CreateClaim(
                entry, template.metadata.name, document, instead_of if instead_of != name else ""
            )
        if owner.has_for(holder, entry):
            return name
    text = f"{_ATTEMPTS} names like {name} are taken by other claims: delete some of them"
    return Fault(entry, text, owner.kind)


def _document(owner: Owner, entry: str, template: ResourceClaimTemplate, name: str) -> dict[str, Any]:
    reference = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }
    wanted = template.spec.metadata
    metadata: dict[str, Any] = {
        "name": name,
        "generateName": generate_name(owner.name, entry),
        "namespace": owner.namespace,
        "annotations": {**wanted.annotations, POD_CLAIM_NAME_ANNOTATION: entry},
        "ownerReferences": [reference],
    }
    if wanted.labels:
        metadata["labels"] = dict(wanted.labels)
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
