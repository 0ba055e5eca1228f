"""Faults in what simulated devices tell DRA: versions, capacity, how it is shared, partitions, taints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from dray.api import names
from dray.api.field_errors import FieldError, Path
from dray.api.kubevirt.validation import MAX_COUNT, check_count, check_resource_name
from dray.api.limits import MAX_ATTRIBUTE_VALUE_LENGTH, MAX_ATTRIBUTES_AND_CAPACITIES, MAX_COUNTERS
from dray.api.quantity import Quantity
from dray.api.semver import NOT_SEMVER, is_semver
from dray.api.taints import DeviceTaint
from dray.api.validation.capacity import check_capacity
from dray.api.validation.device_taints import check_device_taint
from dray.api.validation.faults import (
    by_rule,
    by_rule_or_required,
    duplicate,
    forbidden,
    invalid,
    longer_than,
    not_found,
    required,
    shortened,
    too_long,
    too_many,
)
from dray.drivers.sim.config import (
    Shape,
    SimDevices,
    SimPartition,
    SimTaint,
    partition_resource,
    resource_of,
)
from dray.drivers.sim.partitions import slice_count
from dray.drivers.sim.shapes import MEMORY, amounts_of, attributes_of, capacity_of, versions_of

MAX_CAPACITIES: Final = 8
MAX_VERSIONS: Final = 8
MAX_PROFILES: Final = 8
MAX_PROFILE: Final = 12
"""What 63 bytes of an id leave after the longest name and the numbers of device and partition."""
MAX_FAULT_TAINTS: Final = 4
_MAX_AMOUNT: Final = Quantity("1Ei")
_TOLD_BESIDE: Final = ("resource", "numaNode", "pcieRoot", "shares", "parent", "profile")
"""What else a slice may tell of the device or its partitions."""
_SHOWN: Final = 64


def check_for_dra(entry: SimDevices, path: Path, resource: str) -> list[FieldError]:
    """All of an entry that no device plugin tells. `resource` is the one it is served as."""
    errors = _versions(entry, path.child("versions")) + _capacity(entry, path.child("capacity"))
    if errors or entry.shape not in tuple(Shape):
        return errors
    errors = _shared(entry, path.child("shared"))
    if entry.partitions:
        errors += _alone(entry, path) or _partitions(entry, path.child("partitions"), resource)
    return errors or _size(entry, path)


def check_partition_resources(entries: Sequence[SimDevices], path: Path, domain: str) -> list[FieldError]:
    """A device plugin would serve partitions that go by the name of its resource."""
    resources = {resource_of(entry, domain) for entry in entries}
    return [
        duplicate(path.index(position).child("partitions").index(number).child("profile"), resource)
        for position, entry in enumerate(entries)
        for number, one in enumerate(entry.partitions)
        if (resource := partition_resource(resource_of(entry, domain), one.profile)) in resources
    ]


def check_taints(taints: Sequence[SimTaint], path: Path) -> list[FieldError]:
    """Those of one fault."""
    if len(taints) > MAX_FAULT_TAINTS:
        return [too_many(path, len(taints), MAX_FAULT_TAINTS)]
    errors: list[FieldError] = []
    for position, one in enumerate(taints):
        taint = DeviceTaint(key=one.key, value=one.value, effect=one.effect)
        errors += check_device_taint(taint, path.index(position))
    return errors


def _versions(entry: SimDevices, path: Path) -> list[FieldError]:
    if len(entry.versions) > MAX_VERSIONS:
        return [too_many(path, len(entry.versions), MAX_VERSIONS)]
    errors: list[FieldError] = []
    for key, value in sorted(entry.versions.items()):
        here = path.key(shortened(key, _SHOWN))
        errors += by_rule(names.attribute_id, key, here)
        if longer_than(value, MAX_ATTRIBUTE_VALUE_LENGTH):
            errors.append(too_long(here, MAX_ATTRIBUTE_VALUE_LENGTH))
        elif not is_semver(value):
            errors.append(invalid(here, value, f"{NOT_SEMVER}, like 1.2.3"))
    return errors


def _capacity(entry: SimDevices, path: Path) -> list[FieldError]:
    if len(entry.capacity) > MAX_CAPACITIES:
        return [too_many(path, len(entry.capacity), MAX_CAPACITIES)]
    errors: list[FieldError] = []
    for key, amount in sorted(entry.capacity.items()):
        here = path.key(shortened(key, _SHOWN))
        errors += by_rule(names.attribute_id, key, here)
        if key == "shares":
            errors.append(forbidden(here, "is what `shares` makes: choose another name"))
        errors += _amount(amount, here)
    return errors


def _amount(amount: Quantity, path: Path) -> list[FieldError]:
    if amount.sign() > 0 and amount <= _MAX_AMOUNT:
        return []
    return [invalid(path, shortened(str(amount), _SHOWN), f"must be more than 0 and at most {_MAX_AMOUNT}")]


def _shared(entry: SimDevices, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    amounts = capacity_of(entry)
    for key, policy in sorted(entry.shared.items()):
        here = path.key(shortened(key, _SHOWN))
        if key not in amounts:
            errors.append(not_found(here, shortened(key, _SHOWN), "give the device this capacity"))
        elif policy.default is None:
            errors.append(required(here.child("default"), "what a claim gets that does not say how much"))
        elif not (bad := _policy_amounts(entry, key, here)):
            errors += [_in_our_words(fault, here) for fault in check_capacity(amounts[key], True, here)]
        else:
            errors += bad
    return errors


def _policy_amounts(entry: SimDevices, key: str, path: Path) -> list[FieldError]:
    policy = entry.shared[key]
    given = (
        ("default", policy.default),
        ("min", policy.min),
        ("max", policy.max),
        ("step", policy.step),
    )
    errors: list[FieldError] = []
    for name, amount in given:
        errors += _amount(amount, path.child(name)) if amount is not None else []
    if policy.default is not None and policy.default > amounts_of(entry)[key]:
        errors.append(
            invalid(path.child("default"), str(policy.default), "must not be more than the capacity")
        )
    return errors


def _in_our_words(fault: FieldError, path: Path) -> FieldError:
    """The API server's rules speak of requestPolicy.validRange, which is made of our fields."""
    return replace(fault, field=path.child(fault.field.rpartition(".")[2]).text)


def _alone(entry: SimDevices, path: Path) -> list[FieldError]:
    text = "a device that is cut into partitions has one owner"
    told = (("shares", entry.shares is not None), ("shared", bool(entry.shared)))
    return [forbidden(path.child(name), text) for name, is_there in told if is_there]


def _partitions(entry: SimDevices, path: Path, resource: str) -> list[FieldError]:
    if len(entry.partitions) > MAX_PROFILES:
        return [too_many(path, len(entry.partitions), MAX_PROFILES)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for position, one in enumerate(entry.partitions):
        here = path.index(position)
        errors += _profile(one, here.child("profile"), resource)
        if one.profile and one.profile in seen:
            errors.append(duplicate(here.child("profile"), one.profile))
        seen.add(one.profile)
        errors += _cut(one, amounts_of(entry).get(MEMORY), here)
    return errors or _pieces(entry, path)


def _profile(one: SimPartition, path: Path, resource: str) -> list[FieldError]:
    if longer_than(one.profile, MAX_PROFILE):
        return [too_long(path, MAX_PROFILE)]
    if errors := by_rule_or_required(names.dns_label, one.profile, path):
        return errors
    prefix, slash, _ = resource.partition("/")
    is_judged = slash and not names.dns_subdomain(prefix) and not check_resource_name(resource, path)
    return check_resource_name(partition_resource(resource, one.profile), path) if is_judged else []


def _cut(one: SimPartition, memory: Quantity | None, path: Path) -> list[FieldError]:
    if errors := check_count(one.count, path.child("count")):
        return errors
    if one.memory is None:
        return [required(path.child("memory"))]
    if errors := _amount(one.memory, path.child("memory")):
        return errors
    if memory is None:
        return [invalid(path.child("memory"), str(one.memory), "the device has no capacity of this name")]
    if one.count * one.memory.value() <= memory.value():
        return []
    text = f"{one.count} times {one.memory} is more than the device's memory, {memory}"
    return [invalid(path.child("count"), one.count, text)]


def _pieces(entry: SimDevices, path: Path) -> list[FieldError]:
    slices = slice_count(entry)
    if slices > MAX_COUNTERS:
        text = f"cut the memory into {slices} equal slices: must be {MAX_COUNTERS} or fewer"
        return [invalid(path, len(entry.partitions), text)]
    devices = entry.count * (1 + sum(one.count for one in entry.partitions))
    if devices > MAX_COUNT >= entry.count:
        text = f"make {devices} devices of this entry: must be {MAX_COUNT} or fewer"
        return [invalid(path, len(entry.partitions), text)]
    return []


def _size(entry: SimDevices, path: Path) -> list[FieldError]:
    """A slice has room for 32 attributes and capacities of a device, and no two attributes of a name."""
    attributes, versions = attributes_of(entry, 0), versions_of(entry)
    if both := sorted(attributes.keys() & versions.keys()):
        text = "is an attribute too: choose another name"
        return [forbidden(path.child("versions").key(name), text) for name in both]
    told = len({*attributes, *versions, *_TOLD_BESIDE}) + len(amounts_of(entry))
    if told <= MAX_ATTRIBUTES_AND_CAPACITIES:
        return []
    room = MAX_ATTRIBUTES_AND_CAPACITIES - (told - len(entry.attributes))
    return [too_many(path.child("attributes"), len(entry.attributes), max(room, 0))]
