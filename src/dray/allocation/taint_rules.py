"""DeviceTaintRules: taints that administrators put on devices from outside their slices."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dray.api.resource.slice import Device, ResourceSlice
from dray.api.resource.taint_rule import DeviceTaintRule, DeviceTaintSelector
from dray.api.taints import DeviceTaint


def with_taint_rules(
    slices: Iterable[ResourceSlice], rules: Iterable[DeviceTaintRule], *, bare_rule_taints_all: bool = False
) -> tuple[ResourceSlice, ...]:
    """The slices with the rules' taints after their own, rules by name. A slice that no rule touches stays the same.

    A rule without a selector is documented to match nothing; Kubernetes' scheduler lets it match every device
    (`bare_rule_taints_all`).
    """
    ordered = sorted(rules, key=lambda rule: rule.metadata.name)
    if not bare_rule_taints_all:
        ordered = [rule for rule in ordered if rule.spec.device_selector is not None]
    return tuple(_with_rules(one, ordered) for one in slices) if ordered else tuple(slices)


def _with_rules(one: ResourceSlice, rules: list[DeviceTaintRule]) -> ResourceSlice:
    spec = one.spec
    of_pool = [
        (rule.spec.device_selector or DeviceTaintSelector(), rule.spec.taint)
        for rule in rules
        if rule.spec.device_selector is None
        or (
            rule.spec.device_selector.driver in (None, spec.driver)
            and rule.spec.device_selector.pool in (None, spec.pool.name)
        )
    ]
    if not of_pool or not spec.devices:
        return one
    devices = tuple(_tainted(device, of_pool) for device in spec.devices)
    if all(new is old for new, old in zip(devices, spec.devices, strict=True)):
        return one
    return msgspec.structs.replace(one, spec=msgspec.structs.replace(spec, devices=devices))


def _tainted(device: Device, rules: list[tuple[DeviceTaintSelector, DeviceTaint]]) -> Device:
    more = tuple(taint for selector, taint in rules if selector.device in (None, device.name))
    return msgspec.structs.replace(device, taints=device.taints + more) if more else device
