"""When a pod must leave its devices, and because of what. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from dray.api.core import Pod
from dray.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.resource.claim_status import DeviceRequestAllocationResult
from dray.api.taints import DeviceTaint, Effect
from dray.controllers.done_pods import is_terminal
from dray.semantics.claims import ClaimName, claim_for_entry, claim_names, is_for_pod, is_reserved_for_pod
from dray.semantics.pools import PoolID, current, newest_for, pool_of
from dray.semantics.taints import eviction_grace, selects

ClaimOf = Callable[[str, str], ResourceClaim | None]


@dataclass(frozen=True, slots=True)
class EvictionPolicy:
    """Switches of the eviction; the defaults are the documented behaviour."""

    bare_rule_evicts_all: bool = False
    """Q7: a rule without a selector evicts from every device, as Kubernetes' scheduler reads it; its eviction does not."""
    bare_toleration_ignored: bool = False
    """Q8: a toleration without an effect lets a claim be allocated but does not stop its eviction."""
    taint_rules: bool = True
    """The gate DRADeviceTaintRules: rules count where the server has some, and not the taints of slices alone."""
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
            allowed = eviction_grace(
                taint, device.tolerations, bare_toleration_ignored=policy.bare_toleration_ignored
            )
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
        if rule.spec.taint.effect != Effect.NO_EXECUTE:
            continue
        if selects(rule, *place, bare_selects_all=policy.bare_rule_evicts_all):
            yield Reason(rule.metadata.uid, rule.metadata.name, rule.spec.taint.key), rule.spec.taint


def joined(evictions: Iterable[Eviction]) -> Eviction | None:
    """The earliest time, for all the reasons."""
    found = tuple(evictions)
    if not found:
        return None
    reasons = {reason for one in found for reason in one.reasons}
    return Eviction(min(one.when for one in found), tuple(sorted(reasons)))


def pod_eviction(
    pod: Pod, claim_of: ClaimOf, pools: Pools, rules: Iterable[DeviceTaintRule], policy: EvictionPolicy
) -> Eviction | None:
    """When the pod must go: one that has its node and may use a tainted claim, that of its extended resources included."""
    if not pod.spec.node_name or pod.metadata.deletion_timestamp is not None or is_terminal(pod):
        return None
    rules = tuple(rules)
    namespace = pod.metadata.namespace
    entries = [claim_for_entry(pod, entry) for entry in pod.spec.resource_claims]
    static = {one.name for one in entries if isinstance(one, ClaimName) and not one.from_template}
    found = []
    for name in claim_names(pod):
        claim = claim_of(namespace, name)
        if claim is None or not is_reserved_for_pod(claim, pod, pod_groups=policy.workload_claims):
            continue
        if name not in static and not is_for_pod(claim, pod, pod_groups=policy.workload_claims):
            continue
        if (eviction := claim_eviction(claim, pod.spec.node_name, pools, rules, policy)) is not None:
            found.append(eviction)
    return joined(found)
