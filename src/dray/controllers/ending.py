"""Ends pods on behalf of a controller: says why in the status, then deletes that very pod and no successor of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from dray.api.kinds import PODS
from dray.api.meta import format_time
from dray.client.client import Client
from dray.client.requests import DeleteOptions, WriteOptions
from dray.errors import NotFoundError
from dray.runtime.clock import Clock

DISRUPTION_TARGET: Final = "DisruptionTarget"
_ENDED: Final = ("Succeeded", "Failed")
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a pod ends. `reason` becomes its condition DisruptionTarget, "" leaves that out.

    `fail` marks one that nobody runs any more as Failed; `grace_period` 0 removes the object at once.
    """

    reason: str = ""
    message: str = ""
    fail: bool = False
    grace_period: int | None = None
    even_deleted: bool = False


class PodEnder:
    """For one controller; `manager` names it in the pod's managed fields."""

    def __init__(self, client: Client, manager: str, clock: Clock) -> None:
        self._client = client
        self._options = WriteOptions(field_manager=manager)
        self._clock = clock

    async def end(self, namespace: str, name: str, uid: str, ending: Ending) -> bool:
        """True where this call did it, False where the pod is gone, replaced or on its way out already.

        ConflictError: somebody changed it meanwhile; ask again.
        """
        try:
            pod = await self._client.get_raw(PODS, name, namespace=namespace)
            if pod["metadata"]["uid"] != uid:
                return False
            if pod["metadata"].get("deletionTimestamp") and not ending.even_deleted:
                return False
            await self._tell(pod, namespace, ending)
            options = DeleteOptions(uid=uid, grace_period=ending.grace_period)
            await self._client.delete(PODS, name, namespace=namespace, options=options)
        except NotFoundError:
            return False
        return True

    async def _tell(self, pod: Document, namespace: str, ending: Ending) -> None:
        change = status_change(pod, ending, self._clock.now())
        if not change:
            return
        meta = pod["metadata"]
        same = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        await self._client.patch(
            PODS,
            meta["name"],
            {"metadata": same, "status": change},
            namespace=namespace,
            subresource="status",
            options=self._options,
        )


def status_change(pod: Document, ending: Ending, now: datetime) -> Document:
    """What the pod's status has to say before it goes, as a merge patch; empty where it says so already."""
    status = pod.get("status") or {}
    is_ended = status.get("phase") in _ENDED
    change: Document = {"phase": "Failed"} if ending.fail and not is_ended else {}
    if ending.reason and not (ending.fail and is_ended):
        condition = {
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": ending.reason,
            "message": ending.message,
        }
        conditions = with_condition(status.get("conditions") or (), condition, now)
        change |= {} if conditions is None else {"conditions": conditions}
    return change


def with_condition(
    conditions: Sequence[Document], condition: Document, now: datetime
) -> list[Document] | None:
    """The conditions with this one in its place; None where it is there in the same words.

    The time of transition is that of the last change of its status.
    """
    stamped = {**condition, "lastTransitionTime": format_time(now)}
    found = [dict(one) for one in conditions]
    for position, one in enumerate(found):
        if one.get("type") == condition["type"]:
            if all(one.get(key) == value for key, value in condition.items()):
                return None
            if one.get("status") == condition["status"] and one.get("lastTransitionTime"):
                stamped["lastTransitionTime"] = one["lastTransitionTime"]
            found[position] = one | stamped
            return found
    return [*found, stamped]
