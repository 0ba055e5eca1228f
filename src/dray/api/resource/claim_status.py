"""The status of a ResourceClaim (resource.k8s.io/v1): what was allocated, who uses it, how the devices are."""

from __future__ import annotations

from typing import Any, Final

from msgspec import field

from dray.api.meta import Condition, Model, Time
from dray.api.quantity import Quantity
from dray.api.resource.device_class import OpaqueDeviceConfiguration
from dray.api.selectors.types import NodeSelector
from dray.api.taints import DeviceToleration

FROM_CLASS: Final = "FromClass"
FROM_CLAIM: Final = "FromClaim"


class DeviceRequestAllocationResult(Model, frozen=True, kw_only=True):
    """One device for one request (`REQUEST` or `REQUEST/SUBREQUEST`)."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = field(default=None, name="shareID")
    consumed_capacity: dict[str, Quantity] = field(default_factory=dict)


class DeviceAllocationConfiguration(Model, frozen=True, kw_only=True):
    """Configuration to apply when preparing, in this order: class first, then claim."""

    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceAllocationResult(Model, frozen=True, kw_only=True):
    """The devices given, and their configuration."""

    results: tuple[DeviceRequestAllocationResult, ...] = ()
    config: tuple[DeviceAllocationConfiguration, ...] = ()


class AllocationResult(Model, frozen=True, kw_only=True):
    """Written once by the scheduler; where it is not None, `node_selector` says where the devices can be used."""

    devices: DeviceAllocationResult = DeviceAllocationResult()
    node_selector: NodeSelector | None = None
    allocation_timestamp: Time | None = None


class ResourceClaimConsumerReference(Model, frozen=True, kw_only=True):
    """Who may use the claim, mostly a pod."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class NetworkDeviceData(Model, frozen=True, kw_only=True):
    """What a network driver tells about its device: `ips` are addresses with prefix length."""

    interface_name: str = ""
    ips: tuple[str, ...] = ()
    hardware_address: str = ""


class AllocatedDeviceStatus(Model, frozen=True, kw_only=True):
    """How one allocated device is, written by its driver; `data` is a JSON object or None."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = field(default=None, name="shareID")
    conditions: tuple[Condition, ...] = ()
    data: Any = None
    network_data: NetworkDeviceData | None = None


class ResourceClaimStatus(Model, frozen=True, kw_only=True):
    """Allocated, reserved, and the devices' own reports."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()
