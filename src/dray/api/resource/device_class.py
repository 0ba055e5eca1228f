"""DeviceClass (resource.k8s.io/v1) and what classes and claims share: selectors and driver configuration."""

from __future__ import annotations

from typing import Any

from msgspec import field

from dray.api.meta import Model, ObjectMeta, always
from dray.api.resource.slice import RESOURCE_API


class CELDeviceSelector(Model, frozen=True, kw_only=True):
    """A CEL expression over `device` that is true for the devices meant."""

    expression: str = ""


class DeviceSelector(Model, frozen=True, kw_only=True):
    """A condition on devices; CEL is the only kind."""

    cel: CELDeviceSelector | None = None


class OpaqueDeviceConfiguration(Model, frozen=True, kw_only=True):
    """Configuration only its driver understands: a JSON object, None where absent."""

    driver: str = ""
    parameters: Any = None


class DeviceClassConfiguration(Model, frozen=True, kw_only=True):
    """Configuration that every allocation of the class gets."""

    opaque: OpaqueDeviceConfiguration | None = None


class DeviceClassSpec(Model, frozen=True, kw_only=True):
    """Which devices belong to the class, and as which extended resource pods may ask for them."""

    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Model, frozen=True, kw_only=True):
    """A kind of device that claims can ask for, made by an administrator."""

    api_version: str = field(default_factory=always(RESOURCE_API))
    kind: str = field(default_factory=always("DeviceClass"))
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()
