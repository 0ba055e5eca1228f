"""The status of a pod, from what the runtime has of it. Pure; the words are the kubelet's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from dray.api.core import Pod
from dray.api.core.container import (
    Container as ContainerSpec,
)
from dray.api.core.container import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    ResourceStatus,
)
from dray.api.core.pod import PodCondition, PodIP, PodStatus
from dray.kubelet.pods.plan import NEVER, is_sidecar, newest_runs
from dray.kubelet.rejection import Rejection
from dray.kubelet.runtimes.contract import Container, State
from dray.runtime.quarantine import SET_ASIDE

PENDING, RUNNING, SUCCEEDED, FAILED = "Pending", "Running", "Succeeded", "Failed"
CREATING, INITIALIZING, BACK_OFF = "ContainerCreating", "PodInitializing", "CrashLoopBackOff"
READY = "Ready"
_TRUE, _FALSE = "True", "False"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a status is made of, apart from the pod itself. `waits` says of containers why they are not started."""

    now: datetime
    runtime: str
    containers: Sequence[Container] = ()
    waits: Mapping[str, ContainerStateWaiting] = field(default_factory=dict)
    devices: Mapping[str, tuple[ResourceStatus, ...]] = field(default_factory=dict)
    rejection: Rejection | None = None
    has_sandbox: bool = False
    is_ended: bool = False
    """Nothing of it runs or will run."""
    host_address: str = ""
    pod_address: str = ""


def pod_status(pod: Pod, facts: Facts) -> PodStatus:
    """The whole status. Times of conditions that did not change are kept from the pod's own."""
    if facts.rejection is not None:
        return PodStatus(
            phase=FAILED,
            reason=facts.rejection.reason,
            message=f"Pod was rejected: {facts.rejection.message}",
            start_time=pod.status.start_time or facts.now,
            qos_class=pod.status.qos_class,
        )
    inits = tuple(_container(one, facts, is_init=True) for one in pod.spec.init_containers)
    mains = tuple(_container(one, facts, is_init=False) for one in pod.spec.containers)
    phase = phase_of(pod, inits, mains, is_ended=facts.is_ended)
    return PodStatus(
        phase=phase,
        conditions=_conditions(pod, facts, inits, mains, phase),
        host_ip=facts.host_address,
        host_ips=(PodIP(ip=facts.host_address),) if facts.host_address else (),
        pod_ip=facts.pod_address,
        pod_ips=(PodIP(ip=facts.pod_address),) if facts.pod_address else (),
        start_time=pod.status.start_time or facts.now,
        init_container_statuses=inits,
        container_statuses=mains,
        qos_class=pod.status.qos_class,
        resource_claim_statuses=pod.status.resource_claim_statuses,
        extended_resource_claim_status=pod.status.extended_resource_claim_status,
    )


def set_aside_status(pod: Pod, why: str, now: datetime) -> PodStatus:
    """As it was, but not ready: nobody looks after the pod."""
    before = next((one for one in pod.status.conditions if one.type == READY), None)
    ready = _condition(READY, _FALSE, SET_ASIDE, why, before, now)
    return msgspec.structs.replace(
        pod.status,
        phase=pod.status.phase or PENDING,
        conditions=(ready, *(one for one in pod.status.conditions if one.type != READY)),
    )


def phase_of(
    pod: Pod, inits: Sequence[ContainerStatus], mains: Sequence[ContainerStatus], *, is_ended: bool
) -> str:
    """Pending until all containers were started once; the end counts only once nothing runs any more."""
    if not _is_initialized(pod, inits, mains):
        broke = pod.spec.restart_policy == NEVER and any(_has_failed(one) for one in inits)
        return FAILED if broke and is_ended else PENDING
    if any(_is_unstarted(one) for one in mains):
        return PENDING
    if any(one.state.running for one in mains) or not is_ended:
        return RUNNING
    codes = [one.state.terminated.exit_code for one in mains if one.state.terminated]
    return SUCCEEDED if codes and not any(codes) else FAILED


def _is_unstarted(status: ContainerStatus) -> bool:
    return status.state.waiting is not None and status.last_state.terminated is None


def _has_failed(status: ContainerStatus) -> bool:
    return status.state.terminated is not None and status.state.terminated.exit_code != 0


def _is_initialized(pod: Pod, inits: Sequence[ContainerStatus], mains: Sequence[ContainerStatus]) -> bool:
    """Once a main container was started it stays so: sidecars may end, and records of init containers go."""
    return any(not _is_unstarted(one) for one in mains) or all(
        bool(status.started) if is_sidecar(spec) else status.ready
        for spec, status in zip(pod.spec.init_containers, inits, strict=True)
    )


def _container(spec: ContainerSpec, facts: Facts, *, is_init: bool) -> ContainerStatus:
    newest, before = newest_runs(facts.containers).get(spec.name, (None, None))
    state = _state(newest, facts.runtime)
    last = _state(before, facts.runtime) if before else ContainerState()
    wait = facts.waits.get(spec.name)
    if newest is None or (wait is not None and newest.state is not State.RUNNING):
        waiting = wait or ContainerStateWaiting(reason=CREATING)
        last = state if newest is not None and newest.state is not State.CREATED else last
        state = ContainerState(waiting=waiting)
    is_running = state.running is not None
    is_done = state.terminated is not None and state.terminated.exit_code == 0
    return ContainerStatus(
        name=spec.name,
        state=state,
        last_state=last,
        ready=is_done if is_init and not is_sidecar(spec) else is_running,
        started=is_running,
        restart_count=newest.attempt if newest else 0,
        image=spec.image,
        image_id=newest.image if newest else "",
        container_id=f"{facts.runtime}://{newest.id}" if newest else "",
        allocated_resources_status=() if is_init else facts.devices.get(spec.name, ()),
    )


def _state(run: Container | None, runtime: str) -> ContainerState:
    if run is None or run.state is State.CREATED:
        return ContainerState(waiting=ContainerStateWaiting(reason=CREATING))
    if run.state is State.RUNNING:
        return ContainerState(running=ContainerStateRunning(started_at=run.started_at))
    is_unknown = run.state is State.UNKNOWN
    code = 137 if is_unknown else run.exit_code
    reason = "ContainerStatusUnknown" if is_unknown else run.reason or ("Error" if code else "Completed")
    message = "The container could not be located when the pod was terminated" if is_unknown else run.message
    return ContainerState(
        terminated=ContainerStateTerminated(
            exit_code=code,
            reason=reason,
            message=message,
            started_at=run.started_at,
            finished_at=run.finished_at,
            container_id=f"{runtime}://{run.id}",
        )
    )


def _conditions(
    pod: Pod, facts: Facts, inits: Sequence[ContainerStatus], mains: Sequence[ContainerStatus], phase: str
) -> tuple[PodCondition, ...]:
    is_initialized = _is_initialized(pod, inits, mains)
    unready = [one.name for one in mains if not one.ready]
    listed = " ".join(unready)
    reason = "PodCompleted" if phase == SUCCEEDED else "ContainersNotReady"
    message = "" if phase == SUCCEEDED else f"containers with unready status: [{listed}]"
    ready = (_FALSE, reason, message) if unready else (_TRUE, "", "")
    undone = " ".join(one.name for one in inits if not one.ready)
    initialized = (
        (_TRUE, "PodCompleted" if phase == SUCCEEDED else "", "")
        if is_initialized
        else (_FALSE, "ContainersNotInitialized", f"containers with incomplete status: [{undone}]")
    )
    wanted = {
        "PodReadyToStartContainers": (_TRUE if facts.has_sandbox else _FALSE, "", ""),
        "Initialized": initialized,
        READY: ready,
        "ContainersReady": ready,
        "PodScheduled": (_TRUE, "", ""),
    }
    before = {one.type: one for one in pod.status.conditions}
    own = tuple(_condition(kind, *told, before.get(kind), facts.now) for kind, told in wanted.items())
    return (*own, *(one for one in pod.status.conditions if one.type not in wanted))


def _condition(
    kind: str, status: str, reason: str, message: str, before: PodCondition | None, now: datetime
) -> PodCondition:
    since = before.last_transition_time if before is not None and before.status == status else now
    return PodCondition(
        type=kind, status=status, reason=reason, message=message, last_transition_time=since or now
    )
