"""The pods this node knows: who wants them, how far they came. Mutable, owned by the pod manager's loop."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

import msgspec

from dray.api.core import Pod
from dray.api.core.container import ContainerStateWaiting
from dray.kubelet.pods.records import Record
from dray.kubelet.pods.volumes import Volume
from dray.kubelet.rejection import Rejection

DEFAULT_GRACE = 30.0


class Phase(Enum):
    """What a pod waits for."""

    NEW = 0
    """Not asked yet whether this node takes it."""
    TAKEN = 1
    ENDED = 2
    """Everything it had is given back."""


@dataclass
class KnownPod:
    """One pod. `is_wanted`: some source still has it."""

    pod: Pod
    source: str
    phase: Phase = Phase.NEW
    rejection: Rejection | None = None
    was_taken: bool = False
    """Before a restart, or by another kubelet that was here before: then a rejection is not final at once, for its plugin may
    just not be back."""
    is_wanted: bool = True
    waits: dict[str, ContainerStateWaiting] = field(default_factory=dict)
    volumes: Mapping[str, Volume] | None = None
    first_refused: float | None = None
    warning: str = ""
    """What was told of it that is not carried out here."""

    @property
    def uid(self) -> str:
        """Of the pod."""
        return self.pod.metadata.uid

    @property
    def is_leaving(self) -> bool:
        """Whether it shall not run any more."""
        return not self.is_wanted or self.pod.metadata.deletion_timestamp is not None

    @property
    def is_undecided(self) -> bool:
        """Whether it is still to be asked for that this node takes it."""
        return self.phase is Phase.NEW and self.rejection is None and not self.is_leaving

    @property
    def grace(self) -> float:
        """Seconds that its containers get to end."""
        own = self.pod.metadata.deletion_grace_period_seconds
        if own is None:
            own = self.pod.spec.termination_grace_period_seconds
        return DEFAULT_GRACE if own is None else float(own)

    @property
    def is_active(self) -> bool:
        """Whether it holds, or may hold, devices."""
        return self.phase is not Phase.ENDED and self.rejection is None


class KnownPods:
    """All of them, by UID."""

    def __init__(self, records: Mapping[str, Record]) -> None:
        self.by_uid: dict[str, KnownPod] = {uid: _remembered(one) for uid, one in records.items()}
        self._ready: set[str] = set()

    @property
    def active(self) -> list[Pod]:
        """The pods that hold, or may hold, devices."""
        return [one.pod for _, one in sorted(self.by_uid.items()) if one.is_active]

    @property
    def taken(self) -> list[Pod]:
        """The pods that this node promised to run, also before a restart."""
        return [
            one.pod
            for _, one in sorted(self.by_uid.items())
            if one.is_active and (one.phase is Phase.TAKEN or one.was_taken)
        ]

    def is_ready(self, sources: Iterable[str]) -> bool:
        """Whether all sources have told their pods once since the start."""
        return self._ready.issuperset(sources)

    def take(self, source: str, pods: Iterable[Pod]) -> list[str]:
        """A source's whole list. The UIDs that need a look."""
        self._ready.add(source)
        told = {pod.metadata.uid: pod for pod in pods}
        touched: list[str] = []
        for uid, pod in told.items():
            known = self.by_uid.get(uid)
            if known is None:
                self.by_uid[uid] = KnownPod(pod, source, was_taken=pod.status.phase == "Running")
                touched.append(uid)
            elif _wanted(known.pod) != _wanted(pod) or not known.is_wanted or known.source != source:
                known.pod, known.source, known.is_wanted = _renewed(known.pod, pod), source, True
                touched.append(uid)
        for uid, known in self.by_uid.items():
            if known.source == source and known.is_wanted and uid not in told:
                known.is_wanted = False
                touched.append(uid)
        return touched


class Others(Collection[Pod]):
    """The pods that were taken, but for one, as they are whenever somebody looks."""

    def __init__(self, known: KnownPods, uid: str) -> None:
        self._known = known
        self._uid = uid

    def __iter__(self) -> Iterator[Pod]:
        return (pod for pod in self._known.taken if pod.metadata.uid != self._uid)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, pod: object) -> bool:
        return any(one is pod for one in self)


def _wanted(pod: Pod) -> tuple[object, ...]:
    """What others decide about a pod; its status is ours, but for what the scheduler and controllers write there."""
    meta, status = pod.metadata, pod.status
    return (
        pod.spec,
        meta.labels,
        meta.annotations,
        meta.deletion_timestamp,
        meta.deletion_grace_period_seconds,
        status.resource_claim_statuses,
        status.extended_resource_claim_status,
        status.qos_class,
    )


def _renewed(known: Pod, pod: Pod) -> Pod:
    """The newer object with the status that we have come to."""
    if not known.status.phase:
        return pod
    status = msgspec.structs.replace(
        known.status,
        resource_claim_statuses=pod.status.resource_claim_statuses,
        extended_resource_claim_status=pod.status.extended_resource_claim_status,
        qos_class=pod.status.qos_class,
    )
    return msgspec.structs.replace(pod, status=status)


def record_of(known: KnownPod) -> Record:
    """What a restart must know of it."""
    return Record(known.pod, known.source, known.rejection, ended=known.phase is Phase.ENDED)


def _remembered(record: Record) -> KnownPod:
    phase = Phase.ENDED if record.ended else Phase.NEW
    return KnownPod(record.pod, record.source, phase, record.rejection, was_taken=record.rejection is None)
