"""Who hears what a DRA driver does: the claims' status, Events and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dray.agent.doors.holders import Pods
from dray.agent.events import AgentEvents, Reason
from dray.api.kinds import PODS
from dray.api.resource import ResourceClaim
from dray.dra.fetch import ClaimSource
from dray.dra.metrics import DriverMetrics, Method
from dray.dra.parcels import ClaimRef, PreparedDevice
from dray.dra.status import ClaimStatus
from dray.errors import Error

MOST_NOTED: Final = 10_000
"""Claims whose pods are known in case that they cannot be prepared."""


class ClaimReports:
    """Tells of claims in their status and by Events, about them and about their pods.

    What is prepared again after a restart is no news.
    """

    def __init__(self, status: ClaimStatus, events: AgentEvents) -> None:
        self._status = status
        self._events = events
        self._told: set[str] = set()
        self._pods: dict[str, Pods] = {}
        """Of claims that are not prepared yet, the newest last."""

    def noting(self, claims: ClaimSource) -> ClaimSource:
        """The same claims; their pods are noted, for the case that they cannot be prepared."""
        return _Noted(claims, self._pods)

    def prepared(self, claim: ResourceClaim, devices: tuple[PreparedDevice, ...]) -> None:
        """Once for each claim in a run of the process."""
        self._status.prepared(claim, devices)
        meta = claim.metadata
        self._pods.pop(meta.uid, None)
        if meta.uid not in self._told:
            self._told.add(meta.uid)
            names = ", ".join(dict.fromkeys(one.device for one in devices))
            ref = ClaimRef(meta.namespace, meta.name, meta.uid)
            self._events.tell_claim(ref, Reason.DEVICE_PREPARED, f"prepared {names}", _pods(claim))

    def unprepared(self, ref: ClaimRef) -> None:
        """Told where it was prepared: a kubelet also gives back what never was."""
        self._status.unprepared(ref)
        self._pods.pop(ref.uid, None)
        if ref.uid in self._told:
            self._told.discard(ref.uid)
            self._events.tell_claim(ref, Reason.DEVICE_RELEASED, "given back")

    def failed(self, method: Method, ref: ClaimRef, error: Error) -> None:
        """The kubelet tells the pod of it too, later and with less. The same failure again is counted, not told twice."""
        pods = self._pods.get(ref.uid, ())
        self._events.tell_claim(ref, Reason.DEVICE_PREPARE_FAILED, f"cannot {method}: {error}", pods)


class _Noted:
    """Claims as another source has them."""

    def __init__(self, claims: ClaimSource, pods: dict[str, Pods], most: int = MOST_NOTED) -> None:
        self._claims = claims
        self._pods = pods
        self._most = most

    async def get(self, ref: ClaimRef) -> ResourceClaim:
        """See `ClaimSource`."""
        claim = await self._claims.get(ref)
        self._pods.pop(claim.metadata.uid, None)
        if len(self._pods) >= self._most:  # nobody has to give back what was never prepared
            del self._pods[next(iter(self._pods))]
        self._pods[claim.metadata.uid] = _pods(claim)
        return claim


def _pods(claim: ResourceClaim) -> Pods:
    return tuple((one.name, one.uid) for one in claim.status.reserved_for if one.resource == PODS.plural)


class PublishReports:
    """Tells of slices by metrics, and by an Event where they cannot be written (`dra.publish_observer`)."""

    def __init__(self, driver: str, metrics: DriverMetrics, events: AgentEvents) -> None:
        self._driver = driver
        self._metrics = metrics
        self._events = events

    def published(self, slices: int, devices: int, generation: int) -> None:
        """The server has what is wanted."""
        self._metrics.published(slices, devices, generation)

    def wrote(self, verb: str) -> None:
        """One write was answered."""
        self._metrics.wrote(verb)

    def failed(self, error: Error) -> None:
        """A try ended so."""
        self._metrics.not_published()
        self._events.publish_failed(self._driver, error)

    def dropped(self, features: Sequence[str]) -> None:
        """The log has it."""
