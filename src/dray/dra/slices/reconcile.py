"""From the slices that are there to those that should be: which calls, in which order. Pure; the next plan is empty.

Slices are matched by the index that their name begins with. The generation stays where a single update does, for then
nobody sees half a change; else it grows, and all slices are written: a pool counts as incomplete until as many slices of
its highest generation are there as each of them says. Deletions come first, so that what the driver no longer has is
gone even where the rest cannot be stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from dray.api.meta import ObjectMeta, OwnerReference
from dray.api.resource.slice import Device, ResourcePool, ResourceSlice, ResourceSliceSpec
from dray.api.taints import DeviceTaint
from dray.dra.parcels import NodeRef
from dray.dra.slices.layout import SliceContents
from dray.semantics.pools import newest_generation, of_generation

_SHORTEST: Final = 5
_HEX: Final = re.compile(r"[0-9a-f]+")
_LAST: Final = 2**63 - 1
_TOLERATED: Final = 1.0
"""Seconds by which two times of a taint may differ."""

TaintKey = tuple[str, str, str, str]
"""Device, and key, value and effect of the taint."""
TaintTimes = Mapping[TaintKey, datetime]


@dataclass(frozen=True, slots=True)
class PoolOwner:
    """Whose slices these are. The pool has the node's name."""

    driver: str
    node: NodeRef

    @property
    def reference(self) -> OwnerReference:
        """The slices go when the node goes."""
        return OwnerReference(
            api_version="v1", kind="Node", name=self.node.name, uid=self.node.uid, controller=True
        )

    def has(self, one: ResourceSlice) -> bool:
        """Whether a slice is this driver's on this node, whatever its pool."""
        return one.spec.driver == self.driver and one.spec.node_name == self.node.name


@dataclass(frozen=True, slots=True)
class Deletion:
    """Of this object in this version alone; one that is gone already is fine."""

    old: ResourceSlice


@dataclass(frozen=True, slots=True)
class Update:
    """`new` has the name, the uid and the version of what it replaces."""

    index: int
    new: ResourceSlice


@dataclass(frozen=True, slots=True)
class Creation:
    """The server makes the name."""

    index: int
    new: ResourceSlice


Step = Deletion | Update | Creation


@dataclass(frozen=True, slots=True)
class Plan:
    """Carried out in order. Interrupted anywhere, the next plan goes on from what is there then."""

    generation: int
    steps: tuple[Step, ...] = ()


def make_plan(existing: Iterable[ResourceSlice], wanted: Sequence[SliceContents], owner: PoolOwner) -> Plan:
    """`wanted` are all slices of the pool, one at least. Slices of others among `existing` are left alone."""
    ours = _ours(existing, owner)
    return _plan(ours, _pool(ours, owner), wanted, owner)


def kept_last(existing: Iterable[ResourceSlice], count: int, owner: PoolOwner) -> list[ResourceSlice]:
    """Our slices, first those that a plan for `count` deletes: where two say different things, the later one is right."""
    ours = _ours(existing, owner)
    pool = _pool(ours, owner)
    kept = {one.metadata.name for one in _matched(pool, newest_generation(pool), count).values()}
    return sorted(ours, key=lambda one: one.metadata.name in kept)


def _ours(existing: Iterable[ResourceSlice], owner: PoolOwner) -> list[ResourceSlice]:
    return sorted((one for one in existing if owner.has(one)), key=lambda one: one.metadata.name)


def _pool(ours: Iterable[ResourceSlice], owner: PoolOwner) -> list[ResourceSlice]:
    return [one for one in ours if one.spec.pool.name == owner.node.name]


def _plan(
    ours: Sequence[ResourceSlice],
    pool: Sequence[ResourceSlice],
    wanted: Sequence[SliceContents],
    owner: PoolOwner,
) -> Plan:
    """Whatever is not in `pool` goes."""
    generation = newest_generation(pool)
    matched = _matched(pool, generation, len(wanted))
    specs = _specs(wanted, owner, generation)
    changed = [index for index, old in sorted(matched.items()) if not _is_same(old, specs[index], owner)]
    if len(matched) < len(wanted) or len(changed) > 1:
        if generation >= _LAST:  # somebody's joke: no number is left, so begin again
            return _plan(ours, [], wanted, owner)
        generation += 1
        specs, changed = _specs(wanted, owner, generation), sorted(matched)
    kept = {one.metadata.name for one in matched.values()}
    deletions = [Deletion(one) for one in ours if one.metadata.name not in kept]
    updates = [Update(index, _updated(matched[index], specs[index], owner)) for index in changed]
    creations = [
        Creation(index, _created(index, spec, owner, len(wanted)))
        for index, spec in enumerate(specs)
        if index not in matched
    ]
    return Plan(generation, (*deletions, *updates, *creations))


def index_of(name: str, count: int) -> int | None:
    """The index in the name of a slice of a pool of `count`; None where there is none, or it is not of that pool."""
    text, dash, _ = name.partition("-")
    if not dash or len(text) != _width(count) or not _HEX.fullmatch(text):
        return None
    index = int(text, 16)
    return index if index < count else None


def taint_times(slices: Iterable[ResourceSlice]) -> dict[TaintKey, datetime]:
    """Since when which device has which taint, as far as these say; of two that differ, as the later one says."""
    return {
        _key(device, taint): taint.time_added
        for one in slices
        for device in one.spec.devices or ()
        for taint in device.taints
        if taint.time_added is not None
    }


def dated(contents: SliceContents, times: TaintTimes) -> SliceContents:
    """With the known times of taints that say none: a taint does not begin anew with each write of its slice."""
    return SliceContents(tuple(_dated(device, times) for device in contents.devices), contents.counters)


def taint_keys(wanted: Iterable[SliceContents]) -> set[TaintKey]:
    """Of all taints that there should be."""
    return {_key(device, taint) for one in wanted for device in one.devices for taint in device.taints}


def same_devices(left: Sequence[Device], right: Sequence[Device]) -> bool:
    """Order counts. A taint without a time is like one with any, and times may differ by a second."""
    return len(left) == len(right) and all(map(_same_device, left, right))


def _same_device(left: Device, right: Device) -> bool:
    if left == right:
        return True
    if len(left.taints) != len(right.taints) or not all(map(_same_taint, left.taints, right.taints)):
        return False
    return bool(left.taints) and msgspec.structs.replace(left, taints=right.taints) == right


def _same_taint(left: DeviceTaint, right: DeviceTaint) -> bool:
    if (left.key, left.value, left.effect) != (right.key, right.value, right.effect):
        return False
    if left.time_added is None or right.time_added is None:
        return True
    return abs((left.time_added - right.time_added).total_seconds()) <= _TOLERATED


def _key(device: Device, taint: DeviceTaint) -> TaintKey:
    return (device.name, taint.key, taint.value, taint.effect)


def _dated(device: Device, times: TaintTimes) -> Device:
    if all(taint.time_added is not None for taint in device.taints):
        return device
    taints = tuple(
        taint
        if taint.time_added is not None
        else msgspec.structs.replace(taint, time_added=times.get(_key(device, taint)))
        for taint in device.taints
    )
    return msgspec.structs.replace(device, taints=taints)


def _width(count: int) -> int:
    return max(_SHORTEST, len(f"{count - 1:x}"))


def _matched(pool: Iterable[ResourceSlice], generation: int, count: int) -> dict[int, ResourceSlice]:
    """By index; of two with the same, the first by name."""
    matched: dict[int, ResourceSlice] = {}
    for one in of_generation(pool, generation):
        index = index_of(one.metadata.name, count)
        if index is not None:
            matched.setdefault(index, one)
    return matched


def _specs(wanted: Sequence[SliceContents], owner: PoolOwner, generation: int) -> list[ResourceSliceSpec]:
    pool = ResourcePool(name=owner.node.name, generation=generation, resource_slice_count=len(wanted))
    return [
        ResourceSliceSpec(
            driver=owner.driver,
            pool=pool,
            node_name=owner.node.name,
            devices=one.devices or None,
            shared_counters=one.counters or None,
        )
        for one in wanted
    ]


def _is_same(old: ResourceSlice, spec: ResourceSliceSpec, owner: PoolOwner) -> bool:
    """Labels and annotations are anybody's; the owner is not, for the slice would outlive its node."""
    stored = msgspec.structs.replace(
        old.spec, devices=spec.devices, shared_counters=old.spec.shared_counters or None
    )
    return (
        old.metadata.owner_references == (owner.reference,)
        and stored == spec
        and same_devices(old.spec.devices or (), spec.devices or ())
    )


def _updated(old: ResourceSlice, spec: ResourceSliceSpec, owner: PoolOwner) -> ResourceSlice:
    metadata = ObjectMeta(
        name=old.metadata.name,
        uid=old.metadata.uid,
        resource_version=old.metadata.resource_version,
        labels=old.metadata.labels,
        annotations=old.metadata.annotations,
        finalizers=old.metadata.finalizers,
        owner_references=(owner.reference,),
    )
    return ResourceSlice(metadata=metadata, spec=spec)


def _created(index: int, spec: ResourceSliceSpec, owner: PoolOwner, count: int) -> ResourceSlice:
    """Capital letters are fine in the name of a driver, not in that of an object."""
    prefix = f"{index:0{_width(count)}x}-{owner.driver.lower()}-{owner.node.name}-"
    metadata = ObjectMeta(generate_name=prefix, owner_references=(owner.reference,))
    return ResourceSlice(metadata=metadata, spec=spec)
