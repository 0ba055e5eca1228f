"""The device taint eviction: looks at a pod when it, its claims, their devices or a rule changed, and when its time is up."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from dray.api.core import Pod
from dray.api.kinds import DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from dray.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.client.client import Client
from dray.client.event_recorder import FOR_A_CLUSTER, LAST_WORDS, EventRecorder, refer_to
from dray.client.requests import PatchType, WriteOptions
from dray.controllers.ending import Ending, PodEnder
from dray.controllers.following import follow
from dray.controllers.index import Index
from dray.controllers.pictures import Surroundings
from dray.controllers.queues import MeteredQueue
from dray.controllers.taints.eviction import CORRECT, Eviction, EvictionPolicy, Pools, pod_eviction
from dray.controllers.taints.rule_status import PERIOD, count, new_condition, wait
from dray.errors import NotFoundError
from dray.runtime.clock import Clock
from dray.runtime.tasks import running
from dray.semantics.claims import group_name, has_claims, is_group_consumer, is_pod_consumer
from dray.semantics.pools import PoolID, pool_of

NAME: Final = "device-taint-eviction-controller"
_MANAGER: Final = "device-taint-eviction"
EVENT: Final = "DeviceTaintManagerEviction"
_ENDING: Final = Ending(
    "DeletionByDeviceTaintManager", "Device Taint manager: deleting due to NoExecute taint"
)
Key = tuple[str, str]


class Work(NamedTuple):
    """One pod or one rule to look at."""

    kind: Literal["pod", "rule"]
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class TaintControllerConfig:
    """How the eviction works."""

    policy: EvictionPolicy = CORRECT
    workers: int = 8


class TaintController:
    """Made by `taint_controller`. Two at once evict a pod once: the second finds it on its way out."""

    def __init__(self, around: Surroundings, config: TaintControllerConfig) -> None:
        pictures, clock = around.pictures, around.clock
        self._config, self._clock = config, clock
        self._pods = pictures.of(PODS)
        self._claims = pictures.of(RESOURCE_CLAIMS)
        self._slices = pictures.of(RESOURCE_SLICES)
        # Behind a gate: a server without rules must not keep the taints of slices from working.
        self._rules = pictures.optional(DEVICE_TAINT_RULES)
        self._pools = Pools()
        self._by_pool: Index[Key, PoolID] = Index()
        self._by_group: Index[Key, Key] = Index()
        self._story = _Story(around)
        watch = around.watch(self._find, self._story.events)
        queues = around.metrics.queues
        self.queue: MeteredQueue[Work] = MeteredQueue("device_taint_eviction", clock, queues, watch)

    @property
    def pending(self) -> int:
        """How many pods are to be evicted, now or later."""
        return len(self._story.pending)

    async def run(self) -> None:
        """Until cancelled; the pictures must be entered."""
        async with self._story.events.recording(LAST_WORDS):
            with (
                follow(self._rules, self._see_rule),
                follow(self._slices, self._see_slice),
                follow(self._claims, self._see_claim),
                follow(self._pods, self._see_pod),
            ):
                await self.queue.run(self._look_at, workers=self._config.workers)

    def _see_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if old is not None and new is None:
            self._story.pending.discard(old.metadata.uid)
        if pod is not None and self._config.policy.workload_claims:
            meta, group = pod.metadata, group_name(pod) if new is not None else None
            self._by_group.put((meta.namespace, meta.name), [(meta.namespace, group)] if group else ())
        if pod is not None and has_claims(pod):
            self.queue.add(Work("pod", pod.metadata.namespace, pod.metadata.name))

    def _see_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim = new or old
        if claim is None:
            return
        allocation = new.status.allocation if new is not None else None
        used = allocation.devices.results if allocation is not None else ()
        key = (claim.metadata.namespace, claim.metadata.name)
        self._by_pool.put(key, [PoolID(one.driver, one.pool) for one in used])
        for one in (old, new):
            self._add_users(one)

    def _see_slice(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        pools = set()
        if old is not None:
            self._pools.drop(old)
            pools.add(pool_of(old))
        if new is not None:
            self._pools.put(new)
            pools.add(pool_of(new))
        for pool in sorted(pools):
            for namespace, name in sorted(self._by_pool.having(pool)):
                self._add_users(self._claims.get(name, namespace))

    def _see_rule(self, old: DeviceTaintRule | None, new: DeviceTaintRule | None) -> None:
        if not self._config.policy.taint_rules:
            return
        if old is not None and new is not None and old.spec == new.spec:
            return  # only its status, which is written here
        if new is not None:
            self.queue.add(Work("rule", "", new.metadata.name))
        for claim in self._claims.values():
            if claim.status.allocation is not None:
                self._add_users(claim)

    def _add_users(self, claim: ResourceClaim | None) -> None:
        if claim is None:
            return
        namespace = claim.metadata.namespace
        for one in claim.status.reserved_for:
            if is_pod_consumer(one):
                self.queue.add(Work("pod", namespace, one.name))
            elif is_group_consumer(one):
                for key in sorted(self._by_group.having((namespace, one.name))):
                    self.queue.add(Work("pod", *key))

    async def _look_at(self, work: Work) -> None:
        if work.kind == "rule":
            await self._tell_rule(work)
        else:
            await self._look_at_pod(work)

    def _find(self, work: Work) -> Pod | DeviceTaintRule | None:
        return (
            self._rules.get(work.name) if work.kind == "rule" else self._pods.get(work.name, work.namespace)
        )

    async def _look_at_pod(self, work: Work) -> None:
        pod = self._pods.get(work.name, work.namespace)
        if pod is None:
            return
        policy = self._config.policy
        rules = self._rules.values() if policy.taint_rules else ()
        eviction = pod_eviction(pod, self._claim_of, self._pools, rules, policy)
        if eviction is None:
            self._story.cancelled(pod)
            return
        self._story.pending.add(pod.metadata.uid)
        left = (eviction.when - self._clock.now()).total_seconds()
        if left > 0:
            self._add_rules(eviction, 0.0)
            self.queue.add_after(work, left)
        elif await self._story.evict(pod, eviction):
            self._add_rules(eviction, PERIOD)

    def _add_rules(self, eviction: Eviction, seconds: float) -> None:
        for name in sorted({one.name for one in eviction.reasons if one.rule}):
            self.queue.add_after(Work("rule", "", name), seconds)

    async def _tell_rule(self, work: Work) -> None:
        rule = self._rules.get(work.name)
        left = None if rule is None else wait(rule, self._clock.now())
        if rule is None or left is None:
            return
        if left > 0:
            self.queue.add_after(work, left)
            return
        counts = count(
            rule,
            self._pods.values(),
            self._claims.values(),
            self._claim_of,
            self._pools,
            self._config.policy,
        )
        await self._story.tell_rule(
            rule, new_condition(rule, counts, self._story.evicted[rule.metadata.uid], self._clock.now())
        )

    def _claim_of(self, namespace: str, name: str) -> ResourceClaim | None:
        return self._claims.get(name, namespace)


class _Story:
    """What is written, and what must be remembered for it: who waits for eviction, and how many each rule evicted."""

    def __init__(self, around: Surroundings) -> None:
        self.pending: set[str] = set()
        self.evicted: Counter[str] = Counter()
        self._client, self._clock, self._metrics = around.client, around.clock, around.metrics
        self._ender = PodEnder(around.client, _MANAGER, around.clock)
        self.events = EventRecorder(around.client, _MANAGER, around.clock, pace=FOR_A_CLUSTER)

    async def evict(self, pod: Pod, eviction: Eviction) -> bool:
        """Whether it was done here."""
        meta = pod.metadata
        is_done = await self._ender.end(meta.namespace, meta.name, meta.uid, _ENDING)
        self.pending.discard(meta.uid)
        if is_done:
            self._metrics.device_evictions.inc()
            late = (self._clock.now() - eviction.when).total_seconds()
            self._metrics.device_eviction_lag.observe(max(0.0, late))
            self.events.tell(refer_to(pod), "Normal", EVENT, "Marking for deletion")
            self.evicted.update({one.rule for one in eviction.reasons if one.rule})
        return is_done

    def cancelled(self, pod: Pod) -> None:
        """The pod may stay after all; nothing for one that was not to go."""
        if pod.metadata.uid in self.pending:
            self.pending.discard(pod.metadata.uid)
            if pod.metadata.deletion_timestamp is None:
                self.events.tell(refer_to(pod), "Normal", EVENT, "Cancelling deletion")

    async def tell_rule(self, rule: DeviceTaintRule, condition: dict[str, object] | None) -> None:
        """Apply the condition to that very rule."""
        if condition is None:
            return
        meta = rule.metadata
        change = {
            "apiVersion": DEVICE_TAINT_RULES.api_version,
            "kind": DEVICE_TAINT_RULES.kind,
            "metadata": {"name": meta.name, "uid": meta.uid},
            "status": {"conditions": [condition]},
        }
        options = WriteOptions(field_manager=_MANAGER, force=True)
        try:
            await self._client.patch(
                DEVICE_TAINT_RULES, meta.name, change, PatchType.APPLY, subresource="status", options=options
            )
        except NotFoundError:
            return


@asynccontextmanager
async def taint_controller(
    client: Client, config: TaintControllerConfig | None = None, *, clock: Clock | None = None
) -> AsyncIterator[TaintController]:
    """Runs while entered. Entered: the pictures are there."""
    around = Surroundings.of(client, clock)
    controller = TaintController(around, config or TaintControllerConfig())
    async with around.pictures, running(controller.run(), name=NAME):
        yield controller
