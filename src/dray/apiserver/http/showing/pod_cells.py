"""How `kubectl get pods` sums a pod up. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from dray.api.core import Pod
from dray.api.core.container import ContainerStateTerminated, ContainerStatus
from dray.apiserver.http.showing.ages import age

NONE = "<none>"
_TERMINAL = ("Succeeded", "Failed")


class _Summary(NamedTuple):
    reason: str
    ready: int
    restarts: int
    last_restart: datetime | None


def pod_cells(pod: Pod, now: datetime) -> list[object]:
    """Name, Ready, Status, Restarts, Age, IP, Node, Nominated Node, Readiness Gates."""
    found = _summary(pod)
    sidecars = sum(one.restart_policy == "Always" for one in pod.spec.init_containers)
    restarts = str(found.restarts)
    if found.restarts and found.last_restart is not None:
        restarts += f" ({age(found.last_restart, now)} ago)"
    return [
        pod.metadata.name,
        f"{found.ready}/{len(pod.spec.containers) + sidecars}",
        _ending(pod) or found.reason,
        restarts,
        age(pod.metadata.creation_timestamp, now),
        (pod.status.pod_ips[0].ip if pod.status.pod_ips else "") or NONE,
        pod.spec.node_name or NONE,
        pod.status.nominated_node_name or NONE,
        _gates(pod),
    ]


def _summary(pod: Pod) -> _Summary:
    status = pod.status
    reason = status.reason or status.phase
    if any(one.type == "PodScheduled" and one.reason == "SchedulingGated" for one in status.conditions):
        reason = "SchedulingGated"
    sidecars = {one.name for one in pod.spec.init_containers if one.restart_policy == "Always"}
    stuck, ready, seen = _initializing(pod, sidecars)
    if stuck and not _is_true(pod, "Initialized"):
        return _Summary(stuck, ready, *_restarts(seen))
    shown, more = _main(pod, stuck or reason)
    kept = [one for one in seen if one.name in sidecars]
    return _Summary(shown, ready + more, *_restarts((*kept, *status.container_statuses)))


def _initializing(pod: Pod, sidecars: set[str]) -> tuple[str, int, list[ContainerStatus]]:
    """What holds the init containers up, how many sidecars are ready, and the statuses up to there."""
    ready = 0
    seen: list[ContainerStatus] = []
    for number, one in enumerate(pod.status.init_container_statuses):
        seen.append(one)
        ended, waits = one.state.terminated, one.state.waiting
        if ended is not None and ended.exit_code == 0:
            continue
        if one.name in sidecars and one.started:
            ready += one.ready
            continue
        if ended is not None:
            return f"Init:{_ended(ended)}", ready, seen
        if waits is not None and waits.reason not in ("", "PodInitializing"):
            return f"Init:{waits.reason}", ready, seen
        return f"Init:{number}/{len(pod.spec.init_containers)}", ready, seen
    return "", ready, seen


def _main(pod: Pod, reason: str) -> tuple[str, int]:
    """The word for the main containers (the first one's counts) and how many are ready."""
    ready, error = 0, ""
    for one in reversed(pod.status.container_statuses):
        ended, waits = one.state.terminated, one.state.waiting
        if waits is not None and waits.reason:
            reason = waits.reason
        elif ended is not None:
            reason = _ended(ended)
            error = reason if ended.exit_code else error
        elif one.ready and one.state.running is not None:
            ready += 1
    if reason == "Completed":
        if ready and _is_true(pod, "Ready"):
            return "Running", ready
        reason = error or ("NotReady" if ready else reason)
    return reason, ready


def _ended(ended: ContainerStateTerminated) -> str:
    if ended.reason:
        return ended.reason
    return f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exit_code}"


def _restarts(statuses: Iterable[ContainerStatus]) -> tuple[int, datetime | None]:
    count, last = 0, None
    for one in statuses:
        count += one.restart_count
        ended = one.last_state.terminated
        moment = ended.finished_at if ended is not None else None
        if moment is not None and (last is None or moment > last):
            last = moment
    return count, last


def _ending(pod: Pod) -> str:
    if pod.metadata.deletion_timestamp is None:
        return ""
    if pod.status.reason == "NodeLost":
        return "Unknown"
    return "" if pod.status.phase in _TERMINAL else "Terminating"


def _gates(pod: Pod) -> str:
    if not pod.spec.readiness_gates:
        return NONE
    wanted = [str(one.get("conditionType", "")) for one in pod.spec.readiness_gates]
    return f"{sum(_is_true(pod, one) for one in wanted)}/{len(wanted)}"


def _is_true(pod: Pod, condition: str) -> bool:
    found = next((one for one in pod.status.conditions if one.type == condition), None)
    return found is not None and found.status == "True"
