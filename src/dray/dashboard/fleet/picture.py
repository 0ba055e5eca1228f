"""The fleet as one picture that follows the cluster change by change. Pure: objects go in, views and a log of changes come out.

A change marks the nodes that it touches, and `settle` makes those anew: a claim costs one node, not the fleet. Views that
come out the same are no change, so a node's heartbeat is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from dray.api.core import Node, Pod
from dray.api.kinds import DEVICE_TAINT_RULES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from dray.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.client.store import Key
from dray.dashboard.fleet.changes import ChangeLog
from dray.dashboard.fleet.devices import Place, pool_devices
from dray.dashboard.fleet.indexes import Holds, Slices, Uses
from dray.dashboard.fleet.model import SHARED, DeviceId, DeviceView, FleetSummary, NodeView, Summary, json
from dray.dashboard.fleet.nodes import is_hollow, node_view
from dray.dashboard.fleet.workloads import claims_of, is_waiting_claim, is_waiting_pod, text_of, wants_devices
from dray.semantics.pools import PoolID


class Picture:
    """Owned by one task. Everything that is read is as of the last `settle`, but claims and pods, which are as of now."""

    def __init__(self, log: ChangeLog) -> None:
        self.log = log
        self.nodes: dict[str, Node] = {}
        self.claims: dict[Key, ResourceClaim] = {}
        self.pods: dict[Key, Pod] = {}
        self._slices = Slices()
        self._holds = Holds()
        self._uses = Uses()
        self._rules: dict[str, DeviceTaintRule] = {}
        self._waiting: dict[str, set[Key]] = {"claims": set(), "pods": set()}
        self._views = _Views()
        self._touched: set[str] = set()
        self._takes: dict[Resource[Any], Callable[[Key, Any], None]] = {
            NODES: self._take_node,
            RESOURCE_SLICES: self._take_slice,
            RESOURCE_CLAIMS: self._take_claim,
            PODS: self._take_pod,
            DEVICE_TAINT_RULES: self._take_rule,
        }

    def take(self, resource: Resource[Any], key: Key, value: Any | None) -> None:
        """An object is there or has changed; None: it is gone. Kinds that are not in the picture are passed over."""
        take = self._takes.get(resource)
        if take is not None:
            take(key, value)

    def settle(self) -> None:
        """Make anew what was touched, and note what came out different."""
        touched, self._touched = self._touched, set()
        rules = [self._rules[name] for name in sorted(self._rules)]
        for name in sorted(touched):
            if self._views.put(name, self._view(name, rules)):
                self.log.note("node", name)

    def view(self, name: str) -> NodeView | None:
        """One node, or `SHARED`."""
        return self._views.get(name)

    def encoded(self, name: str) -> msgspec.Raw | None:
        """The same as JSON."""
        return self._views.encoded(name)

    def names(self) -> list[str]:
        """All nodes, sorted; devices that are on no single node come last."""
        return self._views.names()

    def summary(self) -> FleetSummary:
        """All nodes together, and what waits."""
        return self._views.summary(len(self._waiting["pods"]), len(self._waiting["claims"]))

    def device(self, key: DeviceId) -> tuple[DeviceView, ResourceSlice] | None:
        """A device and the slice that offers it."""
        text = str(key)
        for place in sorted(self._slices.places_of(PoolID(key.driver, key.pool))):
            view = self._views.get(place)
            for one in view.devices if view is not None else ():
                if one.id == text:
                    return one, self._slices.offering(key)
        return None

    def node_of(self, pool: PoolID) -> str:
        """Where a pool's devices are; "" where that is more than one node."""
        places = self._slices.places_of(pool)
        return next(iter(places)) if len(places) == 1 and SHARED not in places else ""

    def pods_of(self, claim: Key) -> list[Key]:
        """The pods that name a claim, sorted."""
        return sorted(self._uses.pods_of(claim))

    def rules(self) -> Iterable[DeviceTaintRule]:
        """By name."""
        return [self._rules[name] for name in sorted(self._rules)]

    def _take_node(self, key: Key, node: Node | None) -> None:
        name = key[1]
        if node is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = node
        self._touched.add(name)

    def _take_slice(self, key: Key, value: ResourceSlice | None) -> None:
        self._touched |= self._slices.put(key[1], value)

    def _take_rule(self, key: Key, rule: DeviceTaintRule | None) -> None:
        """Rules are few, and may match anything."""
        if rule is None:
            self._rules.pop(key[1], None)
        else:
            self._rules[key[1]] = rule
        self._touched |= self._slices.places()

    def _take_claim(self, key: Key, claim: ResourceClaim | None) -> None:
        if claim is None:
            self.claims.pop(key, None)
        else:
            self.claims[key] = claim
        self._wait("claims", key, claim is not None and is_waiting_claim(claim))
        for pool in self._holds.put(text_of(key), claim):
            self._touched |= self._slices.places_of(pool)
        self.log.note("claim", text_of(key))
        for pod in self._uses.pods_of(key):
            self.log.note("pod", text_of(pod))

    def _take_pod(self, key: Key, pod: Pod | None) -> None:
        before = self.pods.pop(key, None)
        wants = pod is not None and wants_devices(pod)
        if pod is not None and wants:
            self.pods[key] = pod
        self._wait("pods", key, pod is not None and wants and is_waiting_pod(pod))
        self._touched |= self._uses.put(key, pod if wants else None)
        if before is None and not wants:
            return
        self.log.note("pod", text_of(key))
        for claim in {*(claims_of(before) if before else ()), *(claims_of(pod) if pod and wants else ())}:
            if claim in self.claims:
                self.log.note("claim", text_of(claim))

    def _wait(self, what: str, key: Key, waits: bool) -> None:
        (self._waiting[what].add if waits else self._waiting[what].discard)(key)

    def _view(self, name: str, rules: list[DeviceTaintRule]) -> NodeView | None:
        node = self.nodes.get(name)
        pools = self._slices.pools_at(name)
        if node is None and not pools:
            return None
        place = Place(name, node is not None and is_hollow(node))
        devices: list[DeviceView] = []
        for pool in sorted(pools):
            devices += pool_devices(self._slices.of(pool, name), place, self._holds.by_device, rules)
        return node_view(name, node, devices, self._uses.at(name))


class _Views:
    """The nodes as they are told, with their JSON, and their sum."""

    def __init__(self) -> None:
        self._views: dict[str, NodeView] = {}
        self._json: dict[str, msgspec.Raw] = {}
        self._sum: Counter[str] = Counter()

    def put(self, name: str, view: NodeView | None) -> bool:
        """Whether it is another than before."""
        before = self._views.get(name)
        if view == before:
            return False
        if before is not None:
            self._sum.subtract(_counts(before))
            del self._views[name], self._json[name]
        if view is not None:
            self._sum.update(_counts(view))
            self._views[name], self._json[name] = view, msgspec.Raw(json(view))
        return True

    def get(self, name: str) -> NodeView | None:
        return self._views.get(name)

    def encoded(self, name: str) -> msgspec.Raw | None:
        return self._json.get(name)

    def names(self) -> list[str]:
        return sorted(self._views, key=lambda name: (name == SHARED, name))

    def summary(self, pods: int, claims: int) -> FleetSummary:
        return FleetSummary(**self._sum, pending_pods=pods, pending_claims=claims)


def _counts(view: NodeView) -> dict[str, int]:
    own = {name: getattr(view.summary, name) for name in Summary.__struct_fields__}
    is_node = view.name != SHARED
    return {**own, "nodes": int(is_node), "nodes_ready": int(is_node and view.ready)}
