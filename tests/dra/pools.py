"""Devices, pools and slices as the tests of publishing need them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dray.api.codec import to_raw, view
from dray.api.kinds import RESOURCE_SLICES
from dray.api.names import generate
from dray.api.quantity import Quantity
from dray.api.resource.slice import (
    Counter,
    CounterSet,
    DeviceAttribute,
    DeviceCounterConsumption,
    ResourceSlice,
)
from dray.api.resource.slice import Device as PoolDevice
from dray.api.taints import DeviceTaint
from dray.api.validation import validate
from dray.dra.parcels import NodeRef
from dray.dra.slices.layout import PoolContents
from dray.dra.slices.reconcile import PoolOwner
from dray.drivers.contract import Device, Health

DRIVER = "pci.dray.internal"
NODE = NodeRef("worker-1", "00000000-0000-4000-8000-00000000000e")
OWNER = PoolOwner(DRIVER, NODE)


def found_device(device_id: str = "d0", health: Health = Health.HEALTHY, **fields: Any) -> Device:
    """As a kind finds it."""
    return Device(id=device_id, kind="pci", **{"resource": "vendor.com/dev", **fields}, health=health)


def pool_device(name: str, *, taint: str = "", counters: Iterable[str] = (), mark: str = "") -> PoolDevice:
    """As a slice names it; `counters` are sets of which it takes one `slots` each."""
    one = {"slots": Counter(value=Quantity("1"))}
    return PoolDevice(
        name=name,
        attributes={"mark": DeviceAttribute(string_value=mark)},
        taints=(DeviceTaint(key=f"{DRIVER}/{taint}", effect="NoSchedule"),) if taint else (),
        consumes_counters=tuple(
            DeviceCounterConsumption(counter_set=name, counters=one) for name in counters
        ),
    )


def counter_set(name: str, slots: int = 7, more: int = 0) -> CounterSet:
    """With one counter that counts, and more that do not."""
    counters = {"slots": Counter(value=Quantity.from_int(slots))}
    return CounterSet(name=name, counters=counters | {f"c{i}": Counter() for i in range(more)})


def pool(count: int, mark: str = "", taint: str = "") -> PoolContents:
    """So many devices alike."""
    return PoolContents(tuple(pool_device(f"d{i:04}", mark=mark, taint=taint) for i in range(count)))


def faults_of(one: ResourceSlice) -> list[str]:
    """What the API server would say of a slice to be created."""
    named = view(to_document(one), ResourceSlice)
    return [str(fault) for fault in validate(RESOURCE_SLICES, named)]


def to_document(one: ResourceSlice) -> dict[str, Any]:
    """As it goes over the wire, with the name that the server makes."""
    document = dict(to_raw(one))
    metadata = dict(document["metadata"])
    if not metadata.get("name"):
        metadata["name"] = generate(metadata["generateName"], "bcdfg")
    return document | {"metadata": metadata}


def is_complete(slices: Iterable[ResourceSlice], contents: PoolContents) -> bool:
    """Whether the allocator would take the pool, and it holds exactly this."""
    slices = sorted(slices, key=lambda one: one.metadata.name)
    if not slices or len({one.spec.pool for one in slices}) != 1:
        return False
    names = [device.name for one in slices for device in one.spec.devices or ()]
    sets = {one.name for each in slices for one in each.spec.shared_counters or ()}
    return (
        slices[0].spec.pool.resource_slice_count == len(slices)
        and sorted(names) == sorted(device.name for device in contents.devices)
        and sets == {one.name for one in contents.counters}
    )
