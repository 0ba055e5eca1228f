"""Every fault of a profile, at its field. What devices may tell is judged by the API's own rules when they are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dray.api import names
from dray.api.field_errors import FieldError, Path
from dray.api.kubevirt.validation import check_labels
from dray.api.quantity import Quantity
from dray.api.validation.faults import (
    by_rule,
    by_rule_or_required,
    check_list,
    check_set,
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
)
from dray.drivers.sim.dra_validation import check_taints
from dray.drivers.sim.hollow import PCI_BUSES, partition_name
from dray.drivers.sim.profile import (
    HOLLOW_LABEL,
    SIMULATED,
    HollowClass,
    HollowDevices,
    HollowFault,
    HollowGroup,
    HollowPartition,
    SimProfile,
)
from dray.drivers.sim.validation import validate_sim

DOMAIN: Final = "dray.internal"
MAX_NODES: Final = 10_000
MAX_GROUPS: Final = 64
MAX_ENTRIES: Final = 6
MAX_DEVICES: Final = 256
MAX_PARTITIONS: Final = 2_000
"""Of one entry on one node."""
MAX_ROOTS: Final = 32
MAX_SLICES: Final = 16
_DEVICES_ON_BUS: Final = 32
_OWN_LABELS: Final = (HOLLOW_LABEL, "kubernetes.io/hostname", "topology.kubernetes.io/zone")
_OWN_ATTRIBUTES: Final = (SIMULATED, "uuid", "productName", "parentUUID", "profile")


def validate_profile(profile: SimProfile, path: Path) -> list[FieldError]:
    """What is wrong."""
    errors = validate_sim(profile.local, path.child("local"), DOMAIN)
    errors += check_set(profile.classes, MAX_GROUPS, _class, lambda one: one.name, path.child("classes"))
    errors += check_set(profile.groups, MAX_GROUPS, _group, lambda one: one.name, path.child("groups"))
    if not errors and profile.node_count > MAX_NODES:
        text = f"make {profile.node_count} nodes: must be {MAX_NODES} or fewer"
        errors.append(invalid(path.child("groups"), len(profile.groups), text))
    return errors


def _class(one: HollowClass, path: Path) -> list[FieldError]:
    errors = by_rule_or_required(names.dns_subdomain, one.name, path.child("name"))
    return errors + ([] if one.expression else [required(path.child("expression"), "a CEL selector")])


def _between(value: int, least: int, most: int, path: Path) -> list[FieldError]:
    return [] if least <= value <= most else [invalid(path, value, f"must be between {least} and {most}")]


def _group(group: HollowGroup, path: Path) -> list[FieldError]:
    errors = by_rule_or_required(names.dns_label, group.name, path.child("name"))
    errors += _between(group.count, 1, MAX_NODES, path.child("count"))
    if not errors:
        errors += by_rule(names.dns_label, group.node_name(group.count - 1), path.child("name"))
    errors += check_labels(group.labels, path.child("labels"))
    errors += [
        forbidden(path.child("labels").key(key), "every hollow node has its own")
        for key in _OWN_LABELS
        if key in group.labels
    ]
    for position, zone in enumerate(group.zones):
        errors += by_rule_or_required(names.label_value, zone, path.child("zones").index(position))
    errors += _amounts(group.capacity, path.child("capacity"))
    errors += _resources(group, path.child("resources"))
    errors += check_list(group.devices, MAX_ENTRIES, _devices, path.child("devices"))
    return errors or _names_and_faults(group, path)


def _amounts(amounts: Mapping[str, Quantity], path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, amount in sorted(amounts.items()):
        errors += by_rule(names.qualified_name, key, path.key(key))
        if amount.sign() < 0:
            errors.append(invalid(path.key(key), str(amount), "must be 0 or more"))
    return errors


def _resources(group: HollowGroup, path: Path) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, count in sorted(group.resources.items()):
        errors += by_rule(names.extended_resource_name, name, path.key(name))
        errors += _between(count, 0, MAX_PARTITIONS, path.key(name))
        if name in group.capacity:
            errors.append(forbidden(path.key(name), "is in capacity too: leave it out there"))
    return errors


def _devices(entry: HollowDevices, path: Path) -> list[FieldError]:
    errors = by_rule_or_required(names.driver_name, entry.driver, path.child("driver"))
    errors += by_rule_or_required(names.dns_label, entry.name, path.child("name"))
    errors += _between(entry.count, 1, MAX_DEVICES, path.child("count"))
    errors += _between(entry.numa_nodes, 0, MAX_ROOTS, path.child("numaNodes"))
    errors += _between(entry.pcie_roots, 0, MAX_ROOTS, path.child("pcieRoots"))
    errors += [
        forbidden(path.child("attributes").key(key), "is made by the fleet")
        for key in sorted(entry.attributes)
        if key in _OWN_ATTRIBUTES
    ]
    errors += _amounts(entry.capacity, path.child("capacity"))
    return errors or _places(entry, path) + _partitions(entry, path)


def _places(entry: HollowDevices, path: Path) -> list[FieldError]:
    nodes, roots = entry.numa_nodes, entry.pcie_roots
    if not roots:
        return []
    here = path.child("pcieRoots")
    if nodes and roots % nodes:
        text = f"must be a multiple of numaNodes, which is {nodes}: a PCIe root belongs to one NUMA node"
        return [invalid(here, roots, text)]
    if PCI_BUSES % roots:
        return [invalid(here, roots, "must be a power of two")]
    least = -(-entry.count // _DEVICES_ON_BUS)
    return [] if roots >= least else [invalid(here, roots, f"{entry.count} devices need {least} or more")]


def _partitions(entry: HollowDevices, path: Path) -> list[FieldError]:
    here = path.child("memorySlices")
    if not entry.partitions:
        return [forbidden(here, "is for partitions")] if entry.memory_slices else []
    errors = _between(entry.memory_slices, 1, MAX_SLICES, here)
    for position, one in enumerate(entry.partitions):
        errors += _partition(one, entry, path.child("partitions").index(position))
    total = entry.count * sum(len(one.starts) for one in entry.partitions)
    if not errors and total > MAX_PARTITIONS:
        text = f"make {total} partitions on a node: must be {MAX_PARTITIONS} or fewer"
        errors.append(invalid(path.child("partitions"), len(entry.partitions), text))
    return errors


def _partition(one: HollowPartition, entry: HollowDevices, path: Path) -> list[FieldError]:
    errors = [] if one.profile else [required(path.child("profile"), "such as 1g.18gb")]
    errors += by_rule_or_required(names.dns_label, one.type, path.child("type"))
    errors += _between(one.slices, 1, max(entry.memory_slices, 1), path.child("slices"))
    errors += [] if one.starts else [required(path.child("starts"), "the memory slices where one may begin")]
    for position, start in enumerate(one.starts):
        last = max(entry.memory_slices - one.slices, 0)
        errors += _between(start, 0, last, path.child("starts").index(position))
    errors += _amounts(one.capacity, path.child("capacity"))
    for name, amount in sorted(one.capacity.items()):
        whole = entry.capacity.get(name)
        if whole is None:
            errors.append(not_found(path.child("capacity").key(name), name, "give the device this capacity"))
        elif amount > whole:
            text = f"is more than the device has, {whole}"
            errors.append(invalid(path.child("capacity").key(name), str(amount), text))
    if not errors:
        longest = partition_name(f"{entry.name}-{entry.count - 1}", one, max(one.starts))
        errors += by_rule(names.dns_label, longest, path.child("profile"))
    return errors


def _names_and_faults(group: HollowGroup, path: Path) -> list[FieldError]:
    """Names of a pool are there once; a fault of a device that is not there would do nothing and say nothing."""
    errors: list[FieldError] = []
    known: set[str] = set()
    for position, entry in enumerate(group.devices):
        cards = [f"{entry.name}-{index}" for index in range(entry.count)]
        parts = [
            partition_name(card, one, start)
            for card in cards
            for one in entry.partitions
            for start in one.starts
        ]
        own = [*cards, *parts]
        if len(set(own)) < len(own) or known & set(own):
            errors.append(duplicate(path.child("devices").index(position).child("name"), entry.name))
        known |= set(own)
    for position, fault in enumerate(group.faults):
        errors += _fault(fault, group, known, path.child("faults").index(position))
    return errors


def _fault(fault: HollowFault, group: HollowGroup, known: set[str], path: Path) -> list[FieldError]:
    errors = _between(fault.first, 0, group.count - 1, path.child("first"))
    errors += _between(fault.every, 0, MAX_NODES, path.child("every"))
    if not fault.device:
        errors.append(required(path.child("device"), "the name of a device, like gpu-0"))
    elif fault.device not in known:
        entries = [f"{one.name}-0 to {one.name}-{one.count - 1}" for one in group.devices]
        text = f"the names are {', '.join(entries)}" if entries else "the group has no devices"
        errors.append(not_found(path.child("device"), fault.device, text))
    if not fault.reason.isprintable():
        errors.append(invalid(path.child("reason"), fault.reason, "must be printable text on one line"))
    return errors + check_taints(fault.taints, path.child("taints"))
