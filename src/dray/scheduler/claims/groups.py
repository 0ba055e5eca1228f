"""PodGroups: claims that the pods of a group share. They are reserved for the group, so one entry does for all its pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dray.api.core.pod import Pod, PodResourceClaim
from dray.api.quoting import quote
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.claim_status import ResourceClaimConsumerReference
from dray.api.scheduling import PodGroup, PodGroupResourceClaim
from dray.scheduler.claims.resolve import Lookup
from dray.semantics.claims import ClaimName, claim_for_entry, consumer_for_entry, group_name, is_for_group


class PodGroups:
    """The groups as they were last seen. Belongs to a `Tracker`; its owner feeds it where the gate is on."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], PodGroup] = {}

    def set_group(self, group: PodGroup) -> None:
        """New or changed."""
        self._groups[group.metadata.namespace, group.metadata.name] = group

    def remove_group(self, namespace: str, name: str) -> None:
        """Gone."""
        self._groups.pop((namespace, name), None)

    def get(self, namespace: str, name: str) -> PodGroup | None:
        """The group of this name."""
        return self._groups.get((namespace, name))


@dataclass(frozen=True, slots=True)
class GroupClaim:
    """A claim that is reserved for a group."""

    claim: ResourceClaim
    group_uid: str


def consumers_of(
    pod: Pod, entries: Sequence[PodResourceClaim], groups: PodGroups
) -> tuple[ResourceClaimConsumerReference, ...] | str:
    """Who becomes the user of each claim, the pod or its group; or why the pod waits."""
    name = group_name(pod)
    group = groups.get(pod.metadata.namespace, name) if name is not None else None
    if name is not None and group is None:
        return f"podgroup.scheduling.k8s.io {quote(name)} not found"
    return tuple(consumer_for_entry(pod, entry, group) for entry in entries)


def idle_claims(pod: Pod, groups: PodGroups, lookup: Lookup, placed: Iterable[Pod]) -> tuple[GroupClaim, ...]:
    """For PostFilter, where the gate is on: claims that hold devices for the pod's group though none of its pods is on a
    node. Binding may have failed before, so other devices are worth a try.

    `placed` are all pods that have a node, assumed ones too; it is not looked at for a pod without a group.
    """
    name = group_name(pod)
    group = groups.get(pod.metadata.namespace, name) if name is not None else None
    if group is None or any(_is_member(one, group) for one in placed):
        return ()
    found = (_claim_of(group, entry, lookup) for entry in group.spec.resource_claims)
    uid = group.metadata.uid
    return tuple(
        GroupClaim(claim, uid)
        for claim in found
        if claim is not None
        and claim.status.allocation is not None
        and any(one.uid == uid for one in claim.status.reserved_for)
    )


def _is_member(pod: Pod, group: PodGroup) -> bool:
    return pod.metadata.namespace == group.metadata.namespace and group_name(pod) == group.metadata.name


def _claim_of(group: PodGroup, entry: PodGroupResourceClaim, lookup: Lookup) -> ResourceClaim | None:
    """The claim that an entry of the group means; None where there is none, or one that was made for somebody else."""
    found = claim_for_entry(group, entry)
    if not isinstance(found, ClaimName):
        return None
    claim = lookup(group.metadata.namespace, found.name)
    if claim is None or (found.from_template and not is_for_group(claim, group)):
        return None
    return claim
