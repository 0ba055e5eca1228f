"""The pools a node can draw on: which slices count, whether they are all there, and whether they make sense."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from msgspec.structs import replace

from dray.allocation.budget import UNLIMITED, Spending
from dray.allocation.faults import AllocationError
from dray.allocation.features import Features, Tier
from dray.allocation.profiles import Profile
from dray.api.core.node import Node
from dray.api.resource.slice import Device, ResourceSlice
from dray.api.selectors.nodes import NodeMatcher, compile_node_selector
from dray.api.selectors.types import NodeSelector
from dray.errors import InvalidError
from dray.semantics.pools import (
    PoolID,
    by_pool,
    duplicate_name,
    is_complete,
    is_outdated,
    newest,
    of_generation,
    pool_of,
)


@dataclass(frozen=True, slots=True)
class Pool:
    """One pool as a node sees it. An incomplete or invalid one gives no device; `invalid` says why.

    `slices` hold the devices for this node in first-fit order, `elsewhere` those of other nodes that draw on the same
    counters, `counters` the declared amounts in billionths by (set, counter). An unusable pool has only what was `seen`.
    """

    id: PoolID
    slices: tuple[ResourceSlice, ...] = ()
    elsewhere: tuple[ResourceSlice, ...] = ()
    counters: Mapping[tuple[str, str], int] = field(default_factory=dict)
    is_incomplete: bool = False
    invalid: str = ""
    seen: tuple[ResourceSlice, ...] = ()

    @property
    def is_usable(self) -> bool:
        """Whether devices may be given from it."""
        return not self.is_incomplete and not self.invalid


@dataclass(frozen=True, slots=True)
class Slices:
    """All slices of the cluster, split once for many nodes."""

    every: tuple[ResourceSlice, ...]
    by_node: Mapping[str, tuple[ResourceSlice, ...]]
    shared: tuple[ResourceSlice, ...]
    by_pool: Mapping[PoolID, tuple[ResourceSlice, ...]]

    @staticmethod
    def split(slices: Iterable[ResourceSlice], *, counters_everywhere: bool) -> Slices:
        """Slices of one node are for that node alone, except those with counters where that quirk is on."""
        every = tuple(slices)
        by_node: dict[str, list[ResourceSlice]] = {}
        shared = []
        for one in every:
            if not one.spec.node_name or (counters_everywhere and one.spec.shared_counters):
                shared.append(one)
            else:
                by_node.setdefault(one.spec.node_name, []).append(one)
        return Slices(
            every,
            {name: tuple(group) for name, group in by_node.items()},
            tuple(shared),
            {identity: tuple(group) for identity, group in by_pool(every).items()},
        )


def gather_pools(
    slices: Slices,
    node: Node,
    features: Features,
    tier: Tier,
    profile: Profile,
    budget: Spending | None = None,
) -> tuple[Pool, ...]:
    """The node's pools in the order devices are tried. Outdated slices do not count.

    The stable tier keeps slices as they are listed; Kubernetes then walks pools in random order, here they are sorted.
    """
    everywhere = profile.counter_slices_everywhere or tier is Tier.STABLE
    candidates = slices.every
    if tier is not Tier.STABLE:
        candidates = slices.by_node.get(node.metadata.name, ()) + slices.shared
    budget = budget or UNLIMITED
    groups: dict[PoolID, list[ResourceSlice]] = {}
    for one in candidates:
        budget.charge(1 + len(one.spec.devices or ()))
        if _is_relevant(one, node, features, everywhere):
            groups.setdefault(pool_of(one), []).append(one)
    pools = []
    for identity in sorted(groups):
        pool = _pool(identity, newest(groups[identity]), slices, node, features, tier, profile, budget)
        if pool is not None:
            pools.append(pool)
    if tier is not Tier.STABLE:
        pools.sort(key=has_binding_conditions)
    return tuple(pools)


def _is_relevant(one: ResourceSlice, node: Node, features: Features, everywhere: bool) -> bool:
    spec = one.spec
    if not features.partitionable_devices and (
        spec.per_device_node_selection is not None or spec.shared_counters
    ):
        return False
    if everywhere and spec.shared_counters:
        return True
    try:
        return slice_is_for(node, one)
    except AllocationError as error:
        raise AllocationError(f"gather pool information: {error}") from None


def _pool(
    identity: PoolID,
    here: list[ResourceSlice],
    slices: Slices,
    node: Node,
    features: Features,
    tier: Tier,
    profile: Profile,
    budget: Spending,
) -> Pool | None:
    """None where the driver is replacing this generation by one that has nothing for this node."""
    first = here[0].spec.pool
    is_whole = is_complete(here, first)
    of_pool: Sequence[ResourceSlice] = ()
    if not is_whole or not profile.own_slices_suffice:
        of_pool = slices.by_pool[identity]
        if is_outdated(of_pool, first.generation, node.metadata.name, is_whole=is_whole):
            return None
        of_pool = of_generation(of_pool, first.generation)
        if not is_whole and not is_complete(of_pool, first):
            return Pool(identity, is_incomplete=True, seen=tuple(here))
    names = {one.metadata.name for one in here}
    elsewhere = [] if is_whole else [one for one in of_pool if one.metadata.name not in names]
    if tier is Tier.STABLE:
        here = [_unshared(one) for one in here]
    else:
        here = sorted(here, key=lambda one: one.metadata.name)
    return _checked(identity, here, elsewhere, features, budget)


def _unshared(one: ResourceSlice) -> ResourceSlice:
    """As the stable tier sees it: it knows nothing of shares, and does not tell selectors of them."""
    devices = one.spec.devices or ()
    if not any(device.allow_multiple_allocations for device in devices):
        return one
    alone = tuple(replace(device, allow_multiple_allocations=None) for device in devices)
    return replace(one, spec=replace(one.spec, devices=alone))


def _checked(
    identity: PoolID,
    here: list[ResourceSlice],
    elsewhere: list[ResourceSlice],
    features: Features,
    budget: Spending,
) -> Pool:
    if not features.partitionable_devices:
        return _without_duplicates(Pool(identity, tuple(here)), budget)
    devices = [one for one in here if not one.spec.shared_counters]
    others = [one for one in elsewhere if not one.spec.shared_counters]
    sets = [counter_set for one in (*here, *elsewhere) for counter_set in one.spec.shared_counters or ()]
    duplicate = duplicate_name(counter_set.name for counter_set in sets)
    if duplicate is not None:
        return Pool(identity, invalid=f"duplicate counter set name {duplicate}", seen=tuple(here))
    counters = {
        (one.name, name): counter.value.nano for one in sets for name, counter in one.counters.items()
    }
    names = {one.name for one in sets}
    for one in (*here, *elsewhere):
        budget.charge(len(one.spec.devices or ()))
        for device in one.spec.devices or ():
            if fault := _unknown_counter(device, names, counters):
                return Pool(identity, invalid=fault, seen=tuple(here))
    return _without_duplicates(Pool(identity, tuple(devices), tuple(others), counters), budget)


def _without_duplicates(pool: Pool, budget: Spending) -> Pool:
    budget.charge(sum(len(one.spec.devices or ()) for one in pool.slices))
    duplicate = duplicate_name(device.name for one in pool.slices for device in one.spec.devices or ())
    if duplicate is None:
        return pool
    return Pool(pool.id, invalid=f"duplicate device name {duplicate}", seen=pool.slices)


def _unknown_counter(device: Device, sets: set[str], counters: Mapping[tuple[str, str], int]) -> str:
    for consumption in device.consumes_counters:
        if consumption.counter_set not in sets:
            return f"counter set {consumption.counter_set} not found"
        for name in sorted(consumption.counters):
            if (consumption.counter_set, name) not in counters:
                return f"counter {name} not found in counter set {consumption.counter_set}"
    return ""


def has_binding_conditions(pool: Pool) -> bool:
    """Whether any of its devices has: such pools come last."""
    return any(device.binding_conditions for one in pool.slices for device in one.spec.devices or ())


def node_matches(node: Node, name: str | None, all_nodes: bool | None, selector: NodeSelector | None) -> bool:
    """The three ways to name nodes, in Kubernetes' order; none of them set matches no node."""
    if name:
        return node.metadata.name == name
    if all_nodes:
        return True
    if selector is None:
        return False
    return _matcher(selector).matches(node.metadata.labels, node.metadata.name)


def device_is_for(node: Node, device: Device) -> bool:
    """For devices of a slice with perDeviceNodeSelection."""
    return node_matches(node, device.node_name, device.all_nodes, device.node_selector)


def slice_is_for(node: Node, one: ResourceSlice) -> bool:
    """By the slice's own fields, or by any of its devices; a way to select that is not known matches no node."""
    spec = one.spec
    try:
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            return node_matches(node, spec.node_name, spec.all_nodes, spec.node_selector)
    except AllocationError as error:
        raise AllocationError(
            f"failed to perform node selection for slice {one.metadata.name}: {error}"
        ) from None
    if not spec.per_device_node_selection:
        return False
    for device in spec.devices or ():
        try:
            if device_is_for(node, device):
                return True
        except AllocationError as error:
            place = f"device {device.name} in slice {one.metadata.name}"
            raise AllocationError(f"failed to perform node selection for {place}: {error}") from None
    return False


@lru_cache(maxsize=4096)
def _matcher(selector: NodeSelector) -> NodeMatcher:
    try:
        return compile_node_selector(selector)
    except InvalidError as error:
        raise AllocationError(f"failed to parse node selector: {error}") from None
