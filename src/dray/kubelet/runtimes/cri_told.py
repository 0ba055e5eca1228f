"""What a CRI runtime tells, in the contract's words. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dray.errors import Error, HardwareError, InvalidError
from dray.kubelet.runtimes.contract import Container, ContainerConfig, PodIdentity, Sandbox, State
from dray.kubelet.runtimes.cri_requests import POD_NAME, POD_NAMESPACE, POD_UID
from dray.kubelet.runtimes.records import START_ERROR
from dray.wire.gen import cri_v1_pb2 as pb

_STATES = {
    pb.CONTAINER_CREATED: State.CREATED,
    pb.CONTAINER_RUNNING: State.RUNNING,
    pb.CONTAINER_EXITED: State.EXITED,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CUT_OFF = ("context canceled", "context deadline exceeded")
_BEGUN = "failed to start containerd task"
_BUSY = ("is reserved for", "in starting state", "in removing state")


def sandbox_told(one: pb.PodSandbox, address: str) -> Sandbox:
    """One that exists."""
    pod = PodIdentity(one.metadata.uid, one.metadata.namespace, one.metadata.name)
    return Sandbox(one.id, pod, one.metadata.attempt, one.state == pb.SANDBOX_READY, address)


def container_told(one: pb.Container, status: pb.ContainerStatus) -> Container:
    """One that exists. One whose first start was cut off before anything ran counts as never started."""
    labels = one.labels
    told = Container(
        id=one.id,
        pod=PodIdentity(labels.get(POD_UID, ""), labels.get(POD_NAMESPACE, ""), labels.get(POD_NAME, "")),
        name=one.metadata.name,
        attempt=one.metadata.attempt,
        sandbox=one.pod_sandbox_id,
        state=State.CREATED if is_cut_off(status) else _STATES.get(status.state, State.UNKNOWN),
        image=status.image_ref or one.image_ref,
        created_at=_time(status.created_at or one.created_at),
    )
    if told.state is State.CREATED:
        return told
    # The start is noted by the runtime when its call is over, which may be after a short program's end.
    is_over = 0 < status.finished_at < status.started_at
    return replace(
        told,
        exit_code=status.exit_code,
        reason=status.reason,
        message=status.message,
        started_at=_time(status.finished_at if is_over else status.started_at),
        finished_at=_time(status.finished_at),
    )


def is_cut_off(status: pb.ContainerStatus) -> bool:
    """Whether a start failed only because its caller went away, with nothing of the container begun.

    A runtime ends the work of a call with the call. Where the program may have been begun, it is a failed start.
    """
    return (
        status.state == pb.CONTAINER_EXITED
        and status.reason == START_ERROR
        and not status.started_at
        and _BEGUN not in status.message
        and any(text in status.message for text in _CUT_OFF)
    )


def is_busy(error: Error) -> bool:
    """Whether another call about the same thing is under way: one of a kubelet that was killed a moment ago."""
    return any(text in str(error) for text in _BUSY)


def create_error(error: Error, config: ContainerConfig) -> Error:
    """What the runtime answers for every fault with the same code, told apart by its words."""
    text = str(error)
    if "CDI device" in text:
        return InvalidError(f"container {config.name}: {text}")
    missing = [one for one in config.device_nodes if f"{one.host_path}: no such file" in text]
    if missing:
        path = missing[0].host_path
        return HardwareError(f"container {config.name} needs {path}, which does not exist: {text}", path=path)
    return error


def _time(nanoseconds: int) -> datetime | None:
    """Nanoseconds since 1970, 0 for never."""
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000) if nanoseconds > 0 else None
