"""What the claim controller knows when it decides: its pictures, what it has just made, and who was seen to go."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from dray.api.core import Pod
from dray.api.resource import ResourceClaim, ResourceClaimTemplate
from dray.api.scheduling import PodGroup
from dray.semantics.claims import claim_names, owner_of

_REMEMBERED: Final = 500
Key = tuple[str, str]


class Known(Protocol):
    """What the plans read. May lag behind the API server; every write is made so that this does no harm."""

    def pod(self, namespace: str, name: str) -> Pod | None:
        """As last seen."""
        ...

    def group(self, namespace: str, name: str) -> PodGroup | None:
        """As last seen; none while the gate of PodGroups is off."""
        ...

    def claim(self, namespace: str, name: str) -> ResourceClaim | None:
        """As last seen or made."""
        ...

    def owned(self, uid: str) -> tuple[ResourceClaim, ...]:
        """All claims that the pod or group with this uid controls, by name."""
        ...

    def users(self, claim: ResourceClaim) -> tuple[Pod, ...]:
        """Pods that name the claim, in their spec or in their record."""
        ...

    def template(self, namespace: str, name: str) -> ResourceClaimTemplate | None:
        """As last seen."""
        ...

    def is_deleted(self, uid: str) -> bool:
        """Whether a pod or group with this uid was seen to go. False means nothing."""
        ...


class Bygone:
    """The uids of pods and groups that were seen to go, the newest few hundred: they need no question to the API server."""

    def __init__(self, limit: int = _REMEMBERED) -> None:
        self._limit = limit
        self._uids: OrderedDict[str, None] = OrderedDict()

    def add(self, uid: str) -> None:
        """It is gone for good: uids are never used twice."""
        self._uids[uid] = None
        self._uids.move_to_end(uid)
        if len(self._uids) > self._limit:
            self._uids.popitem(last=False)

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids


@dataclass(frozen=True)
class Table:
    """`Known` from plain tables: for what-if questions and for a state that was read live."""

    pods: Mapping[Key, Pod] = field(default_factory=dict)
    claims: Mapping[Key, ResourceClaim] = field(default_factory=dict)
    templates: Mapping[Key, ResourceClaimTemplate] = field(default_factory=dict)
    deleted: frozenset[str] = frozenset()
    groups: Mapping[Key, PodGroup] = field(default_factory=dict)

    def pod(self, namespace: str, name: str) -> Pod | None:
        """See `Known`."""
        return self.pods.get((namespace, name))

    def group(self, namespace: str, name: str) -> PodGroup | None:
        """See `Known`."""
        return self.groups.get((namespace, name))

    def claim(self, namespace: str, name: str) -> ResourceClaim | None:
        """See `Known`."""
        return self.claims.get((namespace, name))

    def owned(self, uid: str) -> tuple[ResourceClaim, ...]:
        """See `Known`."""
        found = [
            claim
            for claim in self.claims.values()
            if (owner := owner_of(claim)) is not None and owner.uid == uid
        ]
        return tuple(sorted(found, key=lambda claim: claim.metadata.name))

    def users(self, claim: ResourceClaim) -> tuple[Pod, ...]:
        """See `Known`."""
        namespace, name = claim.metadata.namespace, claim.metadata.name
        found = [pod for key, pod in sorted(self.pods.items()) if key[0] == namespace]
        return tuple(pod for pod in found if name in claim_names(pod))

    def template(self, namespace: str, name: str) -> ResourceClaimTemplate | None:
        """See `Known`."""
        return self.templates.get((namespace, name))

    def is_deleted(self, uid: str) -> bool:
        """See `Known`."""
        return uid in self.deleted
