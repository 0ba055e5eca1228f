"""Taints of devices: which rules taint a device, who keeps it in spite of a taint, and what taints say of its health.

A device has the taints that its driver publishes in its ResourceSlice and those of every DeviceTaintRule that selects
it. NoSchedule and NoExecute keep claims from it. The effect None, and one from a newer Kubernetes, only inform.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum
from typing import Final

import msgspec

from dray.api.resource.slice import Device, ResourceSlice
from dray.api.resource.taint_rule import DeviceTaintRule
from dray.api.taints import DeviceTaint, DeviceToleration, Effect, tolerates

UNHEALTHY: Final = "unhealthy"
"""Name of the taint that Dray's agent puts on a device that does not work; its driver is the domain of the key."""
HELD_BY_PLUGIN: Final = "held-by-plugin"
"""Of the taint on a device that a pod has through a device plugin."""
HELD_BY_CLAIM: Final = "held-by-claim"
"""Of the taint on a device of which a claim has the hardware, as another device."""
_UNHEALTHY_NAMES: Final = frozenset({UNHEALTHY, "xid", "gpu-lost", "recovery"})
"""By these names drivers say that a device does not work: every driver of Dray's by the first, drivers of GPUs by the others."""
_HELD_NAMES: Final = frozenset({HELD_BY_PLUGIN, HELD_BY_CLAIM})
_LATEST: Final = 10**10
"""Seconds that a toleration may ask for and still be told from for ever by a date."""


class DeviceHealth(StrEnum):
    """How a device is, as its taints have it."""

    HEALTHY = "healthy"
    TAINTED = "tainted"
    """Kept from claims that do not tolerate a taint, for another reason than that it does not work."""
    UNHEALTHY = "unhealthy"


def taint_name(taint: DeviceTaint) -> str:
    """The key without its domain."""
    return taint.key.rpartition("/")[2]


def keeps_away(taint: DeviceTaint) -> bool:
    """Whether claims that do not tolerate the taint cannot get the device."""
    return taint.effect in (Effect.NO_SCHEDULE, Effect.NO_EXECUTE)


def device_health(taints: Iterable[DeviceTaint]) -> DeviceHealth:
    """The health that all taints of a device tell. A taint that only informs tells none; who has a device neither."""
    names = {taint_name(taint) for taint in taints if keeps_away(taint)} - _HELD_NAMES
    if names & _UNHEALTHY_NAMES:
        return DeviceHealth.UNHEALTHY
    return DeviceHealth.TAINTED if names else DeviceHealth.HEALTHY


def selects(
    rule: DeviceTaintRule, driver: str, pool: str, device: str, *, bare_selects_all: bool = False
) -> bool:
    """Whether the rule taints this device.

    A rule without a selector is documented to taint nothing; Kubernetes' scheduler lets it taint every device
    (`bare_selects_all`), its eviction does not.
    """
    return _selects_pool(rule, driver, pool, bare_selects_all) and _selects_name(rule, device)


def _selects_pool(rule: DeviceTaintRule, driver: str, pool: str, bare_selects_all: bool) -> bool:
    selector = rule.spec.device_selector
    if selector is None:
        return bare_selects_all
    return selector.driver in (None, driver) and selector.pool in (None, pool)


def _selects_name(rule: DeviceTaintRule, device: str) -> bool:
    selector = rule.spec.device_selector
    return selector is None or selector.device in (None, device)


def with_taint_rules(
    slices: Iterable[ResourceSlice], rules: Iterable[DeviceTaintRule], *, bare_selects_all: bool = False
) -> tuple[ResourceSlice, ...]:
    """The slices with the rules' taints after their own, rules by name. A slice that no rule touches stays the same."""
    ordered = sorted(rules, key=lambda rule: rule.metadata.name)
    return tuple(_with_rules(one, ordered, bare_selects_all) for one in slices) if ordered else tuple(slices)


def _with_rules(one: ResourceSlice, rules: list[DeviceTaintRule], bare_selects_all: bool) -> ResourceSlice:
    spec = one.spec
    of_pool = [rule for rule in rules if _selects_pool(rule, spec.driver, spec.pool.name, bare_selects_all)]
    if not of_pool or not spec.devices:
        return one
    devices = tuple(_with_taints(device, of_pool) for device in spec.devices)
    if all(new is old for new, old in zip(devices, spec.devices, strict=True)):
        return one
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(spec, devices=devices))


def _with_taints(device: Device, of_pool: list[DeviceTaintRule]) -> Device:
    more = tuple(rule.spec.taint for rule in of_pool if _selects_name(rule, device.name))
    return msgspec.structs.replace(device, taints=device.taints + more) if more else device


def eviction_grace(
    taint: DeviceTaint, tolerations: Iterable[DeviceToleration], *, bare_toleration_ignored: bool = False
) -> timedelta | None:
    """How long after `time_added` a claim may keep a device with this NoExecute taint: the shortest that it tolerates.

    None means for good. In Kubernetes a toleration without an effect lets the claim be allocated but does not stop the
    eviction (`bare_toleration_ignored`).
    """
    seconds: list[int] = []
    for one in tolerations:
        counts = one.effect == Effect.NO_EXECUTE or (not one.effect and not bare_toleration_ignored)
        if counts and tolerates(one, taint):
            if one.toleration_seconds is None or one.toleration_seconds >= _LATEST:
                return None
            seconds.append(max(one.toleration_seconds, 0))
    return timedelta(seconds=min(seconds, default=0))
