"""What a picture finds things by: pools by place, holders by device, pods by node and claim. Each change is one small step. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from dray.allocation.cluster.workloads import has_ended
from dray.api.core import Pod
from dray.api.quantity import Quantity
from dray.api.resource import ResourceClaim, ResourceSlice
from dray.client.store import Key
from dray.dashboard.fleet.model import SHARED, DeviceId
from dray.dashboard.fleet.workloads import claims_of, text_of
from dray.semantics.devices import Holder, holders_in
from dray.semantics.pools import PoolID, current, pool_of
from dray.semantics.requests import pod_requests

_NOTHING: Final[Mapping[Any, Any]] = {}


class Slices:
    """Slices by pool, and where the devices of a pool are."""

    def __init__(self) -> None:
        self._pools: dict[PoolID, dict[str, ResourceSlice]] = {}
        self._pool_of: dict[str, PoolID] = {}
        self._places: dict[PoolID, frozenset[str]] = {}
        self._at: dict[str, set[PoolID]] = {}

    def put(self, name: str, value: ResourceSlice | None) -> frozenset[str]:
        """Take a slice, None to forget it. Gives the places that may look different now."""
        changed = frozenset[str]()
        before = self._pool_of.pop(name, None)
        if before is not None:
            self._pools[before].pop(name)
            changed |= self._place(before)
        if value is not None:
            pool = pool_of(value)
            self._pool_of[name] = pool
            self._pools.setdefault(pool, {})[name] = value
            changed |= self._place(pool)
        return changed

    def places(self) -> frozenset[str]:
        """All places with devices."""
        return frozenset(self._at)

    def places_of(self, pool: PoolID) -> frozenset[str]:
        """Where a pool's devices are."""
        return self._places.get(pool, frozenset())

    def pools_at(self, place: str) -> frozenset[PoolID]:
        """The pools with devices at a place."""
        return frozenset(self._at.get(place, ()))

    def of(self, pool: PoolID, place: str) -> list[ResourceSlice]:
        """The slices that count, with the devices of this place only."""
        return [_at_place(one, place) for one in self._current(pool)]

    def offering(self, key: DeviceId) -> ResourceSlice:
        """The slice of a device that is in a view."""
        found = self._current(PoolID(key.driver, key.pool))
        return next(one for one in found if any(device.name == key.name for device in one.spec.devices or ()))

    def _current(self, pool: PoolID) -> list[ResourceSlice]:
        slices = self._pools[pool]
        return current(slices[name] for name in sorted(slices))

    def _place(self, pool: PoolID) -> frozenset[str]:
        """Note where a pool is now; gives where it was and is."""
        before = self.places_of(pool)
        after = frozenset(
            place for one in self._current(pool) for place, _ in _placed(one)
        )  # fmt: skip
        for place in before - after:
            self._at[place].discard(pool)
            if not self._at[place]:
                del self._at[place]
        for place in after - before:
            self._at.setdefault(place, set()).add(pool)
        self._places[pool] = after
        if not self._pools[pool]:
            del self._pools[pool], self._places[pool]
        return before | after


def _placed(one: ResourceSlice) -> Iterator[tuple[str, Any]]:
    for device in one.spec.devices or ():
        yield one.spec.node_name or device.node_name or SHARED, device


def _at_place(one: ResourceSlice, place: str) -> ResourceSlice:
    if one.spec.node_name == place or not one.spec.devices:
        return one
    here = tuple(device for found, device in _placed(one) if found == place)
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(one.spec, devices=here))


class Holds:
    """Who has which device."""

    def __init__(self) -> None:
        self.by_device: dict[DeviceId, list[Holder]] = {}
        self._of: dict[str, tuple[DeviceId, ...]] = {}

    def put(self, name: str, claim: ResourceClaim | None) -> set[PoolID]:
        """Take a claim, None to forget it. Gives the pools of the devices that it had and has."""
        before = self._of.pop(name, ())
        for key in before:
            left = [hold for hold in self.by_device.get(key, ()) if hold.claim != name]
            if left:
                self.by_device[key] = left
            else:
                self.by_device.pop(key, None)
        after = list(_held(claim)) if claim is not None else []
        for key, holder in after:
            known = self.by_device.get(key, ())
            self.by_device[key] = sorted((*known, holder), key=lambda one: one.claim)
        if after:
            self._of[name] = tuple(dict.fromkeys(key for key, _ in after))
        return {PoolID(key.driver, key.pool) for key in (*before, *(key for key, _ in after))}


def _held(claim: ResourceClaim) -> Iterator[tuple[DeviceId, Holder]]:
    """Admin access takes nothing from anybody, and is not shown."""
    for key, holder in holders_in(claim):
        if not holder.admin:
            yield DeviceId(*key), holder


class Uses:
    """What pods take of nodes by name and number, and which claims they name."""

    def __init__(self) -> None:
        self._at: dict[str, dict[str, Mapping[str, Quantity]]] = {}
        self._node: dict[Key, str] = {}
        self._claims: dict[Key, tuple[Key, ...]] = {}
        self._pods: dict[Key, set[Key]] = {}

    def put(self, key: Key, pod: Pod | None) -> set[str]:
        """Take a pod, None to forget it. Gives the nodes it was and is on."""
        touched = set[str]()
        node = self._node.pop(key, None)
        if node is not None:
            del self._at[node][text_of(key)]
            touched.add(node)
        for claim in self._claims.pop(key, ()):
            self._pods[claim].discard(key)
            if not self._pods[claim]:
                del self._pods[claim]
        if pod is None:
            return touched
        self._claims[key] = tuple(claims_of(pod))
        for claim in self._claims[key]:
            self._pods.setdefault(claim, set()).add(key)
        if pod.spec.node_name and not has_ended(pod):
            self._node[key] = pod.spec.node_name
            self._at.setdefault(pod.spec.node_name, {})[text_of(key)] = pod_requests(pod)
            touched.add(pod.spec.node_name)
        return touched

    def at(self, node: str) -> Mapping[str, Mapping[str, Quantity]]:
        """By pod on this node: what it takes."""
        return self._at.get(node, _NOTHING)

    def pods_of(self, claim: Key) -> frozenset[Key]:
        """The pods that name a claim."""
        return frozenset(self._pods.get(claim, ()))
