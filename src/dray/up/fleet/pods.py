"""Pods and claims of hollow nodes: what a kubelet and its drivers would write of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from dray.api.codec import to_raw
from dray.api.core import Pod
from dray.api.kinds import PODS, RESOURCE_CLAIMS
from dray.api.meta import format_time
from dray.api.resource import ResourceClaim
from dray.client.assume import AssumeCache
from dray.client.client import Client
from dray.client.informer import Informer
from dray.client.informers import Informers
from dray.client.requests import DeleteOptions, PatchType, Preconditions
from dray.client.store import Change, Deleted, Key
from dray.errors import ConflictError, DeniedError, InvalidError, NotFoundError, UnavailableError
from dray.kubelet.claims.resolve import check_may_use, claims_of, resolve
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.workqueue import WorkQueue
from dray.semantics.claims import claim_names
from dray.up.fleet.pod_course import course

_log = get_log("fleet")

WORKERS: Final = 16
PATIENCE: Final = 2.0
_RETRY: Final = BackoffPolicy(first=0.1, limit=30.0)
_BY_CLAIM: Final = "hollow claim"


def _by_claim(pod: Pod) -> Iterator[str]:
    """Pods on a node, by the claims that serve them."""
    if pod.spec.node_name:
        yield from (f"{pod.metadata.namespace}/{name}" for name in claim_names(pod))


class HollowPods:
    """`run` works until cancelled, within the informers. `is_hollow` says whether a node is one of the fleet's."""

    def __init__(
        self, client: Client, clock: Clock, informers: Informers, is_hollow: Callable[[str], bool]
    ) -> None:
        self._client = client
        self._clock = clock
        self._is_hollow = is_hollow
        self._told: Informer[Pod] = informers.of(PODS)
        self._pods = AssumeCache(self._told, indexers={_BY_CLAIM: _by_claim})
        """A pod's claims change while it starts: what was written of it must not be worked out again from the pod before."""
        self._claims: Informer[ResourceClaim] = informers.of(RESOURCE_CLAIMS)
        self._queue = WorkQueue[Key]("hollow pods", clock, _RETRY)

    async def run(self) -> None:
        """Every pod of the fleet is looked at once, and again whenever it or a claim of it changes."""
        stops = (self._told.on_change(self._note), self._claims.on_change(self._note_claim))
        try:
            await self._queue.run(self._work, workers=WORKERS)
        finally:
            for stop in stops:
                stop()

    def _note(self, change: Change[Pod]) -> None:
        if not isinstance(change, Deleted) and self._is_hollow(change.new.value.spec.node_name):
            self._queue.add(change.key)

    def _note_claim(self, change: Change[ResourceClaim]) -> None:
        """A pod that waits for a claim hears of it."""
        if not isinstance(change, Deleted):
            for pod in self._pods.indexed(_BY_CLAIM, "/".join(change.key)):
                if not pod.status.start_time and self._is_hollow(pod.spec.node_name):
                    self._queue.add((pod.metadata.namespace, pod.metadata.name))

    async def _work(self, key: Key) -> None:
        pod = self._pods.by_key(key)
        if pod is None or not self._is_hollow(pod.spec.node_name):
            return
        waits_for = "" if pod.status.start_time or pod.metadata.deletion_timestamp else self._waits_for(pod)
        if waits_for and (left := self._patience(pod)) > 0:
            self._queue.add_after(key, left)
            return
        found = course(pod, self._clock.now(), waits_for)
        try:
            if found.is_over:
                options = DeleteOptions(uid=pod.metadata.uid, grace_period=0)
                await self._client.delete(PODS, key[1], namespace=key[0], options=options)
            elif found.status is not None:
                if not waits_for:
                    await self._tell_prepared(pod)
                change = {"metadata": {"uid": pod.metadata.uid}, "status": to_raw(found.status)}
                written = await self._client.patch(
                    PODS, key[1], change, PatchType.STRATEGIC, namespace=key[0], subresource="status"
                )
                self._assume(written)
        except NotFoundError:
            return
        if found.again_in is not None:
            self._queue.add_after(key, found.again_in)

    def _assume(self, pod: Pod) -> None:
        try:
            self._pods.assume(pod)
        except (NotFoundError, ConflictError) as error:  # the informer was faster than the answer
            _log.debug("newer than the answer", pod=pod.metadata.name, why=str(error))

    def _patience(self, pod: Pod) -> float:
        """Seconds until it is worth telling: that a pod is bound is often heard before what its claims were given."""
        bound = (one.last_transition_time for one in pod.status.conditions if one.type == "PodScheduled")
        since = next(bound, None) or pod.metadata.creation_timestamp
        return 0.0 if since is None else PATIENCE - (self._clock.now() - since).total_seconds()

    def _waits_for(self, pod: Pod) -> str:
        """Why a kubelet would not start it: a claim that is missing, or not allocated and reserved for it."""
        try:
            for claim, name in self._claims_of(pod):
                if claim is None:
                    return f"claim {name}: is not there yet"
                if claim.status.allocation is None:
                    return f"claim {name}: is not allocated yet"
        except (DeniedError, InvalidError, UnavailableError) as error:
            return str(error)
        return ""

    def _claims_of(self, pod: Pod) -> Iterator[tuple[ResourceClaim | None, str]]:
        for entry in claims_of(pod):
            name = resolve(pod, entry)
            if name is not None:
                claim = self._claims.get(name.name, pod.metadata.namespace)
                if claim is not None and claim.status.allocation is not None:
                    check_may_use(pod, claim, name)
                yield claim, name.name

    async def _tell_prepared(self, pod: Pod) -> None:
        """The claims' `status.devices`, where nobody wrote any: what the drivers of a real node say after preparing."""
        for claim, name in self._claims_of(pod):
            if claim is None or claim.status.devices or claim.status.allocation is None:
                continue
            entries = list(self._prepared(claim))
            conditions = Preconditions(uid=claim.metadata.uid)
            if entries:
                await self._client.patch(
                    RESOURCE_CLAIMS,
                    name,
                    {"status": {"devices": entries}},
                    namespace=pod.metadata.namespace,
                    subresource="status",
                    preconditions=conditions,
                )

    def _prepared(self, claim: ResourceClaim) -> Iterator[dict[str, Any]]:
        assert claim.status.allocation is not None
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "Prepared",
            "message": "simulated: nothing had to be prepared",
            "lastTransitionTime": format_time(self._clock.now()),
        }
        for one in claim.status.allocation.devices.results:
            entry: dict[str, Any] = {"driver": one.driver, "pool": one.pool, "device": one.device}
            if one.share_id is not None:
                entry["shareID"] = one.share_id
            if not one.admin_access:
                yield {**entry, "conditions": [ready]}
