"""Rules for one device of a ResourceSlice. A slice may hold 128 of them, so paths are built for faults only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dray.api import names
from dray.api.field_errors import FieldError, Path
from dray.api.limits import (
    MAX_ATTRIBUTE_VALUES,
    MAX_ATTRIBUTES_AND_CAPACITIES,
    MAX_COUNTER_CONSUMPTIONS,
    MAX_COUNTERS,
    MAX_TAINTS,
)
from dray.api.resource.slice import (
    Counter,
    CounterSet,
    Device,
    DeviceCounterConsumption,
    NodeAllocatableResourceMapping,
)
from dray.api.validation.attributes import KEY_SHOWN, check_attributes, is_qualified_name, value_count
from dray.api.validation.capacity import check_capacity
from dray.api.validation.device_taints import check_binding_conditions, check_device_taint
from dray.api.validation.faults import (
    by_rule,
    by_rule_or_required,
    check_list,
    check_set,
    invalid,
    not_found,
    required,
    shortened,
    too_many,
)
from dray.api.validation.node_selectors import check_node_selector

_ONE_PLACE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` "
    "is set to true in the ResourceSlice spec"
)
_NO_PLACE: Final = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` "
    "is set to true in the ResourceSlice spec"
)


def check_device(device: Device, old: Device | None, path: Path, *, has_place: bool) -> list[FieldError]:
    """One device; `old` is the stored device of that name, whose unchanged taints pass.

    With `has_place` the slice leaves it to each device to say on which nodes it is.
    """
    errors = by_rule(names.dns_label, device.name, path.child("name"))
    errors += _sizes(device, path)
    errors += check_attributes(device.attributes, path.child("attributes"))
    errors += _capacities(device, path.child("capacity"))
    if device.taints and (old is None or old.taints != device.taints):
        errors += check_list(device.taints, MAX_TAINTS, check_device_taint, path.child("taints"))
    if device.consumes_counters:
        here = path.child("consumesCounters")
        errors += check_set(
            device.consumes_counters, MAX_COUNTER_CONSUMPTIONS, _consumption, _counter_set_name, here
        )
    errors += _place(device, path, has_place)
    errors += check_binding_conditions(device.binding_conditions, device.binding_failure_conditions, path)
    mappings = device.node_allocatable_resource_mappings
    for resource in sorted(mappings):
        here = path.child("nodeAllocatableResourceMappings").key(resource)
        errors += _mapping(resource, mappings[resource], device, here)
    return errors


def _sizes(device: Device, path: Path) -> list[FieldError]:
    errors = []
    count = len(device.attributes) + len(device.capacity)
    if count > MAX_ATTRIBUTES_AND_CAPACITIES:
        text = (
            f"the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES_AND_CAPACITIES}"
        )
        errors.append(invalid(path, count, text))
    values = sum(map(value_count, device.attributes.values()))
    if values > MAX_ATTRIBUTE_VALUES:
        text = f"the total number of attribute values must not exceed {MAX_ATTRIBUTE_VALUES}"
        errors.append(invalid(path, values, text))
    return errors


def _capacities(device: Device, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in sorted(device.capacity):
        capacity = device.capacity[name]
        if not is_qualified_name(name):
            errors += by_rule(names.qualified_name, name, path)
        if capacity.request_policy is not None:
            here = path.key(shortened(name, KEY_SHOWN))
            errors += check_capacity(capacity, bool(device.allow_multiple_allocations), here)
    return errors


def _counter_set_name(consumption: DeviceCounterConsumption) -> str:
    return consumption.counter_set


def _consumption(consumption: DeviceCounterConsumption, path: Path) -> list[FieldError]:
    errors = by_rule_or_required(names.dns_label, consumption.counter_set, path.child("counterSet"))
    return errors + _counters(consumption.counters, path.child("counters"))


def check_counter_set(counter_set: CounterSet, path: Path) -> list[FieldError]:
    """A named set of shared counters."""
    errors = by_rule_or_required(names.dns_label, counter_set.name, path.child("name"))
    return errors + _counters(counter_set.counters, path.child("counters"))


def _counters(counters: Mapping[str, Counter], path: Path) -> list[FieldError]:
    """Names only: any quantity is a counter value."""
    if not counters:
        return [required(path)]
    if len(counters) > MAX_COUNTERS:
        return [too_many(path, len(counters), MAX_COUNTERS)]
    errors: list[FieldError] = []
    for name in sorted(counters):
        errors += by_rule(names.dns_label, name, path)
    return errors


def _place(device: Device, path: Path, has_place: bool) -> list[FieldError]:
    if device.node_name is None and device.node_selector is None and device.all_nodes is None:
        return [required(path, _ONE_PLACE)] if has_place else []
    if not has_place:
        return [invalid(path, None, _NO_PLACE)]
    errors: list[FieldError] = []
    places = []
    if device.node_name:
        places.append("`nodeName`")
        errors += by_rule(names.dns_subdomain, device.node_name, path.child("nodeName"))
    elif device.node_name is not None:
        errors.append(invalid(path.child("nodeName"), "", "must not be empty"))
    if device.node_selector is not None:
        places.append("`nodeSelector`")
        errors += check_node_selector(device.node_selector, path.child("nodeSelector"))
    if device.all_nodes:
        places.append("`allNodes`")
    elif device.all_nodes is not None:
        errors.append(invalid(path.child("allNodes"), False, "must be either unset or set to true"))
    if not places:
        errors.append(required(path, _ONE_PLACE))
    elif len(places) > 1:
        errors.append(invalid(path, f"{{{', '.join(places)}}}", _ONE_PLACE))
    return errors


def _mapping(
    resource: str, mapping: NodeAllocatableResourceMapping, device: Device, path: Path
) -> list[FieldError]:
    errors = []
    if not names.is_native_resource(resource):
        errors.append(invalid(path, resource, "must be a node allocatable resource name"))
    multiplier, key = mapping.allocation_multiplier, mapping.capacity_key
    if multiplier is None and key is None:
        text = "at least one of allocationMultiplier or capacityKey must be set"
        return [*errors, invalid(path, "", text)]
    if multiplier is not None and multiplier.sign() <= 0:
        errors.append(invalid(path.child("allocationMultiplier"), str(multiplier), "must be positive"))
    if key == "":
        errors.append(invalid(path.child("capacityKey"), "", "capacityKey must not be an empty string"))
    elif key is not None and key not in device.capacity:
        errors.append(not_found(path.child("capacityKey"), key))
    return errors
