"""Recorded selector cases: one JSON object in, one out, for `dray cel --cases`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dray.allocation.device_values import prepare
from dray.allocation.features import NAMES, Features
from dray.allocation.selector import CompileError, compile_selector
from dray.api.codec.json_codec import view
from dray.api.resource.slice import Device, DeviceAttribute, DeviceCapacity


class _CaseDevice(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    driver: str = ""
    attributes: dict[str, DeviceAttribute] = msgspec.field(default_factory=dict)
    capacity: dict[str, DeviceCapacity] = msgspec.field(default_factory=dict)
    allow_multiple_allocations: bool | None = None


class SelectorCase(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One case. `environment` "new" compiles as for a text that an API server sees for the first time."""

    name: str = ""
    expression: str = ""
    features: tuple[str, ...] = ()
    environment: str = ""
    device: _CaseDevice = _CaseDevice()


def run_selector_case(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to one case; what was not reached is None. Raises InvalidError for what is no case.

    Gates that do not concern selectors are let through: a case may come from a table of the allocator's.
    """
    case = view(raw, SelectorCase)
    features = Features(
        consumable_capacity=NAMES["consumable_capacity"] in case.features,
        list_type_attributes=NAMES["list_type_attributes"] in case.features,
    )
    answer: dict[str, Any] = {"name": case.name, "compileError": "", "estimatedCost": None}
    answer |= {"match": None, "error": "", "cost": None}
    try:
        selector = compile_selector(case.expression, features, stored=case.environment != "new")
    except CompileError as error:
        return answer | {"compileError": error.text}
    device = Device(
        attributes=case.device.attributes,
        capacity=case.device.capacity,
        allow_multiple_allocations=case.device.allow_multiple_allocations,
    )
    prepared = prepare(case.device.driver, device, lists=features.list_type_attributes)
    match, fault, cost = selector.accepts_with_cost(prepared)
    return answer | {"estimatedCost": selector.estimated_cost, "match": match, "error": fault, "cost": cost}
