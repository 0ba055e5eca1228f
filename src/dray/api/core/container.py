"""Containers of a pod: what shall run, what it asks for, and how it is."""

from __future__ import annotations

from typing import Any

from msgspec import field

from dray.api.meta import Int32, Model, Time
from dray.api.quantity import Quantity

ResourceList = dict[str, Quantity]


class ContainerClaim(Model, frozen=True, kw_only=True):
    """Which of the pod's claims, and optionally which request in it, a container uses (`resources.claims[]`)."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Model, frozen=True, kw_only=True):
    """What a container asks for."""

    limits: ResourceList = field(default_factory=dict)
    requests: ResourceList = field(default_factory=dict)
    claims: tuple[ContainerClaim, ...] = ()


class ContainerPort(Model, frozen=True, kw_only=True):
    """A port a container listens on."""

    name: str = ""
    host_port: Int32 = 0
    container_port: Int32 = 0
    protocol: str = ""
    host_ip: str = field(default="", name="hostIP")


class EnvVar(Model, frozen=True, kw_only=True):
    """One environment variable; `value_from` stays plain JSON."""

    name: str = ""
    value: str = ""
    value_from: dict[str, Any] | None = None


class VolumeMount(Model, frozen=True, kw_only=True):
    """Where a volume of the pod appears in a container."""

    name: str = ""
    read_only: bool = False
    recursive_read_only: str | None = None
    mount_path: str = ""
    sub_path: str = ""
    mount_propagation: str | None = None
    sub_path_expr: str = ""


class VolumeDevice(Model, frozen=True, kw_only=True):
    """Where a raw block volume appears in a container."""

    name: str = ""
    device_path: str = ""


class Container(Model, frozen=True, kw_only=True):
    """A container, an init container or (with `target_container_name`) an ephemeral one."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    ports: tuple[ContainerPort, ...] = ()
    env_from: tuple[dict[str, Any], ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    resize_policy: tuple[dict[str, Any], ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[dict[str, Any], ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    liveness_probe: dict[str, Any] | None = None
    readiness_probe: dict[str, Any] | None = None
    startup_probe: dict[str, Any] | None = None
    lifecycle: dict[str, Any] | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    image_pull_policy: str = ""
    security_context: dict[str, Any] | None = None
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    target_container_name: str = ""


class ContainerStateWaiting(Model, frozen=True, kw_only=True):
    """Not started yet, and why."""

    reason: str = ""
    message: str = ""


class ContainerStateRunning(Model, frozen=True, kw_only=True):
    """Running since."""

    started_at: Time | None = None


class ContainerStateTerminated(Model, frozen=True, kw_only=True):
    """How it ended."""

    exit_code: Int32 = 0
    signal: Int32 = 0
    reason: str = ""
    message: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None
    container_id: str = field(default="", name="containerID")


class ContainerState(Model, frozen=True, kw_only=True):
    """At most one of the three is set; none means waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ResourceHealth(Model, frozen=True, kw_only=True):
    """The health of one device a container holds; `resource_id` is the device id (plugin) or CDI id (DRA)."""

    resource_id: str = field(default="", name="resourceID")
    health: str = ""
    message: str | None = None


class ResourceStatus(Model, frozen=True, kw_only=True):
    """The devices of one resource (`claim:NAME/REQUEST` for a claim) that a container holds."""

    name: str = ""
    resources: tuple[ResourceHealth, ...] = ()


class ContainerStatus(Model, frozen=True, kw_only=True):
    """How a container is."""

    name: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = False
    restart_count: Int32 = 0
    image: str = ""
    image_id: str = field(default="", name="imageID")
    container_id: str = field(default="", name="containerID")
    started: bool | None = None
    allocated_resources: ResourceList = field(default_factory=dict)
    resources: ResourceRequirements | None = None
    allocated_resources_status: tuple[ResourceStatus, ...] = ()
