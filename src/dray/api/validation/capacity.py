"""Rules for the capacity of a device: how claims may take a part of it."""

from __future__ import annotations

from itertools import pairwise

from dray.api.field_errors import FieldError, Path
from dray.api.limits import MAX_VALID_VALUES
from dray.api.quantity import Quantity
from dray.api.resource.slice import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from dray.api.validation.faults import check_set, forbidden, invalid, required


def check_capacity(capacity: DeviceCapacity, shared: bool, path: Path) -> list[FieldError]:
    """One capacity; a request policy is for devices with multiple allocations only. Any quantity is a value."""
    policy = capacity.request_policy
    if policy is None:
        return []
    here = path.child("requestPolicy")
    if not shared:
        return [forbidden(here, "allowMultipleAllocations must be true")]
    if policy.valid_values and policy.valid_range is not None:
        text = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'
        return [forbidden(here, text)]
    return _policy(policy, capacity.value, here)


def _policy(policy: CapacityRequestPolicy, capacity: Quantity, path: Path) -> list[FieldError]:
    for field, present in (
        ("validValues", bool(policy.valid_values)),
        ("validRange", policy.valid_range is not None),
    ):
        if present and policy.default is None:
            return [required(path.child("default"), f"required when {field} is defined")]
    if policy.default is None:
        return []
    if policy.valid_values:
        return _values(policy.valid_values, policy.default, capacity, path.child("validValues"))
    if policy.valid_range is not None:
        return _range(policy.valid_range, policy.default, capacity, path.child("validRange"))
    return []


def _values(
    values: tuple[Quantity, ...], default: Quantity, capacity: Quantity, path: Path
) -> list[FieldError]:
    """Ascending, distinct as whole numbers, none above the capacity, and the default among them."""
    errors = [
        invalid(path.index(position + 1), str(after), "values must be sorted in ascending order")
        for position, (before, after) in enumerate(pairwise(values))
        if before > after
    ]

    def check(value: Quantity, here: Path) -> list[FieldError]:
        text = f"option is larger than capacity value: {capacity}"
        return [invalid(here, str(value), text)] if value > capacity else []

    errors += check_set(values, MAX_VALID_VALUES, check, lambda value: str(value.value()), path)
    if len(values) > MAX_VALID_VALUES or default not in values:
        errors.append(
            invalid(path, str(default), "default value is not valid according to the requestPolicy")
        )
    return errors


def _range(
    limits: CapacityRequestPolicyRange, default: Quantity, capacity: Quantity, path: Path
) -> list[FieldError]:
    low, high = limits.min, limits.max
    if low is None:
        return [required(path.child("min"), "required when validRange is defined")]
    errors = []
    if low > capacity:
        errors.append(invalid(path.child("min"), str(low), f"min is larger than capacity value: {capacity}"))
    if default < low:
        errors.append(invalid(path.child("min"), str(default), f"default is less than min: {low}"))
    if high is not None:
        errors += _high(low, high, default, capacity, path.child("max"))
    if limits.step is not None:
        errors += _step(limits.step, low, [default, *([high] if high is not None else [])], capacity, path)
    return errors


def _high(
    low: Quantity, high: Quantity, default: Quantity, capacity: Quantity, path: Path
) -> list[FieldError]:
    errors = []
    if low > high:
        errors.append(invalid(path, str(low), f"min is larger than max: {high}"))
    if high > capacity:
        errors.append(invalid(path, str(high), f"max is larger than capacity value: {capacity}"))
    if default > high:
        errors.append(invalid(path, str(default), f"default is more than max: {high}"))
    return errors


def _step(
    step: Quantity, low: Quantity, values: list[Quantity], capacity: Quantity, path: Path
) -> list[FieldError]:
    """Steps are counted in whole units, rounded up. The 1.36 API server breaks on a step of zero; it is a fault here."""
    here = path.child("step")
    errors = []
    first = low + step
    if first > capacity:
        text = f"one step {first} is larger than capacity value: {capacity}"
        errors.append(invalid(here, str(step), text))
    if step.value() == 0:
        return [*errors, invalid(here, str(step), "must not be zero")]
    errors += [
        invalid(here, str(value), f"value is not a multiple of a given step ({step}) from ({low})")
        for value in values
        if (value.value() - low.value()) % step.value()
    ]
    return errors
