"""What the claim controller may do to the cluster, as values: plans say it, the controller does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from dray.api.core.pod import PodResourceClaimStatus
from dray.api.resource import ResourceClaim
from dray.api.resource.claim_status import ResourceClaimConsumerReference


@dataclass(frozen=True, slots=True)
class ClaimPolicy:
    """Switches of the claim controller; the defaults are the correct behaviour with the gates of Kubernetes 1.36."""

    new_statuses_only: bool = False
    """Q13: a pod's record is applied with new entries only, so that older ones disappear for a while."""
    admin_access: bool = True
    """The gate DRAAdminAccess; without it templates that ask for it are refused."""
    prioritized_list: bool = True
    """The gate DRAPrioritizedList; without it templates with `firstAvailable` are refused."""
    collect_orphans: bool = True
    """Delete the claim of a pod that is gone, instead of leaving it to a garbage collector."""
    free_unused: bool = True
    """Free what a scheduler allocated and then gave up (no reservation) while no pod is left that wants it; Kubernetes keeps it."""
    workload_claims: bool = False
    """The gate DRAWorkloadResourceClaims: claims of PodGroups are made and upheld too."""


class CreateClaim(msgspec.Struct, frozen=True):
    """Make the claim of one entry of the pod or group. `document` lacks the spec: that is the template's, fields unknown here included.

    `instead_of` is the claim that their status names and the cache lacks: first make sure that it is really gone.
    """

    pod_claim: str
    template: str
    document: dict[str, Any]
    instead_of: str = ""

    @property
    def name(self) -> str:
        """The claim's."""
        return str(self.document["metadata"]["name"])


class RecordClaims(msgspec.Struct, frozen=True):
    """Apply `status.resourceClaimStatuses` of the pod or group."""

    statuses: tuple[PodResourceClaimStatus, ...]


class AddReservation(msgspec.Struct, frozen=True):
    """Let the pod, or its group, use a claim that is allocated already: it bypassed the scheduler."""

    claim: ResourceClaim
    consumer: ResourceClaimConsumerReference


class SetReservations(msgspec.Struct, frozen=True):
    """Drop reservations; `deallocate` where that frees the devices too."""

    reserved_for: tuple[ResourceClaimConsumerReference, ...]
    deallocate: bool


class RemoveFinalizer(msgspec.Struct, frozen=True):
    """Nothing is allocated any more: the claim may go."""


class DeleteClaim(msgspec.Struct, frozen=True):
    """Who the claim was made for needs it no more."""


PodStep = CreateClaim | RecordClaims | AddReservation
ClaimStep = SetReservations | RemoveFinalizer | DeleteClaim


class Fault(msgspec.Struct, frozen=True):
    """Why an entry of the pod or group gets no claim."""

    pod_claim: str
    message: str
    kind: str = "Pod"

    def __str__(self) -> str:
        return f"{self.kind}ResourceClaim {self.pod_claim}: {self.message}"


class PodPlan(msgspec.Struct, frozen=True):
    """What to do for a pod or a group, in order, and what cannot be done yet. The steps are right whatever the faults."""

    steps: tuple[PodStep, ...] = ()
    faults: tuple[Fault, ...] = ()
