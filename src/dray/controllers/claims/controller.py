"""The claim controller: looks at one pod or claim at a time, does what the plan says, and looks again when told to.

Safe to kill anywhere and to run twice at once: names of claims are the same at every try, records are applied whole,
and every change of a claim names the version it was decided for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Final

from dray.api.core import Pod
from dray.api.kinds import PODS, RESOURCE_CLAIMS
from dray.api.resource import ResourceClaim, ResourceClaimTemplate
from dray.api.scheduling import PodGroup
from dray.client.client import Client
from dray.client.event_recorder import FOR_A_CLUSTER, LAST_WORDS, EventRecorder, refer_to
from dray.client.requests import Selection
from dray.controllers.claims.claim_plan import groups_to_look_up, plan_claim, pods_to_look_up
from dray.controllers.claims.group_plan import plan_group
from dray.controllers.claims.known import Known, Table
from dray.controllers.claims.making import Owner
from dray.controllers.claims.picture import MADE_SECONDS, LivePicture
from dray.controllers.claims.pod_plan import plan_pod
from dray.controllers.claims.steps import ClaimPolicy, CreateClaim, Fault, PodPlan, RecordClaims
from dray.controllers.claims.triggers import Work, keys_for_group, keys_for_pod
from dray.controllers.claims.writing import Writer
from dray.controllers.following import follow
from dray.controllers.metrics import asks_admin_access
from dray.controllers.pictures import Surroundings
from dray.controllers.queues import MeteredQueue
from dray.errors import ConflictError, Error, NotFoundError, UnavailableError
from dray.runtime.clock import Clock
from dray.runtime.tasks import running
from dray.semantics.claims import group_name

NAME: Final = "resourceclaim-controller"
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

    def __init__(self, around: Surroundings, config: ClaimControllerConfig) -> None:
        client, clock = around.client, around.clock
        self._client = client
        self._config = config
        self._picture = LivePicture(around.pictures, clock, has_groups=config.policy.workload_claims)
        self._writer = Writer(client)
        self._events = EventRecorder(client, "resource_claim", clock, pace=FOR_A_CLUSTER)
        watch = around.watch(self._find, self._events)
        self.queue: MeteredQueue[Work] = MeteredQueue("resource_claim", clock, around.metrics.queues, watch)
        self._creates = around.metrics.claim_creates
        around.metrics.follow_claims(self._picture.claims)

    async def run(self) -> None:
        """Until cancelled; the pictures must be entered."""
        async with self._events.recording(LAST_WORDS):
            with self.following():
                await self.queue.run(self._look_at, workers=self._config.workers)

    @contextmanager
    def following(self) -> Iterator[None]:
        """Queue what each change asks to be looked at; the pictures must be entered."""
        picture = self._picture
        groups = picture.groups
        with (
            follow(groups.informer, self._see_group) if groups is not None else nullcontext(),
            follow(picture.pods, self._see_pod),
            follow(picture.claims, self._see_claim),
            follow(picture.templates, self._see_template),
        ):
            yield

    def _see_pod(self, old: Pod | None, new: Pod | None) -> None:
        self._picture.see_pod(old, new)
        if (pod := new or old) is not None:
            self._add(keys_for_pod(pod, self._picture, self._config.policy, is_gone=new is None))

    def _see_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        self._picture.see_group(old, new)
        if (group := new or old) is None:
            return
        self._add(keys_for_group(group, self._picture, is_gone=new is None))
        self._add_pods(self._picture.members(group))

    def _see_claim(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        self._picture.see_claim(old, new)
        if (claim := new or old) is None:
            return
        if new is not None:
            self.queue.add(Work("claim", new.metadata.namespace, new.metadata.name))
        self._add_pods(self._picture.users(claim))
        groups = self._picture.groups
        self._add_groups(groups.users(claim) if groups is not None else ())

    def _see_template(self, _: ResourceClaimTemplate | None, new: ResourceClaimTemplate | None) -> None:
        if new is not None:
            self._add_pods(self._picture.takers(new))
            groups = self._picture.groups
            self._add_groups(groups.takers(new) if groups is not None else ())

    def _add_pods(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._add(keys_for_pod(pod, self._picture, self._config.policy))

    def _add_groups(self, groups: Iterable[PodGroup]) -> None:
        for group in groups:
            self._add(keys_for_group(group, self._picture))

    def _add(self, keys: Iterable[Work]) -> None:
        for key in keys:
            self.queue.add(key)

    async def _look_at(self, work: Work) -> None:
        if work.kind == "claim":
            await self._sync_claim(work.namespace, work.name)
        else:
            await self._sync_owner(work)

    def _find(self, work: Work) -> Pod | PodGroup | ResourceClaim | None:
        known: Known = self._picture
        if work.kind == "claim":
            return known.claim(work.namespace, work.name)
        find = known.group if work.kind == "podgroup" else known.pod
        return find(work.namespace, work.name)

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
        names = groups_to_look_up(claim, known, policy)
        groups = {name: await self._writer.look_up_group(namespace, name) for name in names}
        for step in plan_claim(claim, known, looked, policy, groups):
            claim = await self._writer.carry_out(step, claim)

    async def _read_claim(self, namespace: str, name: str) -> ResourceClaim | None:
        try:
            return await self._client.get(RESOURCE_CLAIMS, name, namespace=namespace)
        except NotFoundError:
            return None

    async def _sync_owner(self, work: Work) -> None:
        known: Known = self._picture
        for _ in range(_ROUNDS):
            find = known.group if work.kind == "podgroup" else known.pod
            one: Pod | PodGroup | None = find(work.namespace, work.name)
            if one is None:
                return
            try:
                faults = await self._do(Owner.of(one), self._plan(one, known), known)
            except (ConflictError, NotFoundError):
                known = await self._read_all(work)
                continue
            self._report(one, faults)
            return
        where = f"{work.kind} {work.namespace}/{work.name}"
        raise UnavailableError(f"{where}: others keep changing it or its claims")

    def _plan(self, one: Pod | PodGroup, known: Known) -> PodPlan:
        policy = self._config.policy
        return plan_pod(one, known, policy) if isinstance(one, Pod) else plan_group(one, known, policy)

    async def _do(self, owner: Owner, plan: PodPlan, known: Known) -> tuple[Fault, ...]:
        """Carry out what can be; what cannot be made is left out of the record and comes back as a fault."""
        faults, missing = list(plan.faults), set[str]()
        for step in plan.steps:
            if isinstance(step, CreateClaim):
                try:
                    self._remember(await self._create(step, owner, known), owner)
                except (ConflictError, UnavailableError):
                    raise
                except Error as error:
                    missing.add(step.pod_claim)
                    text = f"create ResourceClaim {step.name}: {error}"
                    faults.append(Fault(step.pod_claim, text, owner.kind))
            elif isinstance(step, RecordClaims):
                await self._record(step, missing, owner)
            else:
                await self._writer.reserve(step)
        return tuple(faults)

    async def _create(self, step: CreateClaim, owner: Owner, known: Known) -> ResourceClaim:
        template = known.template(owner.namespace, step.template)
        admin = "false" if template is None else asks_admin_access(template.spec.spec)
        try:
            claim = await self._writer.create(step, owner, known)
        except Error:
            self._creates.labels("failure", admin).inc()
            raise
        self._creates.labels("success", admin).inc()
        return claim

    def _remember(self, claim: ResourceClaim, owner: Owner) -> None:
        self._picture.remember(claim)
        again = Work("pod" if owner.kind == PODS.kind else "podgroup", owner.namespace, owner.name)
        self.queue.add_after(again, MADE_SECONDS + 1)

    async def _record(self, step: RecordClaims, missing: set[str], owner: Owner) -> None:
        there = tuple(one for one in step.statuses if one.name not in missing)
        if there:
            await self._writer.record(RecordClaims(there), owner)

    def _report(self, one: Pod | PodGroup, faults: tuple[Fault, ...]) -> None:
        for fault in faults:
            self._events.tell(refer_to(one), "Warning", FAILED, str(fault))
        if faults:
            where = f"{one.kind.lower()} {one.metadata.namespace}/{one.metadata.name}"
            raise UnavailableError(f"{where}: {'; '.join(map(str, faults))}")

    async def _read_all(self, work: Work) -> Known:
        """The truth, without caches: the pod or group and every claim of its namespace. Only after a conflict."""
        namespace, writer = work.namespace, self._writer
        claims = (await self._client.list(RESOURCE_CLAIMS, Selection(namespace))).items
        is_pod = work.kind == "pod"
        pod = await writer.look_up(namespace, work.name) if is_pod else None
        name = work.name if not is_pod else group_name(pod) if pod is not None else None
        has_groups = self._config.policy.workload_claims and name is not None
        group = await writer.look_up_group(namespace, name or "") if has_groups else None
        templates = self._picture.templates.entries()
        return Table(
            pods={(namespace, work.name): pod} if pod is not None else {},
            claims={(namespace, claim.metadata.name): claim for claim in claims},
            templates={key: entry.value for key, entry in templates.items()},
            groups={(namespace, group.metadata.name): group} if group is not None else {},
        )


@asynccontextmanager
async def claim_controller(
    client: Client, config: ClaimControllerConfig | None = None, *, clock: Clock | None = None
) -> AsyncIterator[ClaimController]:
    """Runs while entered. Entered: the pictures are there and the first looks are queued."""
    around = Surroundings.of(client, clock)
    controller = ClaimController(around, config or ClaimControllerConfig())
    async with around.pictures, running(controller.run(), name=NAME):
        yield controller
