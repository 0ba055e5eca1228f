"""All slices of a cluster, kept so that a node's pools are found without a look at the other nodes' slices.

A pool is open where one of its slices says by something else than a node's name whom it is for: then it may concern any
node. Other pools concern the nodes that their slices name. Where counters count everywhere (a quirk, and the stable
tier), a pool that is not in order concerns all nodes too, by its slices with counters; one that is in order has no
device for the others and is left out.

What open pools have for a node depends on the labels that their selectors read, and on its name only where they name
nodes; it is worked out once for each combination.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from dray.allocation.features import Features, Tier
from dray.allocation.pools import Pool, Slices, gather_pools, has_binding_conditions
from dray.allocation.profiles import Profile
from dray.api.core.node import Node
from dray.api.resource.slice import Device, ResourceSlice, ResourceSliceSpec
from dray.semantics.pools import PoolID, pool_of

KEPT_COMBINATIONS: Final = 10_000
EVERY_NODE: Final = None
"""Instead of the names of the nodes that a change concerns."""

_NOWHERE: Final = Node()


class Fleet:
    """Owned by one index; its slices are known by name. A slice that changes keeps its place in the order."""

    def __init__(self, features: Features, tier: Tier, profile: Profile) -> None:
        self._rules = (features, tier, profile)
        self._split_everywhere = profile.counter_slices_everywhere
        self._is_everywhere = profile.counter_slices_everywhere or tier is Tier.STABLE
        self._slices: dict[str, ResourceSlice] = {}
        self._numbers: dict[str, int] = {}
        self._made = 0
        self._of_pool: dict[PoolID, dict[str, ResourceSlice]] = {}
        self._of_node: dict[str, dict[PoolID, int]] = {}
        self._open: set[PoolID] = set()
        self._odd: set[PoolID] = set()
        self._reads: _Reads | None = None
        self._found: dict[Hashable, tuple[Pool, ...]] = {}

    @property
    def slices(self) -> tuple[ResourceSlice, ...]:
        """All of them, in order."""
        return tuple(self._slices.values())

    def set_slice(self, one: ResourceSlice) -> set[str] | None:
        """A new slice, or one that changed. Gives the names of the nodes whose pools are others now, or EVERY_NODE."""
        name = one.metadata.name
        old = self._slices.get(name)
        if old == one:
            return set()
        if old is None:
            self._made += 1
            self._numbers[name] = self._made
        self._slices[name] = one
        touched = [pool_of(one)] if old is None else sorted({pool_of(old), pool_of(one)})
        return self._change(touched, old, one)

    def remove_slice(self, name: str) -> set[str] | None:
        """As `set_slice`; a slice that is not there changes nothing."""
        old = self._slices.pop(name, None)
        if old is None:
            return set()
        touched = self._change([pool_of(old)], old, None)
        del self._numbers[name]
        return touched

    def pools_for(self, node: Node) -> tuple[Pool, ...]:
        """What `gather_pools` finds in all slices, but for pools without a device that are in order."""
        own = {*self._of_node.get(node.metadata.name, ()), *self._odd} - self._open
        pools = self._gather(own, node)
        if not self._open:
            return pools
        pools = (*pools, *self._open_pools(node))
        pools = tuple(sorted(pools, key=lambda pool: pool.id))
        if self._rules[1] is Tier.STABLE:
            return pools
        return tuple(sorted(pools, key=has_binding_conditions))

    def _open_pools(self, node: Node) -> tuple[Pool, ...]:
        if self._reads is None:
            self._reads = _Reads.of(
                one for identity in self._open for one in self._of_pool[identity].values()
            )
        key = self._reads.key(node)
        found = self._found.get(key)
        if found is None:
            if len(self._found) >= KEPT_COMBINATIONS:
                self._found.clear()
            found = self._found[key] = self._gather(self._open, node)
        return found

    def _gather(self, pools: set[PoolID], node: Node) -> tuple[Pool, ...]:
        features, tier, profile = self._rules
        return gather_pools(self._split(pools), node, features, tier, profile)

    def _split(self, pools: set[PoolID]) -> Slices:
        slices = [one for identity in pools for one in self._of_pool[identity].values()]
        if len(slices) > 1:
            slices.sort(key=lambda one: self._numbers[one.metadata.name])
        return Slices.split(slices, counters_everywhere=self._split_everywhere)

    def _change(
        self, pools: list[PoolID], old: ResourceSlice | None, new: ResourceSlice | None
    ) -> set[str] | None:
        is_general = any(one in self._open or one in self._odd for one in pools)
        names: set[str] = set()
        if old is not None:
            self._forget(old)
            names.add(old.spec.node_name or "")
        if new is not None:
            self._note(new)
        for identity in pools:
            self._judge(identity)
            names.update(one.spec.node_name or "" for one in self._of_pool.get(identity, {}).values())
        if is_general or any(one in self._open or one in self._odd for one in pools):
            self._reads = None
            self._found.clear()
            return EVERY_NODE
        return names

    def _note(self, one: ResourceSlice) -> None:
        identity = pool_of(one)
        self._of_pool.setdefault(identity, {})[one.metadata.name] = one
        if one.spec.node_name:
            pools = self._of_node.setdefault(one.spec.node_name, {})
            pools[identity] = pools.get(identity, 0) + 1

    def _forget(self, one: ResourceSlice) -> None:
        identity, node = pool_of(one), one.spec.node_name
        del self._of_pool[identity][one.metadata.name]
        if not self._of_pool[identity]:
            del self._of_pool[identity]
        if node:
            pools = self._of_node[node]
            pools[identity] -= 1
            if not pools[identity]:
                del pools[identity]
            if not pools:
                del self._of_node[node]

    def _judge(self, identity: PoolID) -> None:
        """Whether the pool is open, or odd: seen from a node that it does not name."""
        slices = self._of_pool.get(identity, {}).values()
        self._open.discard(identity)
        self._odd.discard(identity)
        if any(not one.spec.node_name for one in slices):
            self._open.add(identity)
        elif any(one.spec.shared_counters for one in slices) and self._is_odd(identity):
            self._odd.add(identity)

    def _is_odd(self, identity: PoolID) -> bool:
        if not self._is_everywhere:
            return False
        return not all(one.is_usable for one in self._gather({identity}, _NOWHERE))


@dataclass(frozen=True, slots=True)
class _Reads:
    """What slices read of a node to tell whether they are for it."""

    labels: tuple[str, ...]
    has_names: bool

    @staticmethod
    def of(slices: Iterable[ResourceSlice]) -> _Reads:
        labels: set[str] = set()
        has_names = False
        for one in slices:
            sources: tuple[ResourceSliceSpec | Device, ...] = (one.spec,)
            if one.spec.per_device_node_selection:
                sources += one.spec.devices or ()
            for source in sources:
                has_names = has_names or bool(source.node_name)
                for term in source.node_selector.node_selector_terms if source.node_selector else ():
                    labels.update(wanted.key for wanted in term.match_expressions)
                    has_names = has_names or bool(term.match_fields)
        return _Reads(tuple(sorted(labels)), has_names)

    def key(self, node: Node) -> Hashable:
        """Equal for nodes that the slices cannot tell apart."""
        meta = node.metadata
        return meta.name if self.has_names else "", tuple([meta.labels.get(name) for name in self.labels])
