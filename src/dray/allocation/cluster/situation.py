"""A cluster as one scheduler sees it: profile, features, and what is in use. Questions are asked of its allocator."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from dray.allocation.allocator import Allocator, Options
from dray.allocation.budget import Budget, Now, Spending
from dray.allocation.candidates import Candidates
from dray.allocation.cluster.cluster_dump import Cluster
from dray.allocation.features import Features, features_for
from dray.allocation.pools import Pool
from dray.allocation.profiles import CORRECT, KUBERNETES_1_36, Profile
from dray.allocation.selector import CompiledSelectors, features_for_selectors
from dray.allocation.state import AllocatedState
from dray.api.core.node import Node
from dray.api.resource.claim import ResourceClaim
from dray.semantics.features import NO_SWITCHES, GateSwitches
from dray.semantics.taints import with_taint_rules


@dataclass(frozen=True)
class Situation:
    """Made once for a cluster and a profile. `selectors` keeps compiled texts over all questions."""

    cluster: Cluster
    allocator: Allocator
    selectors: CompiledSelectors
    features: Features

    @staticmethod
    def of(cluster: Cluster, profile: Profile, features: Features) -> Situation:
        """Allocated claims count as in use, and taint rules as taints where their gate is on."""
        selectors = CompiledSelectors(features_for_selectors(features, profile))
        rules = cluster.taint_rules if features.device_taint_rules else ()
        allocator = Allocator(
            Options(features, profile),
            allocated=in_use(cluster.claims, features),
            classes=cluster.classes,
            slices=with_taint_rules(cluster.slices, rules, bare_selects_all=profile.bare_rule_taints_all),
            selectors=selectors,
        )
        return Situation(cluster, allocator, selectors, features)

    @property
    def profile(self) -> Profile:
        """Whose answers these are."""
        return self.allocator.rules.profile

    def within(self, seconds: float, now: Now) -> Situation:
        """The same, where the search on one node is stopped after so long by that clock."""
        return replace(self, allocator=self.allocator.within(seconds, Budget(now=now)))

    def checked(self, check: Callable[[], None]) -> Situation:
        """The same, where `check` is called before each question to the allocator; what it raises ends the work."""
        allocator = copy.copy(self.allocator)
        ask = allocator.candidates

        def candidates(pools: Sequence[Pool], node: Node, budget: Spending) -> Candidates:
            check()
            return ask(pools, node, budget)

        allocator.candidates = candidates
        return replace(self, allocator=allocator)

    def other(self, switches: GateSwitches = NO_SWITCHES) -> Situation:
        """The same cluster for comparison: as `correct` sees it, or for `correct` as Kubernetes 1.36 does."""
        profile = KUBERNETES_1_36 if self.profile is CORRECT else CORRECT
        features = features_for(profile, switches, has_served_rules=self.cluster.has_served_rules)
        return self.like(profile, features)

    def like(self, profile: Profile, features: Features) -> Situation:
        """The same cluster and the same limits for another profile or other features."""
        made, mine = Situation.of(self.cluster, profile, features), self.allocator
        return replace(made, allocator=made.allocator.within(mine.seconds, mine.budget))


def in_use(claims: Iterable[ResourceClaim], features: Features) -> AllocatedState:
    """What the claims hold, as a scheduler with these features counts it."""
    return AllocatedState.of(claims, consumable_capacity=features.consumable_capacity)


def with_allocated(allocator: Allocator, state: AllocatedState) -> Allocator:
    """The same allocator where other devices are in use. Its slices and selectors are shared, so it costs little."""
    changed = copy.copy(allocator)
    changed.rules = replace(allocator.rules, allocated=state, shared=state.shared_devices())
    return changed


def joined(first: AllocatedState, second: AllocatedState) -> AllocatedState:
    """What is in use where both hold."""
    capacity = {device: dict(amounts) for device, amounts in first.capacity.items()}
    for device, amounts in second.capacity.items():
        total = capacity.setdefault(device, {})
        for name, amount in amounts.items():
            total[name] = total[name] + amount if name in total else amount
    return AllocatedState(first.devices | second.devices, first.shares | second.shares, capacity)
