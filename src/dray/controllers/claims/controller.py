"""The claim controller: looks at one pod or claim at a time, does what the plan says, and looks again when told to.

Safe to kill anywhere and to run twice at once: names of claims are the same at every try, records are applied whole,
and every change of a claim names the version it was decided for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from dray.api.core import Pod
from dray.api.kinds import PODS, RESOURCE_CLAIMS
from dray.api.resource import ResourceClaim, ResourceClaimTemplate
from dray.client.client import Client
from dray.client.requests import Selection
from dray.controllers.claims.claim_plan import plan_claim, pods_to_look_up
from dray.controllers.claims.known import Known, Table
from dray.controllers.claims.picture import MADE_SECONDS, LivePicture
from dray.controllers.claims.pod_plan import plan_pod
from dray.controllers.claims.steps import ClaimPolicy, CreateClaim, Fault, PodPlan, RecordClaims
from dray.controllers.claims.triggers import Work, keys_for_pod
from dray.controllers.claims.writing import Writer
from dray.controllers.following import follow
from dray.controllers.recorder import Recorder
from dray.errors import ConflictError, Error, InvariantError, NotFoundError, UnavailableError
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.tasks import running
from dray.runtime.workqueue import WorkQueue

_ROUNDS: Final = 5
"""Times that one look is redone at once because somebody wrote first; after that the queue brings it back later."""
FAILED: Final = "FailedResourceClaimCreation"


@dataclass(frozen=True, slots=True)
class ClaimControllerConfig:
    """How the claim controller works."""

    policy: ClaimPolicy = field(default_factory=ClaimPolicy)
    workers: int = 10


class ClaimController:
    """Made by `claim_controller`; `queue` is there for who wants to know whether all is done."""

    def __init__(self, client: Client, config: ClaimControllerConfig, clock: Clock) -> None:
        self.queue: WorkQueue[Work] = WorkQueue("claims", clock)
        self._client = client
        self._config = config
        self._picture = LivePicture(client, clock)
        self._writer = Writer(client)
        self._events = Recorder(client, "resource_claim", clock)

    async def run(self) -> None:
        """Until cancelled; the pictures must be entered."""
        picture = self._picture
        async with asyncio.TaskGroup() as group:
            group.create_task(follow(picture.pods, self._see_pod))
            group.create_task(follow(picture.claims, self._see_claim))
            group.create_task(follow(picture.templates, self._see_template))
            group.create_task(self.queue.run(self._look_at, workers=self._config.workers))

    @asynccontextmanager
    async def pictures(self) -> AsyncIterator[None]:
        """Entered: all of them are there."""
        async with AsyncExitStack() as stack:
            for reflector in (self._picture.templates, self._picture.pods, self._picture.claims):
                await stack.enter_async_context(reflector)
            yield

    def _see_pod(self, old: Pod | None, new: Pod | None) -> None:
        self._picture.see_pod(old, new)
        if (pod := new or old) is not None:
            self._add(keys_for_pod(pod, self._picture, is_gone=new is None))

    def _see_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        self._picture.see_claim(old, new)
        if (claim := new or old) is None:
            return
        if new is not None:
            self.queue.add(Work("claim", new.metadata.namespace, new.metadata.name))
        for pod in self._picture.users(claim):
            self._add(keys_for_pod(pod, self._picture))

    def _see_template(self, _: ResourceClaimTemplate | None, new: ResourceClaimTemplate | None) -> None:
        for pod in self._picture.takers(new) if new is not None else ():
            self._add(keys_for_pod(pod, self._picture))

    def _add(self, keys: Iterable[Work]) -> None:
        for key in keys:
            self.queue.add(key)

    async def _look_at(self, work: Work) -> None:
        if work.kind == "claim":
            await self._sync_claim(work.namespace, work.name)
        else:
            await self._sync_pod(work.namespace, work.name)

    async def _sync_claim(self, namespace: str, name: str) -> None:
        claim = self._picture.claim(namespace, name)
        for _ in range(_ROUNDS):
            if claim is None:
                return
            try:
                await self._settle(claim)
                return
            except NotFoundError:
                return
            except ConflictError:
                claim = await self._read_claim(namespace, name)
        raise UnavailableError(f"claim {namespace}/{name}: others keep changing it")

    async def _settle(self, claim: ResourceClaim) -> None:
        known, policy, namespace = self._picture, self._config.policy, claim.metadata.namespace
        names = pods_to_look_up(claim, known, policy)
        looked = {name: await self._writer.look_up(namespace, name) for name in names}
        for step in plan_claim(claim, known, looked, policy):
            claim = await self._writer.carry_out(step, claim)

    async def _read_claim(self, namespace: str, name: str) -> ResourceClaim | None:
        try:
            return await self._client.get(RESOURCE_CLAIMS, name, namespace=namespace)
        except NotFoundError:
            return None

    async def _sync_pod(self, namespace: str, name: str) -> None:
        known: Known = self._picture
        for _ in range(_ROUNDS):
            pod = known.pod(namespace, name)
            if pod is None:
                return
            plan = plan_pod(pod, known, self._config.policy)
            try:
                faults = await self._do_pod(pod, plan, known)
            except (ConflictError, NotFoundError):
                known = await self._read_all(namespace, name)
                continue
            await self._report(pod, faults)
            return
        raise UnavailableError(f"pod {namespace}/{name}: others keep changing it or its claims")

    async def _do_pod(self, pod: Pod, plan: PodPlan, known: Known) -> tuple[Fault, ...]:
        """Carry out what can be; what cannot be made is left out of the record and comes back as a fault."""
        faults, missing = list(plan.faults), set[str]()
        for step in plan.steps:
            if isinstance(step, CreateClaim):
                try:
                    self._remember(await self._writer.create(step, pod, known), pod)
                except (ConflictError, InvariantError, UnavailableError):
                    raise
                except Error as error:
                    missing.add(step.pod_claim)
                    faults.append(Fault(step.pod_claim, f"create ResourceClaim {step.name}: {error}"))
            elif isinstance(step, RecordClaims):
                await self._record(step, missing, pod)
            else:
                await self._writer.reserve(step)
        return tuple(faults)

    def _remember(self, claim: ResourceClaim, pod: Pod) -> None:
        self._picture.remember(claim)
        self.queue.add_after(Work("pod", pod.metadata.namespace, pod.metadata.name), MADE_SECONDS + 1)

    async def _record(self, step: RecordClaims, missing: set[str], pod: Pod) -> None:
        there = tuple(one for one in step.statuses if one.name not in missing)
        if there:
            await self._writer.record(RecordClaims(there), pod)

    async def _report(self, pod: Pod, faults: tuple[Fault, ...]) -> None:
        for fault in faults:
            await self._events.tell(pod, "Warning", FAILED, str(fault))
        if faults:
            meta = pod.metadata
            raise UnavailableError(f"pod {meta.namespace}/{meta.name}: {'; '.join(map(str, faults))}")

    async def _read_all(self, namespace: str, name: str) -> Known:
        """The truth, without caches: the pod and every claim of its namespace. Only after a conflict."""
        claims = (await self._client.list(RESOURCE_CLAIMS, Selection(namespace))).items
        try:
            pod = await self._client.get(PODS, name, namespace=namespace)
        except NotFoundError:
            return Table()
        templates = self._picture.templates.snapshot()
        return Table(
            pods={(namespace, name): pod},
            claims={(namespace, claim.metadata.name): claim for claim in claims},
            templates={key: entry.value for key, entry in templates.entries.items()},
        )


@asynccontextmanager
async def claim_controller(
    client: Client, config: ClaimControllerConfig | None = None, *, clock: Clock | None = None
) -> AsyncIterator[ClaimController]:
    """Runs while entered. Entered: the pictures are there and the first looks are queued."""
    controller = ClaimController(client, config or ClaimControllerConfig(), clock or SystemClock())
    async with controller.pictures(), running(controller.run(), name="claim controller"):
        yield controller
