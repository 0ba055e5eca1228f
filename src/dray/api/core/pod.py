"""Pod, as far as Dray reads it. What Dray only passes on (volumes, security contexts, probes) stays plain JSON."""

from __future__ import annotations

from typing import Any

from msgspec import field

from dray.api.core.container import Container, ContainerStatus, ResourceList, ResourceRequirements
from dray.api.meta import Int32, Int64, Model, ObjectMeta, Time, always
from dray.api.selectors.types import NodeSelector, NodeSelectorTerm
from dray.api.taints import Toleration


class PreferredSchedulingTerm(Model, frozen=True, kw_only=True):
    """A wish about nodes, with a weight."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Model, frozen=True, kw_only=True):
    """Which nodes a pod must or would like to run on."""

    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Model, frozen=True, kw_only=True):
    """Scheduling affinities; those between pods stay plain JSON."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: dict[str, Any] | None = None
    pod_anti_affinity: dict[str, Any] | None = None


class PodSchedulingGate(Model, frozen=True, kw_only=True):
    """While a pod has one, it is not scheduled."""

    name: str = ""


class PodResourceClaim(Model, frozen=True, kw_only=True):
    """A claim of the pod: an existing one by name, or one to be made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Model, frozen=True, kw_only=True):
    """What shall run."""

    volumes: tuple[dict[str, Any], ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None
    active_deadline_seconds: Int64 | None = None
    dns_policy: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    service_account_name: str = ""
    automount_service_account_token: bool | None = None
    node_name: str = ""
    host_network: bool = False
    host_pid: bool = field(default=False, name="hostPID")
    host_ipc: bool = field(default=False, name="hostIPC")
    share_process_namespace: bool | None = None
    security_context: dict[str, Any] | None = None
    image_pull_secrets: tuple[dict[str, Any], ...] = ()
    hostname: str = ""
    subdomain: str = ""
    affinity: Affinity | None = None
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    host_aliases: tuple[dict[str, Any], ...] = ()
    priority_class_name: str = ""
    priority: Int32 | None = None
    dns_config: dict[str, Any] | None = None
    readiness_gates: tuple[dict[str, Any], ...] = ()
    runtime_class_name: str | None = None
    enable_service_links: bool | None = None
    preemption_policy: str | None = None
    overhead: ResourceList = field(default_factory=dict)
    topology_spread_constraints: tuple[dict[str, Any], ...] = ()
    os: dict[str, Any] | None = None
    host_users: bool | None = None
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    scheduling_group: dict[str, Any] | None = None


class PodCondition(Model, frozen=True, kw_only=True):
    """One observed aspect of a pod."""

    type: str = ""
    status: str = ""
    observed_generation: Int64 = 0
    last_probe_time: Time | None = None
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""


class PodIP(Model, frozen=True, kw_only=True):
    """An address of the pod or of its host."""

    ip: str = ""


class PodResourceClaimStatus(Model, frozen=True, kw_only=True):
    """Which claim stands for the pod's claim of that name; None where none was needed."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Model, frozen=True, kw_only=True):
    """Which request of the special claim serves an extended resource of a container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Model, frozen=True, kw_only=True):
    """The claim the scheduler made for the pod's extended resources that devices serve."""

    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class NodeAllocatableResourceClaimStatus(Model, frozen=True, kw_only=True):
    """Node resources (CPU, memory…) that a claim's devices bring along."""

    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    resources: ResourceList = field(default_factory=dict)


class PodStatus(Model, frozen=True, kw_only=True):
    """How the pod is."""

    observed_generation: Int64 = 0
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = field(default="", name="hostIP")
    host_ips: tuple[PodIP, ...] = field(default=(), name="hostIPs")
    pod_ip: str = field(default="", name="podIP")
    pod_ips: tuple[PodIP, ...] = field(default=(), name="podIPs")
    start_time: Time | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""
    resize: str = ""
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    allocated_resources: ResourceList = field(default_factory=dict)
    resources: ResourceRequirements | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


class Pod(Model, frozen=True, kw_only=True):
    """A group of containers that run together on one node."""

    api_version: str = field(default_factory=always("v1"))
    kind: str = field(default_factory=always("Pod"))
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
