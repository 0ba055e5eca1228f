"""PodGroup (scheduling.k8s.io/v1alpha2): pods that belong together and may share claims. Alpha in 1.36, off by default.

Only what Dray reads. The embedded server keeps these objects as raw JSON, so the kind is not among `kinds.ALL_RESOURCES`.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import field

from dray.api.core.pod import Pod, PodResourceClaim
from dray.api.kinds import Resource
from dray.api.meta import Condition, Model, ObjectMeta, OwnerReference, always
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import ResourceClaimConsumerReference

GROUP: Final = "scheduling.k8s.io"
VERSION: Final = "v1alpha2"


class PodGroupResourceClaim(Model, frozen=True, kw_only=True):
    """A claim of the group, by name or from a template. A pod's entry with the same three values means this one."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodGroupResourceClaimStatus(Model, frozen=True, kw_only=True):
    """Which claim was made for the group's claim of that name; None where none was needed."""

    name: str = ""
    resource_claim_name: str | None = None


class PodGroupSpec(Model, frozen=True, kw_only=True):
    """What the group is for; how its pods are scheduled stays plain JSON."""

    pod_group_template_ref: dict[str, Any] | None = None
    scheduling_policy: dict[str, Any] = field(default_factory=dict)
    scheduling_constraints: dict[str, Any] | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()


class PodGroupStatus(Model, frozen=True, kw_only=True):
    """How the group is."""

    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class PodGroup(Model, frozen=True, kw_only=True):
    """Pods name it in `spec.schedulingGroup.podGroupName`."""

    api_version: str = field(default_factory=always(f"{GROUP}/{VERSION}"))
    kind: str = field(default_factory=always("PodGroup"))
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


POD_GROUPS: Final = Resource(GROUP, VERSION, "podgroups", "PodGroup", True, PodGroup, has_status=True)


def group_name(pod: Pod) -> str | None:
    """The group that a pod belongs to, whether or not it exists."""
    name = (pod.spec.scheduling_group or {}).get("podGroupName")
    return name if isinstance(name, str) else None


def is_group_claim(group: PodGroup, entry: PodResourceClaim) -> bool:
    """Whether a pod's entry means a claim of its group, which is then reserved for the group and not for the pod."""
    wanted = (entry.name, entry.resource_claim_name, entry.resource_claim_template_name)
    return any(
        wanted == (one.name, one.resource_claim_name, one.resource_claim_template_name)
        for one in group.spec.resource_claims
    )


def owning_group(claim: ResourceClaim) -> OwnerReference | None:
    """The group that controls the claim, where one does; in whatever version of the API."""
    owner = next((one for one in claim.metadata.owner_references if one.controller), None)
    is_group = owner is not None and owner.kind == "PodGroup" and owner.api_version.startswith(f"{GROUP}/")
    return owner if is_group else None


def is_group(consumer: ResourceClaimConsumerReference) -> bool:
    """Whether a reservation is a group's."""
    return consumer.api_group == GROUP and consumer.resource == "podgroups"


def is_reserved_for_group(claim: ResourceClaim, pod: Pod) -> bool:
    """Whether the claim is reserved for the pod's group. A pod knows its group's name only, not the uid."""
    name = group_name(pod)
    return name is not None and any(is_group(one) and one.name == name for one in claim.status.reserved_for)


def consumer_of_group(group: PodGroup) -> ResourceClaimConsumerReference:
    """The group as an entry of `reservedFor`."""
    meta = group.metadata
    return ResourceClaimConsumerReference(api_group=GROUP, resource="podgroups", name=meta.name, uid=meta.uid)
