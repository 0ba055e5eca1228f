"""Every fault of a config of simulated devices, at its field."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from dray.api import names
from dray.api.field_errors import FieldError, Path
from dray.api.kubevirt.validation import MAX_COUNT, check_absolute_path, check_count, check_resource_name
from dray.api.validation.faults import (
    by_rule,
    by_rule_or_required,
    duplicate,
    forbidden,
    invalid,
    longer_than,
    not_found,
    not_supported,
    required,
    too_long,
    too_many,
)
from dray.drivers.contract import Health
from dray.drivers.sim.config import Action, Shape, SimConfig, SimDevices, SimFault, SimPreStart, resource_of
from dray.drivers.sim.dra_validation import check_for_dra, check_partition_resources, check_taints
from dray.drivers.sim.shapes import placement, shares_of

MAX_NAME: Final = 40
"""What 63 bytes of an id leave after the numbers of the device and of the share."""
MAX_PLACES: Final = 256
MAX_ATTRIBUTES: Final = 16
MAX_ATTRIBUTE_TEXT: Final = 64
MAX_SECONDS: Final = 1e9
LEAST_SECONDS: Final = 0.1
"""Shorter states would come and go faster than a kubelet hears of them."""
_ends_like_an_id: Final = re.compile(r"-[0-9]+$").search


def validate_sim(config: SimConfig, path: Path, domain: str | None = None) -> list[FieldError]:
    """What is wrong. Without `domain` every entry must name its resource; one that is no domain is not judged here."""
    errors: list[FieldError] = []
    for position, entry in enumerate(config.devices):
        errors += _entry(entry, path.child("devices").index(position), domain)
    errors += _together(config.devices, path.child("devices"), domain or "")
    for position, fault in enumerate(config.faults):
        errors += _fault(fault, config.devices, path.child("faults").index(position))
    return errors


def _entry(entry: SimDevices, path: Path, domain: str | None) -> list[FieldError]:
    errors = _name(entry.name, path.child("name"))
    if entry.resource_name or domain is None:
        errors += check_resource_name(entry.resource_name, path.child("resourceName"))
    elif not errors and not names.dns_subdomain(domain):
        errors += check_resource_name(resource_of(entry, domain), path.child("resourceName"))
    if entry.shape not in tuple(Shape):
        errors.append(not_supported(path.child("shape"), entry.shape, Shape))
    errors += check_count(entry.count, path.child("count"))
    if entry.shares is not None:
        errors += check_count(entry.shares, path.child("shares"))
    errors += _places(entry, path)
    errors += _attributes(entry, path.child("attributes"))
    errors += check_for_dra(entry, path, resource_of(entry, domain or ""))
    errors += check_absolute_path(entry.node, path.child("node"))
    return errors + (_pre_start(entry.pre_start, entry, path.child("preStart")) if entry.pre_start else [])


def _name(value: str, path: Path) -> list[FieldError]:
    if longer_than(value, MAX_NAME):
        return [too_long(path, MAX_NAME)]
    if errors := by_rule_or_required(names.dns_label, value, path):
        return errors
    text = "must not end in a dash and a number: the ids of the devices do"
    return [invalid(path, value, text)] if _ends_like_an_id(value) else []


def _places(entry: SimDevices, path: Path) -> list[FieldError]:
    text = f"must be between 0 and {MAX_PLACES}"
    fields = (("numaNodes", entry.numa_nodes), ("pcieRoots", entry.pcie_roots))
    errors = [
        invalid(path.child(name), value, text)
        for name, value in fields
        if value is not None and not 0 <= value <= MAX_PLACES
    ]
    nodes, roots = placement(entry)
    if errors or not nodes or roots % nodes == 0:
        return errors
    text = f"must be a multiple of numaNodes, which is {nodes}: a PCIe root belongs to one NUMA node"
    return [invalid(path.child("pcieRoots"), roots, text)]


def _attributes(entry: SimDevices, path: Path) -> list[FieldError]:
    if len(entry.attributes) > MAX_ATTRIBUTES:
        return [too_many(path, len(entry.attributes), MAX_ATTRIBUTES)]
    errors: list[FieldError] = []
    for key, value in sorted(entry.attributes.items()):
        errors += by_rule(names.attribute_id, key, path.key(key))
        if isinstance(value, str):
            errors += _text(value, path.key(key), MAX_ATTRIBUTE_TEXT)
    return errors


def _text(value: str, path: Path, limit: int) -> list[FieldError]:
    if longer_than(value, limit):
        return [too_long(path, limit)]
    return [] if value.isprintable() else [invalid(path, value, "must be printable text on one line")]


def _pre_start(script: SimPreStart, entry: SimDevices, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    if not script.action:
        errors.append(required(path.child("action"), "reset, fail or hang"))
    elif script.action not in tuple(Action):
        errors.append(not_supported(path.child("action"), script.action, Action))
    if script.action == Action.HANG and script.seconds:
        errors.append(forbidden(path.child("seconds"), "a hang lasts until it is cancelled"))
    errors += _seconds(script.seconds, 0.0, path.child("seconds"))
    if script.device:
        errors += _device(script.device, [entry], path.child("device"))
    if script.times is not None and script.times < 1:
        errors.append(invalid(path.child("times"), script.times, "must be 1 or more; without it, every time"))
    return errors


def _seconds(value: float | None, least: float, path: Path) -> list[FieldError]:
    if value is None or (math.isfinite(value) and least <= value <= MAX_SECONDS):
        return []
    return [invalid(path, str(value), f"must be between {least:g} and {MAX_SECONDS:.0f} seconds")]


def _device(device_id: str, entries: Sequence[SimDevices], path: Path) -> list[FieldError]:
    """An id must be that of a device, or the script would do nothing and say nothing."""
    if not device_id:
        return [required(path, "the id of a device, like gpu-0")]
    if any(entry.has(device_id) for entry in entries):
        return []
    known = [f"{entry.name}-0 to {entry.name}-{entry.count - 1}" for entry in entries[:5] if entry.count > 0]
    return [
        not_found(path, device_id, f"the ids are {', '.join(known)}" if known else "there are no devices")
    ]


def _together(entries: Sequence[SimDevices], path: Path, domain: str) -> list[FieldError]:
    """Names that are there twice, and resources of more ids than the kubelet takes."""
    errors = check_partition_resources(entries, path, domain)
    seen: set[str] = set()
    ids: dict[str, int] = {}
    for position, entry in enumerate(entries):
        here, resource = path.index(position), resource_of(entry, domain)
        is_partition = any(
            other.name != entry.name and other.partitions and other.has(f"{entry.name}-0")
            for other in entries
        )
        if entry.name and (entry.name in seen or is_partition):
            errors.append(duplicate(here.child("name"), entry.name))
        seen.add(entry.name)
        shares = shares_of(entry) if entry.shape in tuple(Shape) else entry.shares
        shares = 1 if shares is None else shares
        if check_count(entry.count, here) or check_count(shares, here):
            continue  # told already
        before = ids.get(resource, 0)
        ids[resource] = before + entry.count * shares
        if before <= MAX_COUNT < ids[resource]:
            text = f"makes {ids[resource]} ids of {resource}, counting shares: must be {MAX_COUNT} or fewer"
            errors.append(invalid(here.child("count"), entry.count, text))
    return errors


def _fault(fault: SimFault, entries: Sequence[SimDevices], path: Path) -> list[FieldError]:
    errors = _device(fault.device, entries, path.child("device"))
    times = {
        "afterSeconds": fault.after_seconds,
        "forSeconds": fault.for_seconds,
        "everySeconds": fault.every_seconds,
    }
    if fault.while_file:
        errors += check_absolute_path(fault.while_file, path.child("whileFile"))
        text = "a fault goes by time or by whileFile, not both"
        errors += [forbidden(path.child(name), text) for name, value in times.items() if value is not None]
    else:
        for name, value in times.items():
            errors += _seconds(value, 0.0 if name == "afterSeconds" else LEAST_SECONDS, path.child(name))
        errors += [] if errors else _period(fault, path)
    return errors + _effect(fault, path)


def _period(fault: SimFault, path: Path) -> list[FieldError]:
    if fault.every_seconds is None:
        return []
    if fault.for_seconds is None:
        return [required(path.child("forSeconds"), "how long of everySeconds the fault is there")]
    least = fault.for_seconds + LEAST_SECONDS
    if fault.every_seconds >= least:
        return []
    text = f"must be {least:g} or more: the device is well for a moment between two faults"
    return [invalid(path.child("everySeconds"), str(fault.every_seconds), text)]


def _effect(fault: SimFault, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    if fault.health and fault.health != Health.UNHEALTHY:
        errors.append(not_supported(path.child("health"), fault.health, [Health.UNHEALTHY]))
    if fault.gone:
        text = "a device that is gone has neither health nor reason nor taints"
        told = (("health", fault.health), ("reason", fault.reason), ("taints", fault.taints))
        return errors + [forbidden(path.child(name), text) for name, value in told if value]
    if fault.taints and fault.reason and not fault.health:
        text = "says why a device is not healthy, and one with taints is: give health too, or leave it out"
        errors.append(forbidden(path.child("reason"), text))
    errors += check_taints(fault.taints, path.child("taints"))
    return errors + _text(fault.reason, path.child("reason"), 200)
