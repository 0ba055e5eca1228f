"""When a pod must leave its devices, and because of what. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dray.api.core import Pod
from dray.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.resource.claim_status import DeviceRequestAllocationResult
from dray.api.scheduling import group_name, is_reserved_for_group, owning_group
from dray.api.taints import DeviceTaint, DeviceToleration, Effect, tolerates
from dray.controllers.pod_claims import claim_names, is_for, is_reserved, is_terminal, meant
from dray.semantics.pools import PoolID, current, newest_for, pool_of

ClaimOf = Callable[[str, str], ResourceClaim | None]
_LATEST: Final = 10**10
"""Seconds that a toleration may ask for and still be told from for ever by a date."""


@dataclass(frozen=True, slots=True)
class EvictionPolicy:
    """Switches of the eviction; the defaults are the documented behaviour."""

    bare_rule_evicts_all: bool = False
    """Q7: a rule without a selector evicts from every device, as Kubernetes' scheduler reads it; its eviction does not."""
    bare_toleration_ignored: bool = False
    """Q8: a toleration without an effect lets a claim be allocated but does not stop its eviction."""
    workload_claims: bool = False
    """The gate DRAWorkloadResourceClaims: a pod may use what is reserved for its PodGroup."""


CORRECT: Final = EvictionPolicy()
KUBERNETES_1_36: Final = EvictionPolicy(bare_toleration_ignored=True)


class Reason(msgspec.Struct, frozen=True, order=True):
    """A taint that evicts: of a rule (`rule` is its uid), or of a device's slice."""

    rule: str
    name: str
    key: str


class Eviction(msgspec.Struct, frozen=True):
    """From `when` on the pod must go; the reasons are sorted."""

    when: datetime
    reasons: tuple[Reason, ...]


class Pools:
    """The published devices' taints, without those of outdated slices. Owned by one loop."""

    def __init__(self, slices: Iterable[ResourceSlice] = ()) -> None:
        self._slices: dict[PoolID, dict[str, ResourceSlice]] = {}
        for one in slices:
            self.put(one)

    def put(self, one: ResourceSlice) -> None:
        """It came or changed."""
        self._slices.setdefault(pool_of(one), {})[one.metadata.name] = one

    def drop(self, one: ResourceSlice) -> None:
        """It went."""
        pool = self._slices.get(pool_of(one), {})
        pool.pop(one.metadata.name, None)
        if not pool:
            self._slices.pop(pool_of(one), None)

    def current(self) -> Iterable[ResourceSlice]:
        """All slices that count for one node at least."""
        for key in sorted(self._slices):
            yield from current(self._of(key))

    def taints(self, node: str, driver: str, pool: str, device: str) -> tuple[tuple[str, DeviceTaint], ...]:
        """The device's own taints, each with its slice's name; none for a device that is not published to the node."""
        for one in newest_for(node, self._of(PoolID(driver, pool))):
            for found in one.spec.devices or ():
                if found.name == device:
                    return tuple((one.metadata.name, taint) for taint in found.taints)
        return ()

    def _of(self, key: PoolID) -> list[ResourceSlice]:
        slices = self._slices.get(key, {})
        return [slices[name] for name in sorted(slices)]


def rule_selects(rule: DeviceTaintRule, driver: str, pool: str, device: str, policy: EvictionPolicy) -> bool:
    """Whether the rule is about this device."""
    selector = rule.spec.device_selector
    if selector is None:
        return policy.bare_rule_evicts_all
    return (
        selector.driver in (None, driver)
        and selector.pool in (None, pool)
        and selector.device in (None, device)
    )


def grace(
    taint: DeviceTaint, tolerations: Iterable[DeviceToleration], policy: EvictionPolicy
) -> timedelta | None:
    """How long after its time the taint is tolerated; None: for good. The shortest of several counts."""
    seconds: list[int] = []
    for one in tolerations:
        counts = one.effect == Effect.NO_EXECUTE or (not one.effect and not policy.bare_toleration_ignored)
        if counts and tolerates(one, taint):
            if one.toleration_seconds is None or one.toleration_seconds >= _LATEST:
                return None
            seconds.append(max(one.toleration_seconds, 0))
    return timedelta(seconds=min(seconds, default=0))


def claim_eviction(
    claim: ResourceClaim, node: str, pools: Pools, rules: Iterable[DeviceTaintRule], policy: EvictionPolicy
) -> Eviction | None:
    """When users of the claim on this node must go: the earliest of all its devices' taints; None where none of them evicts."""
    if claim.status.allocation is None:
        return None
    rules = tuple(rules)
    found: list[Eviction] = []
    for device in claim.status.allocation.devices.results:
        for reason, taint in _evicting(device, node, pools, rules, policy):
            allowed = grace(taint, device.tolerations, policy)
            if allowed is not None and taint.time_added is not None:
                found.append(Eviction(taint.time_added + allowed, (reason,)))
    return joined(found)


def _evicting(
    device: DeviceRequestAllocationResult,
    node: str,
    pools: Pools,
    rules: tuple[DeviceTaintRule, ...],
    policy: EvictionPolicy,
) -> Iterable[tuple[Reason, DeviceTaint]]:
    place = (device.driver, device.pool, device.device)
    for name, taint in pools.taints(node, *place):
        if taint.effect == Effect.NO_EXECUTE:
            yield Reason("", f"{name}/{device.device}", taint.key), taint
    for rule in rules:
        if rule.spec.taint.effect == Effect.NO_EXECUTE and rule_selects(rule, *place, policy):
            yield Reason(rule.metadata.uid, rule.metadata.name, rule.spec.taint.key), rule.spec.taint


def joined(evictions: Iterable[Eviction]) -> Eviction | None:
    """The earliest time, for all the reasons."""
    found = tuple(evictions)
    if not found:
        return None
    reasons = {reason for one in found for reason in one.reasons}
    return Eviction(min(one.when for one in found), tuple(sorted(reasons)))


def _may_use(claim: ResourceClaim, pod: Pod, policy: EvictionPolicy) -> bool:
    return is_reserved(claim, pod) or (policy.workload_claims and is_reserved_for_group(claim, pod))


def _is_own(claim: ResourceClaim, pod: Pod, policy: EvictionPolicy) -> bool:
    """Whether it was made for the pod, or for its group, which a pod knows by name only."""
    group = owning_group(claim) if policy.workload_claims else None
    return is_for(claim, pod) or (group is not None and group.name == group_name(pod))


def pod_eviction(
    pod: Pod, claim_of: ClaimOf, pools: Pools, rules: Iterable[DeviceTaintRule], policy: EvictionPolicy
) -> Eviction | None:
    """When the pod must go: one that has its node and may use a tainted claim, that of its extended resources included."""
    if not pod.spec.node_name or pod.metadata.deletion_timestamp is not None or is_terminal(pod):
        return None
    rules = tuple(rules)
    namespace = pod.metadata.namespace
    static = {
        one.name
        for entry in pod.spec.resource_claims
        if (one := meant(pod, entry)) is not None and not one.from_template
    }
    found = []
    for name in claim_names(pod):
        claim = claim_of(namespace, name)
        if claim is None or not _may_use(claim, pod, policy):
            continue
        if name not in static and not _is_own(claim, pod, policy):
            continue
        if (eviction := claim_eviction(claim, pod.spec.node_name, pools, rules, policy)) is not None:
            found.append(eviction)
    return joined(found)
