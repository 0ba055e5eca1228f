"""This node's own object: its labels choose what is served, its uid owns what is published."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Final

import msgspec

from dray.agent.config.last_known import LastKnown
from dray.api.core import Node
from dray.api.kinds import NODES
from dray.client.client import Client
from dray.client.reflector import Reflector, ReflectorConfig
from dray.client.requests import Selection
from dray.dra.parcels import NodeRef
from dray.runtime.clock import Clock
from dray.runtime.files.checkpoint_format import Format
from dray.runtime.logs import get_log
from dray.runtime.tasks import running, wait_first

_log = get_log("node")

PATIENCE: Final = 2.0
"""Seconds that entering waits for the API server's first answer."""


class KnownLabels(msgspec.Struct, frozen=True):
    """What is kept for the next start. `name`: labels of another node are not ours."""

    name: str
    labels: dict[str, str]


LAYOUT: Final = Format(KnownLabels)


class NodeView:
    """Entered: followed, and read once if the API server answered in time. Left: stopped; the last view stays.

    `labels` are the newest that were ever seen, also by an earlier run, and stay when the Node is gone; None where none
    were. `ref` is what the API server says in this run: None before its first answer, and while there is no Node.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        kept: LastKnown[KnownLabels],
        clock: Clock,
        *,
        patience: float = PATIENCE,
    ) -> None:
        self.name = name
        self._kept = kept
        self._patience = patience
        self._clock = clock
        selection = Selection(fields=f"metadata.name={name}")
        config = ReflectorConfig(wait_synced=False)
        self._nodes: Reflector[Node] = Reflector(client, NODES, selection, config, clock=clock)
        self._labels: Mapping[str, str] | None = None
        self._ref: NodeRef | None = None
        self._generation = 0
        self._turn = asyncio.Event()
        self._stack = AsyncExitStack()

    @property
    def labels(self) -> Mapping[str, str] | None:
        """Replaced, never changed."""
        return self._labels

    @property
    def ref(self) -> NodeRef | None:
        """Name and uid of the Node as it is at the API server."""
        return self._ref

    @property
    def is_answered(self) -> bool:
        """Whether the API server has answered in this run, whatever it said."""
        return self._nodes.stats.lists > 0

    @property
    def generation(self) -> int:
        """Grows with every difference in `labels` or `ref`; a heartbeat is none."""
        return self._generation

    async def __aenter__(self) -> NodeView:
        known = self._kept.load()
        if known is not None and known.name == self.name:
            self._labels = known.labels
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._nodes)
            await wait_first(self._nodes.wait_synced(), self._clock.sleep(self._patience))
            self._take(self._nodes.get(self.name))
            if not self.is_answered:
                kept = "labels of an earlier run are used" if self._labels is not None else "labels unknown"
                _log.warning("no answer about this node yet", node=self.name, kept=kept)
            elif self._ref is None:
                _log.warning("the API server has no such node yet; is --node-name right?", node=self.name)
            await stack.enter_async_context(running(self._follow(), name="node", stop_timeout=5.0))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    async def wait_newer(self, generation: int) -> None:
        """Return once there was a difference after `generation`."""
        while self._generation <= generation:
            await self._turn.wait()

    async def wait_ref(self) -> NodeRef:
        """The Node, as soon as there is one."""
        while self._ref is None:
            await self.wait_newer(self._generation)
        return self._ref

    async def _follow(self) -> None:
        generation = -1
        while True:
            snapshot = await self._nodes.wait_changed(generation)
            generation = snapshot.generation
            self._take(snapshot.get(("", self.name)))

    def _take(self, node: Node | None) -> None:
        ref = None if node is None else NodeRef(node.metadata.name, node.metadata.uid)
        labels = self._labels if node is None else node.metadata.labels
        if (ref, labels) == (self._ref, self._labels):
            return
        self._ref, self._labels = ref, labels
        if labels is not None:
            self._kept.save(KnownLabels(self.name, dict(labels)))
        self._generation += 1
        self._turn.set()
        self._turn = asyncio.Event()
