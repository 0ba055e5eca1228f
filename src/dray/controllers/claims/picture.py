"""The claim controller's view of the cluster: informers, indexes beside them, and what was made a moment ago."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from dray.api.core import Pod
from dray.api.kinds import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dray.api.resource import ResourceClaim, ResourceClaimTemplate
from dray.api.scheduling import POD_GROUPS, PodGroup
from dray.controllers.claims.known import Bygone, Key
from dray.controllers.index import Index
from dray.controllers.pictures import Pictures
from dray.runtime.clock import Clock
from dray.semantics.claims import claim_names, group_name, owner_of

_MADE: Final = 1000
MADE_SECONDS: Final = 60.0
"""How long a claim that was made here counts as there without the watch having shown it."""


class LivePicture:
    """`Known` over informers. The indexes follow through `see_*`, called by the owner's followers for each change."""

    def __init__(self, pictures: Pictures, clock: Clock, *, has_groups: bool = False) -> None:
        self.pods = pictures.of(PODS)
        self.groups = GroupPicture(pictures) if has_groups else None
        self.claims = pictures.of(RESOURCE_CLAIMS)
        self.templates = pictures.of(RESOURCE_CLAIM_TEMPLATES)
        self._bygone = Bygone()
        self._made: OrderedDict[Key, tuple[float, ResourceClaim]] = OrderedDict()
        self._clock = clock
        self._by_claim: Index[Key, Key] = Index()
        self._by_template: Index[Key, Key] = Index()
        self._by_owner: Index[Key, str] = Index()
        self._by_group: Index[Key, Key] = Index()

    def pod(self, namespace: str, name: str) -> Pod | None:
        """See `Known`."""
        return self.pods.get(name, namespace)

    def group(self, namespace: str, name: str) -> PodGroup | None:
        """See `Known`."""
        return self.groups.get(namespace, name) if self.groups is not None else None

    def claim(self, namespace: str, name: str) -> ResourceClaim | None:
        """See `Known`: what was made here counts until the watch has brought it."""
        found = self.claims.get(name, namespace)
        if found is None and (made := self._made.get((namespace, name))) is not None:
            return made[1] if self._clock.monotonic() - made[0] < MADE_SECONDS else None
        return found

    def owned(self, uid: str) -> tuple[ResourceClaim, ...]:
        """See `Known`."""
        found = (self.claim(*key) for key in sorted(self._by_owner.having(uid)))
        return tuple(claim for claim in found if claim is not None and _owner_uid(claim) == uid)

    def template(self, namespace: str, name: str) -> ResourceClaimTemplate | None:
        """See `Known`."""
        return self.templates.get(name, namespace)

    def is_deleted(self, uid: str) -> bool:
        """See `Known`."""
        return uid in self._bygone

    def users(self, claim: ResourceClaim) -> tuple[Pod, ...]:
        """See `Known`."""
        return self._pods(self._by_claim.having(_key(claim)))

    def takers(self, template: ResourceClaimTemplate) -> tuple[Pod, ...]:
        """Pods that want a claim from the template."""
        return self._pods(self._by_template.having(_key(template)))

    def remember(self, claim: ResourceClaim) -> None:
        """It was made just now; the watch has not told yet."""
        self._made[_key(claim)] = (self._clock.monotonic(), claim)
        self._by_owner.put(_key(claim), {_owner_uid(claim)} - {""})
        if len(self._made) > _MADE:
            self._made.popitem(last=False)

    def see_pod(self, old: Pod | None, new: Pod | None) -> None:
        """A pod came, changed or went."""
        if new is None and old is not None:
            self._bygone.add(old.metadata.uid)
        pod = new or old
        if pod is None:
            return
        namespace, key = pod.metadata.namespace, _key(pod)
        names = claim_names(pod) if new is not None else ()
        self._by_claim.put(key, [(namespace, name) for name in names])
        wanted = [one.resource_claim_template_name for one in pod.spec.resource_claims] if new else []
        self._by_template.put(key, [(namespace, name) for name in wanted if name is not None])
        group = group_name(pod) if new is not None and self.groups is not None else None
        self._by_group.put(key, [(namespace, group)] if group is not None else ())

    def see_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """A group came, changed or went."""
        if new is None and old is not None:
            self._bygone.add(old.metadata.uid)
        if self.groups is not None:
            self.groups.see(old, new)

    def members(self, group: PodGroup) -> tuple[Pod, ...]:
        """The pods of a group."""
        return self._pods(self._by_group.having(_key(group)))

    def see_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """A claim came, changed or went."""
        claim = new or old
        if claim is None:
            return
        made = self._made.get(_key(claim))
        if made is not None and made[1].metadata.uid == claim.metadata.uid:
            del self._made[_key(claim)]
        self._by_owner.put(_key(claim), {_owner_uid(claim)} - {""} if new is not None else ())

    def _pods(self, keys: frozenset[Key]) -> tuple[Pod, ...]:
        found = (self.pod(*key) for key in sorted(keys))
        return tuple(pod for pod in found if pod is not None)


class GroupPicture:
    """PodGroups with their indexes; there only where the gate is on. A server may lack the kind."""

    def __init__(self, pictures: Pictures) -> None:
        self.informer = pictures.optional(POD_GROUPS)
        self._by_claim: Index[Key, Key] = Index()
        self._by_template: Index[Key, Key] = Index()

    def get(self, namespace: str, name: str) -> PodGroup | None:
        """As last seen."""
        return self.informer.get(name, namespace)

    def users(self, claim: ResourceClaim) -> tuple[PodGroup, ...]:
        """Groups that name the claim, in their spec or in their record."""
        return self._groups(self._by_claim.having(_key(claim)))

    def takers(self, template: ResourceClaimTemplate) -> tuple[PodGroup, ...]:
        """Groups that want a claim from the template."""
        return self._groups(self._by_template.having(_key(template)))

    def see(self, old: PodGroup | None, new: PodGroup | None) -> None:
        """A group came, changed or went."""
        group = new or old
        if group is None:
            return
        namespace, key = group.metadata.namespace, _key(group)
        names = claim_names(group) if new is not None else ()
        self._by_claim.put(key, [(namespace, name) for name in names])
        wanted = [one.resource_claim_template_name for one in group.spec.resource_claims] if new else []
        self._by_template.put(key, [(namespace, name) for name in wanted if name is not None])

    def _groups(self, keys: frozenset[Key]) -> tuple[PodGroup, ...]:
        found = (self.get(*key) for key in sorted(keys))
        return tuple(group for group in found if group is not None)


def _key(one: Pod | PodGroup | ResourceClaim | ResourceClaimTemplate) -> Key:
    return (one.metadata.namespace, one.metadata.name)


def _owner_uid(claim: ResourceClaim) -> str:
    owner = owner_of(claim)
    return "" if owner is None else owner.uid
