"""ResourceClaim and ResourceClaimTemplate (resource.k8s.io/v1): what is asked for."""

from __future__ import annotations

from typing import Final

from msgspec import field

from dray.api.meta import Int64, Model, ObjectMeta, always
from dray.api.quantity import Quantity
from dray.api.resource.claim_status import ResourceClaimStatus
from dray.api.resource.device_class import DeviceSelector, OpaqueDeviceConfiguration
from dray.api.resource.slice import RESOURCE_API
from dray.api.taints import DeviceToleration

EXACT_COUNT: Final = "ExactCount"
ALL: Final = "All"


class CapacityRequirements(Model, frozen=True, kw_only=True):
    """How much of each capacity is needed."""

    requests: dict[str, Quantity] = field(default_factory=dict)


class ExactDeviceRequest(Model, frozen=True, kw_only=True):
    """Devices of one class. After defaulting `allocation_mode` is never empty, and `count` is 0 only for All."""

    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Model, frozen=True, kw_only=True):
    """One alternative of a `firstAvailable` list; known as REQUEST/NAME."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: Int64 = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Model, frozen=True, kw_only=True):
    """Either `exactly` these devices, or the first alternative that is available."""

    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Model, frozen=True, kw_only=True):
    """Devices of the named requests (none named: of all) share, or never share, the value of an attribute."""

    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Model, frozen=True, kw_only=True):
    """Configuration for the devices of the named requests (none named: of all)."""

    requests: tuple[str, ...] = ()
    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClaim(Model, frozen=True, kw_only=True):
    """What devices are wanted."""

    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Model, frozen=True, kw_only=True):
    """Immutable."""

    devices: DeviceClaim = DeviceClaim()


class ResourceClaim(Model, frozen=True, kw_only=True):
    """A wish for devices, and in its status what was given and who uses it."""

    api_version: str = field(default_factory=always(RESOURCE_API))
    kind: str = field(default_factory=always("ResourceClaim"))
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Model, frozen=True, kw_only=True):
    """Immutable. Of `metadata` only labels and annotations may be set."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(Model, frozen=True, kw_only=True):
    """From it each pod that names it gets a claim of its own."""

    api_version: str = field(default_factory=always(RESOURCE_API))
    kind: str = field(default_factory=always("ResourceClaimTemplate"))
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()
