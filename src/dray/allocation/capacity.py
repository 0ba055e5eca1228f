"""How much of each capacity a request takes from a device, and whether that much is left.

The amount follows the device's request policy. All amounts compare exactly; only the rounding to a policy's steps works
in whole units, as in Kubernetes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

from dray.allocation.faults import AllocationError
from dray.allocation.profiles import Profile
from dray.api.quantity import Format, Quantity
from dray.api.quantity_text import BIG
from dray.api.resource.claim import CapacityRequirements
from dray.api.resource.slice import (
    CapacityRequestPolicy,
    CapacityRequestPolicyRange,
    Device,
    DeviceCapacity,
)

_LARGEST: Final = 2**63 - 1
_NOT_REPRESENTABLE: Final = "capacity request cannot be represented in the device's range arithmetic"

Amounts = Mapping[str, Quantity]


def fits(taken: Amounts, device: Device, used: Mapping[str, int]) -> bool:
    """Whether the amounts go on top of what is `used` (in billionths)."""
    return all(
        used.get(name, 0) + amount.nano <= device.capacity[name].value.nano for name, amount in taken.items()
    )


class CapacityCheck:
    """The rules of one profile."""

    def __init__(self, profile: Profile) -> None:
        self._unchecked = profile.capacity_unchecked
        self._literal = profile.capacity_keys_literal

    def amounts(self, wanted: CapacityRequirements | None, driver: str, device: Device) -> Amounts | None:
        """What a request takes of every capacity the device has; None where that is not to be had from it at all:
        it asks for a capacity the device lacks, or for an amount against the policy.

        Raises AllocationError for amounts that cannot be worked with.
        """
        asked = self._asked(wanted, driver, device)
        if asked is None:
            return None
        taken = {}
        for name, capacity in sorted(device.capacity.items()):
            amount = self._amount(name, asked.get(name), capacity)
            if not self._unchecked and amount.nano < 0:
                raise AllocationError(f"capacity {json.dumps(name)}: capacity value is negative")
            taken[name] = amount
        for name, capacity in sorted(device.capacity.items()):
            if self._violates(name, taken[name], capacity.request_policy):
                return None
        return taken

    def not_had(
        self, wanted: CapacityRequirements | None, driver: str, device: Device
    ) -> Iterator[tuple[str, str]]:
        """Where `amounts` says None: which capacities are in the way, and why, for people."""
        for name, asked in sorted(wanted.requests.items() if wanted is not None else ()):
            own = name if self._literal else _own_name(name, driver, device)
            if own not in device.capacity:
                known = f", only {', '.join(sorted(device.capacity))}" if device.capacity else ""
                yield name, f"the device has no such capacity{known}"
                continue
            capacity = device.capacity[own]
            if self._violates(own, self._amount(own, asked, capacity), capacity.request_policy):
                most = largest(capacity, capacity.value)
                yield (
                    name,
                    f"its policy allows {f'no more than {most}' if most is not None else 'nothing'}, not {asked}",
                )

    def _asked(self, wanted: CapacityRequirements | None, driver: str, device: Device) -> Amounts | None:
        """The requested amounts by the device's own names."""
        if wanted is None:
            return {}
        asked = {}
        for name, amount in sorted(wanted.requests.items()):
            own = name if self._literal else _own_name(name, driver, device)
            if own not in device.capacity:
                return None
            asked[own] = amount
        return asked

    def _amount(self, name: str, asked: Quantity | None, capacity: DeviceCapacity) -> Quantity:
        policy = capacity.request_policy
        if asked is None:
            return policy.default if policy is not None and policy.default is not None else capacity.value
        if policy is None:
            return asked
        if policy.valid_range is not None and policy.valid_range.min is not None:
            return self._round_up(name, asked, policy.valid_range, policy.valid_range.min)
        return next((value for value in policy.valid_values if asked <= value), asked)

    def _round_up(
        self, name: str, asked: Quantity, valid: CapacityRequestPolicyRange, lowest: Quantity
    ) -> Quantity:
        if asked < lowest:
            return lowest
        if valid.step is None:
            return asked
        step, start = _step(name, valid.step), _whole(lowest)
        if self._unchecked:
            rounded = start + step * _steps(_wrap(_whole(asked) - start), step)
            return Quantity.from_int(_wrap(rounded), Format.BINARY_SI)
        if asked.nano > _LARGEST * 10**9:
            raise _not_representable(name, f"request {asked} exceeds MaxInt64")
        rounded = start + step * _steps(_whole(asked) - start, step)
        if rounded > _LARGEST:
            raise _not_representable(name, f"rounding request {asked} up to the next step passes MaxInt64")
        return Quantity.from_int(rounded, valid.step.form)

    def _violates(self, name: str, amount: Quantity, policy: CapacityRequestPolicy | None) -> bool:
        if policy is None or _is_identical(amount, policy.default):
            return False
        valid = policy.valid_range
        if valid is None:
            return bool(policy.valid_values) and amount not in policy.valid_values
        if valid.max is not None and amount > valid.max:
            return True
        if valid.step is None:
            return False
        if valid.min is None:
            raise AllocationError(f"capacity {json.dumps(name)}: requestPolicy.validRange.min must be set")
        return bool(_wrap(_whole(amount) - _whole(valid.min)) % _step(name, valid.step))


def largest(capacity: DeviceCapacity, left: Quantity) -> Quantity | None:
    """The most that a request may ask for where this much is left; None where the policy allows nothing so small."""
    policy = capacity.request_policy
    if policy is None:
        return left if left.nano > 0 else None
    valid = policy.valid_range
    if valid is None:
        return max(
            (one for one in policy.valid_values if one <= left), default=None if policy.valid_values else left
        )
    most = left if valid.max is None else min(left, valid.max)
    if valid.min is None or most < valid.min:
        return None
    if valid.step is None or (step := _whole(valid.step)) <= 0:
        return most
    start = _whole(valid.min)
    return Quantity.from_int(start + (most.nano // 10**9 - start) // step * step, most.form)


def _own_name(name: str, driver: str, device: Device) -> str:
    """The device's name for a capacity: the same, or without or with the driver as its domain."""
    if name in device.capacity:
        return name
    domain, slash, bare = name.partition("/")
    if not slash:
        return f"{driver}/{name}"
    return bare if domain == driver else name


def _step(name: str, step: Quantity) -> int:
    whole = _whole(step)
    if whole <= 0:
        raise AllocationError(f"capacity {json.dumps(name)}: requestPolicy.validRange.step must be above 0")
    return whole


def _whole(amount: Quantity) -> int:
    """Go's `Value()`: beyond 64 bits it wraps for big decimals and is 0 for others."""
    value = amount.value()
    if -(2**63) <= value <= _LARGEST:
        return value
    return _wrap(value) if amount.kind.scale == BIG else 0


def _wrap(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def _steps(distance: int, step: int) -> int:
    """How many steps cover a distance; a negative one comes from a wrap, and Go's division then rounds up as well."""
    whole = distance // step if distance >= 0 else -(-distance // step)
    return whole + (whole * step != distance)


def _is_identical(amount: Quantity, default: Quantity | None) -> bool:
    """Go compares the structs here: equal amounts of another kind, or kept as a big decimal, do not count."""
    if default is None or amount.kind.scale == BIG:
        return False
    return amount.nano == default.nano and amount.kind is default.kind


def _not_representable(name: str, why: str) -> AllocationError:
    return AllocationError(f"capacity {json.dumps(name)}: {_NOT_REPRESENTABLE}: {why}")
