"""PodGroup (scheduling.k8s.io/v1alpha2): pods that belong together and may share claims. Alpha in 1.36, off by default.

Only what Dray reads. The embedded server keeps these objects as raw JSON, so the kind is not among `kinds.ALL_RESOURCES`.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import field

from dray.api.kinds import Resource
from dray.api.meta import Condition, Model, ObjectMeta, always

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
