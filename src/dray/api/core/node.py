"""Node, as far as Dray reads it."""

from __future__ import annotations

from typing import Any

from msgspec import field

from dray.api.core.container import ResourceList
from dray.api.meta import Int32, Int64, Model, ObjectMeta, Time, always
from dray.api.taints import Taint

KUBELET_AUTHORITY = "dray.internal/kubelet-certificate-authority"
"""A Node's annotation: the authority (PEM, in base64) of the certificate that its kubelet serves with."""


class NodeSpec(Model, frozen=True, kw_only=True):
    """What an administrator set."""

    pod_cidr: str = field(default="", name="podCIDR")
    pod_cidrs: tuple[str, ...] = field(default=(), name="podCIDRs")
    provider_id: str = field(default="", name="providerID")
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeCondition(Model, frozen=True, kw_only=True):
    """One observed aspect of a node."""

    type: str = ""
    status: str = ""
    last_heartbeat_time: Time | None = None
    last_transition_time: Time | None = None
    reason: str = ""
    message: str = ""


class NodeAddress(Model, frozen=True, kw_only=True):
    """Where the node can be reached."""

    type: str = ""
    address: str = ""


class DaemonEndpoint(Model, frozen=True, kw_only=True):
    """A port; Kubernetes spells the field with a capital letter."""

    port: Int32 = field(default=0, name="Port")


class NodeDaemonEndpoints(Model, frozen=True, kw_only=True):
    """Where the kubelet listens."""

    kubelet_endpoint: DaemonEndpoint = DaemonEndpoint()


class NodeSwapStatus(Model, frozen=True, kw_only=True):
    """How much swap the node has."""

    capacity: Int64 | None = None


class NodeSystemInfo(Model, frozen=True, kw_only=True):
    """What the node is made of."""

    machine_id: str = field(default="", name="machineID")
    system_uuid: str = field(default="", name="systemUUID")
    boot_id: str = field(default="", name="bootID")
    kernel_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""
    kubelet_version: str = ""
    kube_proxy_version: str = ""
    operating_system: str = ""
    architecture: str = ""
    swap: NodeSwapStatus | None = None


class NodeStatus(Model, frozen=True, kw_only=True):
    """What the kubelet reports."""

    capacity: ResourceList = field(default_factory=dict)
    allocatable: ResourceList = field(default_factory=dict)
    phase: str = ""
    conditions: tuple[NodeCondition, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    daemon_endpoints: NodeDaemonEndpoints = NodeDaemonEndpoints()
    node_info: NodeSystemInfo = NodeSystemInfo()
    images: tuple[dict[str, Any], ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Model, frozen=True, kw_only=True):
    """A machine that runs pods."""

    api_version: str = field(default_factory=always("v1"))
    kind: str = field(default_factory=always("Node"))
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
