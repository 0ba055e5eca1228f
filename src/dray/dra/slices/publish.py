"""Keep the ResourceSlices of a driver on its node as they should be.

    async with SlicePublisher(client, PoolOwner(driver, node)) as publisher:
        publisher.want(PoolContents(devices, counters))

What is wanted is written at once. Whatever happens to the slices otherwise, by the kubelet that clears them when it
starts or by somebody's hand, is put right a moment later; longer after each time, while it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType

from dray.api.kinds import NODES
from dray.api.resource.slice import ResourceSlice
from dray.client.client import Client
from dray.dra.parcels import NodeRef
from dray.dra.slices.dropped import dropped_features
from dray.dra.slices.due import Due
from dray.dra.slices.known_slices import KnownSlices
from dray.dra.slices.layout import COUNTERS_APART, Layout, PoolContents, lay_out, parse_version
from dray.dra.slices.publish_memory import ServerMemory, Told
from dray.dra.slices.publish_observer import NoObserver, PublishObserver
from dray.dra.slices.reconcile import Deletion, Plan, PoolOwner, kept_last, make_plan
from dray.dra.slices.slice_writer import SliceWriter
from dray.errors import (
    ConflictError,
    DeniedError,
    Error,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from dray.runtime.backoff import Backoff, BackoffPolicy
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.logs import get_log
from dray.runtime.tasks import running

_log = get_log("dra.publish")
_LONGEST_WAIT = 60.0


@dataclass(frozen=True, slots=True)
class PublishConfig:
    """`calm`: how long to wait for more after a change that is not ours; it grows, and starts over after `quiet` seconds.

    `remove`: take the slices away when left; else they stay, and the kubelet removes them once the driver is gone.
    """

    calm: BackoffPolicy = field(default_factory=lambda: BackoffPolicy(first=0.2, limit=30.0))
    quiet: float = 60.0
    retry: BackoffPolicy = field(default_factory=lambda: BackoffPolicy(first=0.2, limit=10.0))
    invalid_retry: float = 300.0
    remove: bool = False
    remove_timeout: float = 5.0


class _Peace:
    """How long to wait before slices are put right: the longer, the more often it was in vain."""

    def __init__(self, config: PublishConfig, clock: Clock) -> None:
        self._backoff = Backoff(config.calm)
        self._quiet = config.quiet
        self._clock = clock
        self._last = clock.monotonic()
        self._wait = self._backoff.next()

    @property
    def wait(self) -> float:
        """Seconds."""
        if self._clock.monotonic() - self._last > self._quiet and self._backoff.failures > 1:
            self._backoff.reset()
            self._wait = self._backoff.next()
        return self._wait

    def broken(self) -> None:
        """Somebody changed what we had written."""
        self._last = self._clock.monotonic()
        self._wait = self._backoff.next()


class SlicePublisher:
    """Entered: at work; the API server may be away, for as long as it likes. Left: stopped, the slices stay (`remove`)."""

    def __init__(
        self,
        client: Client,
        owner: PoolOwner,
        config: PublishConfig | None = None,
        *,
        clock: Clock | None = None,
        observer: PublishObserver | None = None,
        reached: Callable[[str], None] = lambda step: None,
    ) -> None:
        """A node without uid is looked up. `reached` hears `planned` and the steps of `slice_writer`, for tests of crashes."""
        self._client = client
        self._owner = owner
        self._config = config or PublishConfig()
        self._clock = clock or SystemClock()
        self._observer = observer or NoObserver()
        self._reached = reached
        self._wanted: PoolContents | None = None
        self._due = Due(self._clock)
        self._known = KnownSlices(client, owner.driver, owner.node.name, self._notice, clock=self._clock)
        self._writer = SliceWriter(client, self._known, self._observer, reached)
        self._memory = ServerMemory(is_node_sure=bool(owner.node.uid))
        self._told = Told()
        self._backoff = Backoff(self._config.retry)
        self._peace = _Peace(self._config, self._clock)
        self._is_published = asyncio.Event()
        self._is_noticed = False
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> SlicePublisher:
        async with AsyncExitStack() as stack:
            if self._config.remove:
                stack.push_async_callback(self._remove)
            await stack.enter_async_context(self._known)
            name = f"slices of {self._owner.driver}"
            await stack.enter_async_context(running(self._run(), name=name, stop_timeout=5.0))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)

    def want(self, contents: PoolContents) -> None:
        """From now on the pool is this, in full. At any time, also before entering; equal contents are no change."""
        if contents != self._wanted:
            self._wanted = contents
            self._told.refusals = 0
            self._is_published.clear()
            self._due.now()

    def wake(self) -> None:
        """Look at the server now. Called when the kubelet has registered the driver: it clears slices when it starts."""
        self._known.distrust()
        self._memory.doubt()
        self._is_noticed = False
        self._due.now()

    async def wait_published(self) -> None:
        """Return once the server has all that is wanted."""
        await self._is_published.wait()

    def _notice(self, is_loss: bool) -> None:
        """A slice changed. Where it was deleted, the node may be another one by now, and the owner with it.

        While writes fail, the next try has its time: what they half did must not hasten it.
        """
        if is_loss:
            self._memory.is_node_sure = False
        self._is_noticed = True
        if not self._told.failure:
            self._due.within(self._peace.wait)

    async def _run(self) -> None:
        while True:
            await self._due.wait()
            if self._wanted is not None:
                await self._turn(self._wanted)

    async def _turn(self, contents: PoolContents) -> None:
        try:
            is_whole = await self._sync(contents)
        except Error as error:
            self._failed(error)
            return
        self._backoff.reset()
        if self._told.failure:  # what was noticed meanwhile was not looked at
            self._due.within(self._peace.wait)
        self._told.succeeded()
        if not is_whole:
            self._due.now()
        elif contents is self._wanted:
            self._is_published.set()

    async def _sync(self, contents: PoolContents) -> bool:
        """False where the server did not store all of it: then another look shows what is left to do."""
        is_noticed, self._is_noticed = self._is_noticed, False
        layout = await self._layout(contents)
        existing = await self._known.read()
        await self._find_node()
        known = kept_last(existing, len(layout.slices), self._owner)
        wanted = self._memory.for_server(layout.slices, known)
        plan = make_plan(existing, wanted, self._owner)
        self._reached("planned")
        if is_noticed and plan.steps and self._is_published.is_set():
            self._peace.broken()
            _log.info("slices were changed by somebody else, which is put right", driver=self._owner.driver)
        is_whole = await self._carry_out(plan)
        self._observer.published(len(wanted), sum(len(one.devices) for one in wanted), plan.generation)
        return is_whole

    async def _layout(self, contents: PoolContents) -> Layout:
        """The server's version is asked for only where it matters."""
        memory = self._memory
        if contents.counters and memory.version is None:
            answer = await self._client.server_version()
            memory.version = parse_version(answer.major, answer.minor)
        layout = lay_out(contents, memory.version or COUNTERS_APART)
        for problem in layout.problems:
            text = f"{problem.path}: {problem.message}"
            if self._told.is_new(text):
                _log.warning(text, driver=self._owner.driver)
        return layout

    async def _find_node(self) -> None:
        """Slices of a node that is not there, or of one before it, would be collected as soon as they are made."""
        memory, node = self._memory, self._owner.node
        if memory.is_node_sure:
            return
        try:
            found = await self._client.get(NODES, node.name)
        except NotFoundError as error:
            raise UnavailableError(f"node {node.name!r} is not there (yet)") from error
        except DeniedError:
            if not node.uid:
                raise
        else:
            self._owner = replace(self._owner, node=NodeRef(node.name, found.metadata.uid))
        memory.is_node_sure = True

    async def _carry_out(self, plan: Plan) -> bool:
        is_whole = True
        for step in plan.steps:
            try:
                stored = await self._writer.carry_out(step)
            except InvalidError:
                self._told.refusals += 1
                raise
            if stored is not None and not isinstance(step, Deletion):
                is_whole &= self._is_stored(step.new, stored, step.index)
        if plan.steps:
            _log.info(
                "published", driver=self._owner.driver, generation=plan.generation, calls=len(plan.steps)
            )
        return is_whole

    def _is_stored(self, sent: ResourceSlice, stored: ResourceSlice, index: int) -> bool:
        self._memory.stored(stored)
        features = dropped_features(sent.spec, stored.spec)
        if features:
            self._memory.adopt(index, stored, features)
        if new := [one for one in features if self._told.is_new(one)]:
            gates = ", ".join(new)
            text = f"the API server dropped fields of devices; these feature gates are probably off: {gates}"
            _log.warning(text, driver=self._owner.driver)
            self._observer.dropped(new)
        return not features

    def _failed(self, error: Error) -> None:
        """A refusal is tried once more soon, as the server may be of another version by now; then it is not hammered."""
        delay = self._backoff.next()
        is_new = self._told.is_new_failure(error)
        if isinstance(error, InvalidError):
            self._memory.version = None
            if self._told.refusals > 1:
                delay = self._config.invalid_retry
        if isinstance(error, UnavailableError) and error.retry_after is not None:
            delay = max(delay, min(error.retry_after, _LONGEST_WAIT))
        if is_new:
            where = {"field": found} if (found := _field(error)) else {}
            tell = _log.info if isinstance(error, ConflictError) else _log.error
            tell("slices cannot be published yet", driver=self._owner.driver, error=str(error), **where)
        self._observer.failed(error)
        self._due.within(delay)

    async def _remove(self) -> None:
        try:
            async with asyncio.timeout(self._config.remove_timeout):
                for one in await self._known.ask():
                    await self._writer.delete(one)
        except (Error, TimeoutError) as error:
            _log.warning("slices stay behind", driver=self._owner.driver, error=str(error))


def _field(error: Error) -> str:
    if not isinstance(error, InvalidError):
        return ""
    return error.field or next((str(getattr(cause, "field", "")) for cause in error.causes), "")
