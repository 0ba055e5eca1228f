"""The index: everything that lives across decisions. Fed by events, asked by attempts.

`set_slice`, `remove_slice`, `set_claim` and `remove_claim` take a cluster's events in any order; each costs what it changes,
not what there is. `attempt(claims)` gives the answers of an `Allocator` over the same objects, to the letter; what was
worked out for one attempt is kept for the next ones until an event makes it void.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final
from uuid import uuid4

from dray.allocation.allocator import Allocator, Options
from dray.allocation.budget import Budget
from dray.allocation.faults import AllocationError
from dray.allocation.features import Tier
from dray.allocation.features import tier as tier_of
from dray.allocation.index.attempt import Attempt, Verdicts
from dray.allocation.index.columns import Columns
from dray.allocation.index.fleet import Fleet
from dray.allocation.index.holds import Holds
from dray.allocation.index.matches import Matchers
from dray.allocation.index.view import NodeView
from dray.allocation.results import NewShareID
from dray.allocation.selector import CompiledSelectors, features_for_selectors
from dray.allocation.state import AllocatedState, DeviceID, Rules
from dray.api.codec import encode
from dray.api.core.node import Node
from dray.api.resource.claim import ResourceClaim
from dray.api.resource.device_class import DeviceClass
from dray.api.resource.slice import ResourceSlice
from dray.semantics.pools import PoolID

_DIGEST: Final = 16
_SMALL: Final = 1024
KEPT_SHAPES: Final = 64
"""Kinds of attempts whose verdicts are remembered."""


def digest_of(claims: Iterable[ResourceClaim]) -> bytes:
    """The same for claims that ask for the same. Claims may be megabytes: only of small ones is it what they say."""
    parts = [encode(claim.spec.devices) for claim in claims]
    if len(parts) == 1 and len(parts[0]) <= _SMALL:
        return parts[0]
    found = blake2b(digest_size=_DIGEST)
    for one in parts:
        found.update(len(one).to_bytes(8, "big"))
        found.update(one)
    return found.digest()


class Index:
    """One owner feeds it and asks. `before` is what is in use without a claim that will be fed."""

    def __init__(
        self,
        options: Options,
        *,
        classes: Iterable[DeviceClass] = (),
        slices: Iterable[ResourceSlice] = (),
        before: AllocatedState | None = None,
        new_share_id: NewShareID | None = None,
    ) -> None:
        features, profile = options.features, options.profile
        tier = tier_of(features, tuple(Tier) if options.tier is None else (options.tier,))
        self.options = options
        self.new_share_id = new_share_id or (lambda: str(uuid4()))
        self._fleet = Fleet(features, tier, profile)
        self._holds = Holds(before or AllocatedState(), consumable_capacity=features.consumable_capacity)
        self.rules = Rules(features, tier, profile, self._holds.state, self._holds.shared)
        known = features_for_selectors(features, profile)
        self.selectors, self._columns = CompiledSelectors(known), Columns(known)
        self.matchers = Matchers(self.selectors)
        self.matchers.kept.add(self)
        self.classes: dict[str, DeviceClass] = {}
        self._views: dict[str, NodeView] = {}
        self._users: dict[PoolID, dict[str, NodeView]] = {}
        self._verdicts: dict[bytes, Verdicts] = {}
        self.set_classes(classes)
        for one in slices:
            self.set_slice(one)

    def set_classes(self, classes: Iterable[DeviceClass]) -> None:
        """All device classes as they are now; of several with one name the first counts."""
        now: dict[str, DeviceClass] = {}
        for one in classes:
            now.setdefault(one.metadata.name, one)
        if now != self.classes:
            self.classes = now
            self._verdicts.clear()

    def set_slice(self, one: ResourceSlice) -> None:
        """A slice that is new or changed."""
        self._drop(self._fleet.set_slice(one))

    def remove_slice(self, name: str) -> None:
        """A slice that is gone."""
        self._drop(self._fleet.remove_slice(name))

    def set_claim(self, claim: ResourceClaim) -> None:
        """A claim that is new or changed. Also for a result that is assumed before the API server has it."""
        self._touch(self._holds.set_claim(claim))

    def remove_claim(self, claim: ResourceClaim) -> None:
        """A claim that is gone, with whatever it held."""
        self._touch(self._holds.remove_claim(claim))

    def remove_node(self, name: str) -> None:
        """Forget what was worked out for a node that is gone."""
        self._drop({name})

    def attempt(
        self,
        claims: Sequence[ResourceClaim],
        budget: Budget | None = None,
        *,
        only: frozenset[DeviceID] | None = None,
        digest: bytes | None = None,
    ) -> Attempt:
        """For the claims of one pod. Good until the next event. `budget` is for all nodes together.

        `digest` is that of the claims, where it is known. With `only` no other devices are taken: for an answer that was found before, which may not be good any more.
        """
        if only is not None:
            return Attempt(self, claims, {}, budget, only)
        shape = digest_of(claims) if digest is None else digest
        verdicts = self._verdicts.get(shape)
        if verdicts is None:
            if len(self._verdicts) >= KEPT_SHAPES:
                del self._verdicts[next(iter(self._verdicts))]
            verdicts = self._verdicts[shape] = {}
        return Attempt(self, claims, verdicts, budget)

    def view(self, node: Node) -> NodeView:
        """What is known of the node; made at the first question, and again when its slices or labels changed."""
        name = node.metadata.name
        view = self._views.get(name)
        if view is not None and view.node is node:
            return view
        if view is not None:
            self._drop({name})
        view = NodeView(
            node, self._fleet.pools_for(node), self.rules, self._columns, self.matchers, self.selectors
        )
        self._views[name] = view
        for pool in view.pools:
            self._users.setdefault(pool.id, {})[name] = view
        return view

    def forget(self) -> None:
        """See `matches.Holder`: what the views found out about requests."""
        for view in self._views.values():
            view.forget()

    def prepare(self, nodes: Iterable[Node]) -> None:
        """Look at nodes before somebody asks, for an owner with time to spare. What cannot be read is left for then."""
        for node in nodes:
            try:
                self.view(node)
            except AllocationError:
                continue

    def allocator(self) -> Allocator:
        """A plain allocator over a snapshot of the same objects, for explanations."""
        return Allocator(
            self.options,
            allocated=self._holds.snapshot(),
            classes=self.classes.values(),
            slices=self._fleet.slices,
            selectors=self.selectors,
            new_share_id=self.new_share_id,
        )

    def _drop(self, nodes: set[str] | None) -> None:
        """Forget the views of these nodes, None for all."""
        if nodes is None:
            self._views.clear()
            self._users.clear()
            for verdicts in self._verdicts.values():
                verdicts.clear()
            return
        for name in nodes:
            view = self._views.pop(name, None)
            if view is not None:
                self._forget_verdict(view)
                for pool in view.pools:
                    self._users[pool.id].pop(name, None)

    def _touch(self, devices: Iterable[DeviceID]) -> None:
        for device in devices:
            for view in self._users.get(PoolID(device.driver, device.pool), {}).values():
                view.touch(device)
                self._forget_verdict(view)

    def _forget_verdict(self, view: NodeView) -> None:
        for verdicts in self._verdicts.values():
            verdicts.pop(id(view.node), None)
