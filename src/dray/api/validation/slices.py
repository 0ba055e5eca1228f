"""Rules for ResourceSlice."""

from __future__ import annotations

from typing import Final

from dray.api import names
from dray.api.field_errors import FieldError, Path
from dray.api.limits import MAX_COUNTER_SETS, MAX_DEVICES, MAX_DEVICES_WITH_ADVANCED_FEATURES
from dray.api.resource.slice import Device, ResourcePool, ResourceSlice, ResourceSliceSpec
from dray.api.validation.attributes import is_list
from dray.api.validation.devices import check_counter_set, check_device
from dray.api.validation.faults import (
    CheckSelector,
    by_rule,
    by_rule_or_required,
    check_set,
    immutable,
    invalid,
    required,
)
from dray.api.validation.node_selectors import check_node_selector

_SPEC: Final = Path("spec")
_PLACES: Final = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_UNSET_OR_TRUE: Final = "must be either unset or set to true"


def check_slice(
    new: ResourceSlice, old: ResourceSlice | None, check_selector: CheckSelector | None
) -> list[FieldError]:
    """A slice to be created, or to replace `old`. It holds no selectors."""
    spec, before = new.spec, old.spec if old is not None else None
    errors = by_rule_or_required(names.driver_name, spec.driver, _SPEC.child("driver"))
    errors += _pool(spec.pool, _SPEC.child("pool"))
    if before is not None:
        errors += _fixed(spec, before)
    errors += _place(spec)
    if spec.shared_counters is not None and spec.devices is not None:
        errors.append(invalid(_SPEC, "", "only one of `sharedCounters` or `devices` is allowed"))
    errors += _devices(spec, before)
    return errors + check_set(
        spec.shared_counters or (),
        MAX_COUNTER_SETS,
        check_counter_set,
        lambda counter_set: counter_set.name,
        _SPEC.child("sharedCounters"),
    )


def _pool(pool: ResourcePool, path: Path) -> list[FieldError]:
    errors = by_rule_or_required(names.pool_name, pool.name, path.child("name"))
    if pool.resource_slice_count <= 0:
        here = path.child("resourceSliceCount")
        errors.append(invalid(here, pool.resource_slice_count, "must be greater than zero"))
    if pool.generation < 0:
        text = "must be greater than or equal to zero"
        errors.append(invalid(path.child("generation"), pool.generation, text))
    return errors


def _fixed(new: ResourceSliceSpec, old: ResourceSliceSpec) -> list[FieldError]:
    pairs = (
        (_SPEC.child("pool", "name"), new.pool.name, old.pool.name),
        (_SPEC.child("driver"), new.driver, old.driver),
        (_SPEC.child("nodeName"), new.node_name, old.node_name),
    )
    return [immutable(path, value) for path, value, before in pairs if value != before]


def _place(spec: ResourceSliceSpec) -> list[FieldError]:
    errors: list[FieldError] = []
    places = []
    if spec.node_name:
        places.append("`nodeName`")
        errors += by_rule(names.dns_subdomain, spec.node_name, _SPEC.child("nodeName"))
    elif spec.node_name is not None:
        text = "must be either unset or set to a non-empty string"
        errors.append(invalid(_SPEC.child("nodeName"), "", text))
    if spec.node_selector is not None:
        places.append("`nodeSelector`")
        here = _SPEC.child("nodeSelector")
        errors += check_node_selector(spec.node_selector, here)
        if len(terms := spec.node_selector.node_selector_terms) != 1:
            text = "must have exactly one node selector term"
            errors.append(invalid(here.child("nodeSelectorTerms"), terms, text))
    for field, value in (
        ("allNodes", spec.all_nodes),
        ("perDeviceNodeSelection", spec.per_device_node_selection),
    ):
        if value:
            places.append(f"`{field}`")
        elif value is not None:
            errors.append(invalid(_SPEC.child(field), value, _UNSET_OR_TRUE))
    if not places:
        errors.append(required(_SPEC, _PLACES))
    elif len(places) > 1:
        errors.append(invalid(_SPEC, f"{{{', '.join(places)}}}", f"{_PLACES}, but multiple fields are set"))
    return errors


def _devices(spec: ResourceSliceSpec, old: ResourceSliceSpec | None) -> list[FieldError]:
    devices = spec.devices or ()
    # The first device of a name is the one compared with, should an old slice hold a name twice.
    before = {device.name: device for device in reversed((old and old.devices) or ())}

    def check(device: Device, path: Path) -> list[FieldError]:
        has_place = bool(spec.per_device_node_selection)
        return check_device(device, before.get(device.name), path, has_place=has_place)

    limit = MAX_DEVICES_WITH_ADVANCED_FEATURES if any(map(_is_advanced, devices)) else MAX_DEVICES
    return check_set(devices, limit, check, lambda device: device.name, _SPEC.child("devices"))


def _is_advanced(device: Device) -> bool:
    if device.taints or device.consumes_counters:
        return True
    return any(map(is_list, device.attributes.values()))
