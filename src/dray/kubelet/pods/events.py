"""What a pod's Events say, in the kubelet's reasons and words: users read them with `kubectl describe pod`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dray.api.core import ObjectReference, Pod
from dray.api.core.container import Container
from dray.api.quoting import quote
from dray.client.event_series import MESSAGE_MAX, EventType
from dray.errors import Error
from dray.kubelet.rejection import Rejection
from dray.runtime.quarantine import SET_ASIDE

_MESSAGES = "/dev/termination-log"
"""The default, which every pod has: only another path is reported as unsupported."""


@dataclass(frozen=True, slots=True)
class PodEvent:
    """Something that happened to a pod, or to one of its containers (`about.field_path`)."""

    about: ObjectReference
    kind: EventType
    reason: str
    message: str


def rejected(pod: Pod, rejection: Rejection) -> PodEvent:
    """This node does not take the pod."""
    return _warning(pod, rejection.reason, rejection.message)


def not_carried_out(pod: Pod) -> PodEvent | None:
    """What the pod asks for and this node does not do; None where it asks for nothing of the kind."""
    told = ["runtimeClassName"] if pod.spec.runtime_class_name else []
    told += [f"{', '.join(asked)} of container {name}" for name, asked in _unsupported(pod)]
    told += [f"ephemeral container {one.name}" for one in pod.spec.ephemeral_containers]
    return _warning(pod, "NotSupported", f"This node does not carry out: {'; '.join(told)}") if told else None


def not_prepared(pod: Pod, error: Error) -> PodEvent:
    """A driver did not prepare the pod's claims."""
    return _warning(pod, "FailedPrepareDynamicResources", f"Failed to prepare dynamic resources: {error}")


def not_unprepared(pod: Pod, error: Error) -> PodEvent:
    """A driver did not take the pod's claims back: why a pod stays Terminating. A kubelet tells this in its log only."""
    return _warning(pod, "FailedUnprepareDynamicResources", f"Failed to unprepare dynamic resources: {error}")


def sandbox_changed(pod: Pod) -> PodEvent:
    """The pod had a sandbox, which is over: after a reboot, or where somebody ended it."""
    text = "Pod sandbox changed, it will be killed and re-created."
    return PodEvent(_about(pod), "Normal", "SandboxChanged", text)


def no_sandbox(pod: Pod, error: Error) -> PodEvent:
    """The runtime did not make a sandbox."""
    return _warning(pod, "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}")


def not_mounted(pod: Pod, error: Error) -> PodEvent:
    """A volume cannot be had."""
    return _warning(pod, "FailedMount", f"Unable to attach or mount volumes: {error}")


def not_killed(pod: Pod, error: Error) -> PodEvent:
    """A container did not end."""
    return _warning(pod, "FailedKillPod", f"error killing pod: {error}")


def pulled(pod: Pod, container: Container) -> PodEvent:
    """The image is there. Without a registry it always was."""
    text = (
        f"Container image {quote(container.image)} already present on machine and can be accessed by the pod"
    )
    return _normal(pod, container.name, "Pulled", text)


def not_pulled(pod: Pod, container: Container, error: Error) -> PodEvent:
    """There is no such image."""
    text = f"Failed to pull image {quote(container.image)}: {error}"
    return PodEvent(_about(pod, container.name), "Warning", "Failed", _cut(text))


def created(pod: Pod, container: str) -> PodEvent:
    """Made, not yet running."""
    return _normal(pod, container, "Created", "Container created")


def started(pod: Pod, container: str) -> PodEvent:
    """It runs."""
    return _normal(pod, container, "Started", "Container started")


def failed(pod: Pod, container: str, error: Error, container_id: str = "") -> PodEvent:
    """It could not be made or started. Its id gives way to its name, or each try would be another event."""
    text = str(error).replace(container_id, container) if container_id else str(error)
    return PodEvent(_about(pod, container), "Warning", "Failed", _cut(f"Error: {text}"))


def killing(pod: Pod, container: str) -> PodEvent:
    """It is asked to end."""
    return _normal(pod, container, "Killing", f"Stopping container {container}")


def back_off(pod: Pod, container: str) -> PodEvent:
    """It ended too often: it waits before it is started again."""
    text = f"Back-off restarting failed container {container} in pod {full_name(pod)}"
    return PodEvent(_about(pod, container), "Warning", "BackOff", text)


def full_name(pod: Pod) -> str:
    """As the kubelet names a pod in its texts."""
    return f"{pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"


def set_aside(pod: Pod, why: str) -> PodEvent:
    """The pod ended the kubelet again and again."""
    return _warning(pod, SET_ASIDE, why)


def _normal(pod: Pod, container: str, reason: str, message: str) -> PodEvent:
    return PodEvent(_about(pod, container), "Normal", reason, _cut(message))


def _warning(pod: Pod, reason: str, message: str) -> PodEvent:
    return PodEvent(_about(pod), "Warning", reason, _cut(message))


def _cut(text: str) -> str:
    return text if len(text) <= MESSAGE_MAX else f"{text[: MESSAGE_MAX - 3]}..."


def _about(pod: Pod, container: str = "") -> ObjectReference:
    meta = pod.metadata
    return ObjectReference(
        kind="Pod",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        api_version="v1",
        resource_version=meta.resource_version,
        field_path=_field_path(pod, container) if container else "",
    )


def _field_path(pod: Pod, container: str) -> str:
    is_init = any(one.name == container for one in pod.spec.init_containers)
    return f"spec.{'initContainers' if is_init else 'containers'}{{{container}}}"


def _unsupported(pod: Pod) -> Iterator[tuple[str, list[str]]]:
    for one in (*pod.spec.init_containers, *pod.spec.containers):
        probes: Mapping[str, Any] = {
            "livenessProbe": one.liveness_probe,
            "readinessProbe": one.readiness_probe,
            "startupProbe": one.startup_probe,
        }
        asked = [name for name, probe in probes.items() if probe]
        asked += [f"lifecycle.{name}" for name in sorted(one.lifecycle or {}) if name != "stopSignal"]
        if one.termination_message_path not in ("", _MESSAGES):
            asked.append("terminationMessagePath")
        if one.termination_message_policy not in ("", "File"):
            asked.append("terminationMessagePolicy")
        if one.volume_devices:
            asked.append("volumeDevices")
        if any(mount.mount_propagation not in (None, "", "None") for mount in one.volume_mounts):
            asked.append("mountPropagation")
        if asked:
            yield one.name, asked
