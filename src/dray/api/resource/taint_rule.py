"""DeviceTaintRule (resource.k8s.io/v1beta2 in 1.36): an administrator's taint on devices, from outside the slice."""

from __future__ import annotations

from typing import Final

from msgspec import field

from dray.api.meta import Condition, Model, ObjectMeta, always
from dray.api.taints import DeviceTaint

EVICTION_IN_PROGRESS: Final = "EvictionInProgress"


class DeviceTaintSelector(Model, frozen=True, kw_only=True):
    """Which devices: all given fields must match; none given matches every device."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class DeviceTaintRuleSpec(Model, frozen=True, kw_only=True):
    """The taint, and where it applies. Without a selector it is documented to match nothing."""

    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRuleStatus(Model, frozen=True, kw_only=True):
    """Progress of an eviction."""

    conditions: tuple[Condition, ...] = ()


class DeviceTaintRule(Model, frozen=True, kw_only=True):
    """Taints devices as if their driver had done so."""

    api_version: str = field(default_factory=always("resource.k8s.io/v1beta2"))
    kind: str = field(default_factory=always("DeviceTaintRule"))
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceTaintRuleSpec = DeviceTaintRuleSpec()
    status: DeviceTaintRuleStatus = DeviceTaintRuleStatus()
