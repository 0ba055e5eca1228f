"""What becomes of a pod on a hollow node: it starts at once, and ends when its annotation says so. Pure.

Everything follows from the pod as it is stored and the time, so that a restart in between changes nothing. The words of
the status are the kubelet's (`kubelet.pods.status`): the containers here are what a runtime would tell of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from dray.api.core import Pod
from dray.api.core.container import ContainerStateWaiting
from dray.api.core.pod import PodStatus
from dray.api.meta import to_time
from dray.cel.times import parse_duration
from dray.kubelet.pods.plan import ALWAYS, is_sidecar
from dray.kubelet.pods.status import FAILED, SUCCEEDED, Facts, pod_status
from dray.kubelet.runtimes.contract import Container, PodIdentity, State

RUNS_FOR: Final = "dray.internal/runs-for"
RUNTIME: Final = "hollow"
_BAD_CONFIG: Final = "CreateContainerConfigError"


@dataclass(frozen=True, slots=True)
class Course:
    """What to write now, None where the stored status is right; when to look again; whether the object may go."""

    status: PodStatus | None = None
    again_in: float | None = None
    is_over: bool = False


def course(pod: Pod, now: datetime, waits_for: str = "") -> Course:
    """`waits_for` says why the pod cannot start yet. A deleted pod ends at once: nothing in it needs its grace."""
    if pod.metadata.deletion_timestamp is not None:
        return Course(is_over=True)
    if pod.status.phase in (SUCCEEDED, FAILED):
        return Course()
    seconds, fault = _runs_for(pod)
    start = to_time(pod.status.start_time or now)
    if pod.status.start_time is None and (fault or waits_for):
        reason, message = (_BAD_CONFIG, fault) if fault else ("ContainerCreating", waits_for)
        waiting = ContainerStateWaiting(reason=reason, message=message)
        waits = {one.name: waiting for one in pod.spec.containers}
        return Course(_if_new(pod, Facts(now=to_time(now), runtime=RUNTIME, waits=waits)))
    left = None if seconds is None else seconds - (now - start).total_seconds()
    is_ended = left is not None and left <= 0
    finish = start + timedelta(seconds=seconds or 0)
    facts = Facts(
        now=to_time(now),
        runtime=RUNTIME,
        containers=tuple(_containers(pod, start, finish if is_ended else None)),
        has_sandbox=not is_ended,
        is_ended=is_ended,
    )
    return Course(_if_new(pod, facts), None if is_ended else left)


def _runs_for(pod: Pod) -> tuple[float | None, str]:
    """Seconds, None for ever; and what is wrong with the annotation. Containers that start again have no end."""
    text = pod.metadata.annotations.get(RUNS_FOR)
    if text is None:
        return None, ""
    found = parse_duration(text)
    if found is None or found.nanoseconds < 0:
        return None, f"annotation {RUNS_FOR}: {text!r} is no time: write 5s or 1m30s"
    return (None if pod.spec.restart_policy == ALWAYS else found.nanoseconds / 1e9), ""


def _containers(pod: Pod, start: datetime, finish: datetime | None) -> Iterator[Container]:
    identity = PodIdentity(pod.metadata.uid, pod.metadata.namespace, pod.metadata.name)
    mains = [(one, finish) for one in pod.spec.containers]
    inits = [(one, finish if is_sidecar(one) else start) for one in pod.spec.init_containers]
    for spec, ended in (*inits, *mains):
        yield Container(
            id=f"{pod.metadata.uid}-{spec.name}",
            pod=identity,
            name=spec.name,
            attempt=0,
            state=State.RUNNING if ended is None else State.EXITED,
            sandbox=pod.metadata.uid,
            image=spec.image,
            created_at=start,
            started_at=start,
            finished_at=to_time(ended) if ended is not None else None,
        )


def _if_new(pod: Pod, facts: Facts) -> PodStatus | None:
    """Waiting pods have not started, so they have no start time: with one a restart would take them for running."""
    wanted = pod_status(pod, facts)
    if facts.waits:
        wanted = PodStatus(
            phase=wanted.phase,
            conditions=wanted.conditions,
            container_statuses=wanted.container_statuses,
            qos_class=wanted.qos_class,
        )
    return None if _shown(wanted) == _shown(pod.status) else wanted


def _shown(status: PodStatus) -> tuple[object, ...]:
    states = tuple((one.name, one.state) for one in status.container_statuses)
    return (status.phase, states)
