"""Claims lose devices and users again, in a way that nobody loses them who binds the pod at the same moment.

Two schedulers may be at work on one pod, and no write reaches two objects. So who binds writes to the claims first, and
then binds the pod as it was *before* that (`pod_binding`). Who takes back writes to the pod first, and then to the claims
as they were *before* that. However these four writes mix, one of the two is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from enum import Enum
from typing import Any, Final

from dray.api.core import Pod
from dray.api.kinds import PODS, RESOURCE_CLAIMS
from dray.api.meta import Model, format_time
from dray.client.requests import PatchType
from dray.errors import ConflictError, Error, NotFoundError, UnavailableError
from dray.scheduler.claims.writes import Verb, Write
from dray.scheduler.writing import Patience, Writer

_ROUNDS: Final = 4
"""So often a claim may change meanwhile. Then its reservation stays, for the next try or for the claim controller."""


class _Pod(Enum):
    WAITS = "waits"
    BOUND = "bound"
    GONE = "gone"


class Taker:
    """One for all parts of a scheduler; any number of calls run side by side."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def take(
        self,
        pod: Pod,
        writes: tuple[Write, ...],
        seen: Callable[[Model | None], None] = lambda answer: None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> str:
        """Send writes that were decided for a pod without a node, based on its claims as they were then; why not all.

        `is_wanted` is asked when the pod cannot be bound any more but by who starts anew. `seen` gets each answer.
        Of a pod that was bound, or is gone, only a special claim goes, if the pod does not name it: its other claims are
        in use, or the claim controller frees those that are reserved for a pod that it does not find.
        """
        status = {
            key: value for one in writes if one.resource is PODS for key, value in one.body["status"].items()
        }
        left = tuple(one for one in writes if one.resource is not PODS)
        if not writes:
            return ""
        try:
            for _ in range(_ROUNDS):
                found, named = await self._stop(pod, status)
                if found is not _Pod.WAITS:
                    mine = _special(left)
                    return await self._writer.settle(() if not mine or named == mine[-1].name else mine, seen)
                if not is_wanted():
                    return "the pod is tried anew"
                left = await self._send(left, seen)
                if not left:
                    return ""
        except Error as error:
            return self._writer.refused(writes[0], error)
        return f"{left[0].purpose}: others write to it all the time"

    async def _send(
        self, writes: tuple[Write, ...], seen: Callable[[Model | None], None]
    ) -> tuple[Write, ...]:
        """What must be sent again, because somebody wrote to the claim first: reservations of a pod among others."""
        again: list[Write] = []
        for write in writes:
            if write.patch_type is not PatchType.STRATEGIC:
                continue
            try:
                seen(await self._writer.insist(write))
            except ConflictError:
                again += await self._rebased(write)
        rest = tuple(one for one in writes if one.patch_type is not PatchType.STRATEGIC)
        await self._writer.settle(rest, seen)
        return tuple(again)

    async def _rebased(self, write: Write) -> tuple[Write, ...]:
        """For the claim as it is now; nothing where it is another one, or its user is gone."""
        try:
            found = await self._writer.client.get(RESOURCE_CLAIMS, write.name, namespace=write.namespace)
        except NotFoundError:
            return ()
        meta = found.metadata
        users = {one["uid"] for one in write.body["status"]["reservedFor"]}
        if meta.uid != write.body["metadata"]["uid"] or users.isdisjoint(
            one.uid for one in found.status.reserved_for
        ):
            return ()
        version = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        return (replace(write, body={**write.body, "metadata": version}),)

    async def _stop(self, pod: Pod, status: dict[str, Any]) -> tuple[_Pod, str]:
        """Where it waits, nobody can bind the pod any more who read it before; with it, its special claim's name."""
        patience = Patience(self._writer.clock)
        while True:
            try:
                live = await self._writer.read_pod(pod)
                told = live.status.extended_resource_claim_status
                named = (told.resource_claim_name or "") if told is not None else ""
                if live.spec.node_name:
                    return _Pod.BOUND, named
                if live.metadata.deletion_timestamp is not None:
                    return _Pod.GONE, named
                await self._renew(live, status)
                return _Pod.WAITS, named
            except NotFoundError:
                return _Pod.GONE, ""
            except (ConflictError, UnavailableError) as error:
                await patience.wait(error)

    async def _renew(self, live: Pod, status: dict[str, Any]) -> None:
        """The pod gets a new version. Where it was looked at within this second, that needs the next one."""
        meta, now = live.metadata, self._writer.clock.now()
        for known in live.status.conditions:
            if known.type == "PodScheduled" and known.last_probe_time is not None:
                now = max(now, known.last_probe_time + timedelta(seconds=1))
        looked = {"type": "PodScheduled", "status": "False", "lastProbeTime": format_time(now)}
        body = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {**status, "conditions": [looked]},
        }
        await self._writer.client.patch(
            PODS, meta.name, body, PatchType.STRATEGIC, namespace=meta.namespace, subresource="status"
        )


def _special(writes: tuple[Write, ...]) -> tuple[Write, ...]:
    """The writes that remove a special claim."""
    names = {one.name for one in writes if one.verb is Verb.DELETE}
    return tuple(one for one in writes if one.name in names)
