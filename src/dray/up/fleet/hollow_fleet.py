"""A fleet of hollow nodes (`dray up --sim`): Nodes, Leases and ResourceSlices without machines, and pods that only seem to run.

    fleet = HollowFleet(client, load_profile("100-nodes"), clock)
    async with fleet.running():
        await fleet.wait_written()

One loop for all nodes. It reads what is there and writes what is missing, so it may be killed at any moment and started
again with the same or another profile: what carries the fleet's label and is not in the profile is removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from dray.api.core import Node
from dray.api.kinds import LEASES, NODES
from dray.client.client import Client
from dray.client.informer import Informer
from dray.client.informers import Informers
from dray.client.requests import DeleteOptions, Selection
from dray.client.store import Change, Deleted
from dray.dra.classes import ensure_classes
from dray.drivers.sim.profile import HOLLOW_LABEL, SimProfile
from dray.errors import ConflictError, NotFoundError
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.tasks import running
from dray.runtime.workqueue import WorkQueue
from dray.up.fleet.leases import HollowLeases
from dray.up.fleet.objects import (
    LEASE_NAMESPACE,
    SELECTOR,
    HollowNode,
    device_classes,
    fleet_nodes,
    is_as_wanted,
    is_labelled,
    node_document,
    node_labels,
    status_change,
)
from dray.up.fleet.pods import HollowPods
from dray.up.fleet.slices import HollowSlices, SliceHead

_log = get_log("fleet")

Progress = Callable[[int, int], None]
"""How many nodes are written, of how many; called for each."""
WORKERS: Final = 16
_RETRY: Final = BackoffPolicy(first=0.1, limit=30.0)


class HollowFleet:
    """`running` keeps the fleet. Entered: what is there is known and the loop works; `wait_written` waits for the rest.

    Run it also with a profile without nodes: those of an earlier one are removed then, and where there are none it does
    nothing and follows nothing.
    """

    def __init__(
        self, client: Client, profile: SimProfile, clock: Clock, progress: Progress = lambda done, total: None
    ) -> None:
        self._client = client
        self._profile = profile
        self._clock = clock
        self._progress = progress
        self._wanted = fleet_nodes(profile)
        self._open: set[str] = set(self._wanted)
        self._done = 0
        self._written = asyncio.Event()
        self._queue = WorkQueue[str]("hollow nodes", clock, _RETRY)
        informers = Informers(client, clock=clock)
        self._informers = informers
        self._nodes: Informer[Node] = informers.of(NODES, Selection(labels=SELECTOR))
        self._slices = HollowSlices(client, informers)
        self._pods = HollowPods(client, clock, informers, self.is_hollow)
        self._leases = HollowLeases(client, clock, self._living)

    def is_hollow(self, node: str) -> bool:
        """Whether this is one of the profile's."""
        return node in self._wanted

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Until left; the objects stay, and the nodes fall silent as any others would.

        ConflictError where another node has the name of one of the profile's.
        """
        if not self._wanted and not await self._has_leftovers():
            self._written.set()
            yield
            return
        async with AsyncExitStack() as stack:
            await self._check_names()
            await ensure_classes(self._client, device_classes(self._profile))
            await self._slices.start()
            await stack.enter_async_context(self._informers)
            self._begin()
            work = self._queue.run(self._work, workers=WORKERS)
            await stack.enter_async_context(running(work, name="hollow nodes"))
            await stack.enter_async_context(running(self._pods.run(), name="hollow pods"))
            await stack.enter_async_context(running(self._leases.run(), name="hollow leases"))
            yield

    async def wait_written(self) -> None:
        """Return when every node of the profile was written once, and those of others are gone."""
        await self._written.wait()

    async def _has_leftovers(self) -> bool:
        page = await self._client.list_page(NODES, Selection(labels=SELECTOR), limit=1)
        return bool(page.entries or page.unreadable)

    async def _check_names(self) -> None:
        others = await self._client.list(NODES, Selection(labels=f"{HOLLOW_LABEL}!=true"))
        for _, name in sorted(entry.key for entry in others.entries):
            if name in self._wanted:
                raise _taken(name)

    def _begin(self) -> None:
        self._nodes.on_change(self._note_node)
        self._slices.heads.on_change(self._note_slice)
        stale = {one.metadata.name for one in self._nodes.values()} | self._slices.nodes
        self._open = {*self._wanted, *stale}
        for name in (*self._wanted, *sorted(stale - self._wanted.keys())):
            self._queue.add(name)

    def _living(self) -> list[str]:
        return [name for name in self._wanted if self._nodes.get(name) is not None]

    def _note_node(self, change: Change[Node]) -> None:
        name = change.key[1]
        wanted = self._wanted.get(name)
        if isinstance(change, Deleted):
            is_right = wanted is None
        else:
            is_right = wanted is not None and _is_right(wanted, change.new.value)
        if not is_right:
            self._queue.add(name)

    def _note_slice(self, change: Change[SliceHead]) -> None:
        entry = change.old if isinstance(change, Deleted) else change.new
        name = entry.value.spec.node_name
        node = self._nodes.get(name)
        if node is None or not self._slices.is_kept(name, node.metadata.uid):
            self._queue.add(name)

    async def _work(self, name: str) -> None:
        wanted = self._wanted.get(name)
        if wanted is None:
            await self._remove(name)
        else:
            node = await self._node(wanted)
            await self._slices.keep(wanted, node.metadata.uid)
        if name in self._open:
            self._open.discard(name)
            self._note_progress(is_new=wanted is not None)

    def _note_progress(self, *, is_new: bool) -> None:
        if is_new:
            self._done += 1
            self._progress(self._done, len(self._wanted))
        if not self._open:
            self._written.set()
            _log.info("hollow nodes are written", nodes=len(self._wanted))

    async def _node(self, wanted: HollowNode) -> Node:
        """The Node as it should be, made or put right."""
        stored = self._nodes.get(wanted.name)
        if stored is None:
            stored = await self._create(wanted)
        if not is_labelled(wanted, stored):
            labels = {"metadata": {"labels": node_labels(wanted)}}
            stored = await self._client.patch(NODES, wanted.name, labels)
        if not is_as_wanted(wanted, stored):
            change = status_change(wanted, stored, self._clock.now())
            stored = await self._client.patch(NODES, wanted.name, change, subresource="status")
        return stored

    async def _create(self, wanted: HollowNode) -> Node:
        try:
            stored = await self._client.create(NODES, node_document(wanted, self._clock.now()))
        except ConflictError:  # somebody else's node of that name, or ours that is not seen yet
            return await self._ours(wanted.name)
        await self._leases.create(wanted.name)
        return stored

    async def _ours(self, name: str) -> Node:
        stored = await self._client.get(NODES, name)
        if stored.metadata.labels.get(HOLLOW_LABEL) != "true":
            raise _taken(name)
        return stored

    async def _remove(self, name: str) -> None:
        """The slices first: nothing may be allocated from a node that goes. Pods there are the collector's."""
        await self._slices.remove(name)
        node = self._nodes.get(name)
        try:
            await self._client.delete(LEASES, name, namespace=LEASE_NAMESPACE)
        except NotFoundError:
            _log.debug("lease was gone already", name=name)
        if node is not None:
            try:
                await self._client.delete(NODES, name, options=DeleteOptions(uid=node.metadata.uid))
            except NotFoundError:
                _log.debug("node was gone already", name=name)


def _is_right(wanted: HollowNode, stored: Node) -> bool:
    return is_labelled(wanted, stored) and is_as_wanted(wanted, stored)


def _taken(name: str) -> ConflictError:
    return ConflictError(
        f"node {name!r} is there and is not a hollow one: choose another name for the group of the profile, or for the node"
    )
