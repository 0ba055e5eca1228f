"""Keeps the slices of hollow nodes. What was written is known by its version, so a quiet fleet costs nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from dray.api.codec import to_raw
from dray.api.kinds import RESOURCE_SLICES, Resource
from dray.api.meta import Model
from dray.api.resource.slice import ResourceSlice
from dray.client.client import Client
from dray.client.informer import Informer
from dray.client.informers import Informers
from dray.client.requests import DeleteOptions, Selection
from dray.dra.parcels import NodeRef
from dray.dra.slices.layout import COUNTERS_APART, parse_version
from dray.dra.slices.reconcile import Creation, Deletion, PoolOwner, Step, Update, make_plan
from dray.errors import ConflictError, NotFoundError
from dray.up.fleet.objects import HOLLOW, SELECTOR, HollowNode, pool_slices

Versions = frozenset[tuple[str, str]]
"""Name and resource version of each slice of a node."""


class HeadMeta(Model, frozen=True, kw_only=True):
    """As much of the metadata as tells one version of a slice from another."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class HeadSpec(Model, frozen=True, kw_only=True):
    """Whose slice it is."""

    node_name: str = ""


class SliceHead(Model, frozen=True, kw_only=True):
    """A ResourceSlice without its devices: a thousand nodes are followed in little memory."""

    metadata: HeadMeta = HeadMeta()
    spec: HeadSpec = HeadSpec()


SLICE_HEADS: Final = Resource(
    RESOURCE_SLICES.group, RESOURCE_SLICES.version, RESOURCE_SLICES.plural, "ResourceSlice", False, SliceHead
)
_BY_NODE: Final = "node"


def _node_of(head: SliceHead) -> Iterable[str]:
    return (head.spec.node_name,)


class HollowSlices:
    """`keep` makes the slices of a node right, `remove` takes them away; each is called for one node at a time."""

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client
        self._heads: Informer[SliceHead] = informers.of(
            SLICE_HEADS, Selection(labels=SELECTOR), indexers={_BY_NODE: _node_of}
        )
        self._kept: dict[str, tuple[str, Versions]] = {}
        self._found: dict[str, list[ResourceSlice]] = {}
        self._version = COUNTERS_APART

    @property
    def heads(self) -> Informer[SliceHead]:
        """All slices of hollow nodes."""
        return self._heads

    @property
    def nodes(self) -> set[str]:
        """Those that have slices, whether they are wanted or not."""
        return {head.spec.node_name for head in self._heads.values()}

    async def start(self) -> None:
        """Ask the server how it wants its slices, and once for all that are there: one by one would take long."""
        found = await self._client.server_version()
        self._version = parse_version(found.major, found.minor) or COUNTERS_APART
        for one in (await self._client.list(RESOURCE_SLICES, Selection(labels=SELECTOR))).items:
            self._found.setdefault(one.spec.node_name or "", []).append(one)

    def is_kept(self, name: str, uid: str) -> bool:
        """Whether all slices of the node are as `keep` left them."""
        return self._kept.get(name) == (uid, self._seen(name))

    async def keep(self, node: HollowNode, uid: str) -> None:
        """The slices belong to the Node of this uid. ConflictError: others wrote too; call it again."""
        if self.is_kept(node.name, uid):
            return
        is_known = self._kept.pop(node.name, None) is not None
        existing = self._found.pop(node.name, [])
        if not existing and (is_known or self._seen(node.name)):
            existing = await self._list(node.name)
        pools = pool_slices(node, self._version)
        steps: list[Step] = []
        for pool in pools:
            owner = PoolOwner(pool.driver, NodeRef(node.name, uid))
            steps += make_plan(existing, pool.slices, owner).steps
        drivers = {pool.driver for pool in pools}
        steps += [Deletion(one) for one in existing if one.spec.driver not in drivers]
        stored = {one.metadata.name: one.metadata.resource_version for one in existing}
        for step in steps:
            await self._carry_out(step, stored)
        self._kept[node.name] = (uid, frozenset(stored.items()))

    async def remove(self, name: str) -> None:
        """All of them."""
        self._kept.pop(name, None)
        existing = self._found.pop(name, None) or (await self._list(name) if self._seen(name) else [])
        for one in existing:
            await self._carry_out(Deletion(one), {})

    def _seen(self, name: str) -> Versions:
        heads = self._heads.indexed(_BY_NODE, name)
        return frozenset((one.metadata.name, one.metadata.resource_version) for one in heads)

    async def _list(self, name: str) -> list[ResourceSlice]:
        selection = Selection(labels=SELECTOR, fields=f"spec.nodeName={name}")
        return list((await self._client.list(RESOURCE_SLICES, selection)).items)

    async def _carry_out(self, step: Step, stored: dict[str, str]) -> None:
        match step:
            case Deletion(old=old):
                stored.pop(old.metadata.name, None)
                options = DeleteOptions(uid=old.metadata.uid)
                try:
                    await self._client.delete(RESOURCE_SLICES, old.metadata.name, options=options)
                except NotFoundError:
                    return
            case Update(new=new):
                try:
                    done = await self._client.update(RESOURCE_SLICES, to_raw(_labelled(new)))
                except NotFoundError as error:
                    raise ConflictError(f"slice {new.metadata.name!r} was deleted meanwhile") from error
                stored[done.metadata.name] = done.metadata.resource_version
            case Creation(new=new):
                done = await self._client.create(RESOURCE_SLICES, _labelled(new))
                stored[done.metadata.name] = done.metadata.resource_version


def _labelled(one: ResourceSlice) -> ResourceSlice:
    metadata = msgspec.structs.replace(one.metadata, labels={**one.metadata.labels, **HOLLOW})
    return msgspec.structs.replace(one, metadata=metadata)
