"""Find simulated devices: what the config names, less what its faults take away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from dray.api.resource.slice import CounterSet, DeviceCapacity
from dray.drivers.contract import Device, Discovery, Problem
from dray.drivers.health import health_for, why_missing
from dray.drivers.naming import attribute_text
from dray.drivers.sim.config import SimConfig, SimDevices, partition_resource
from dray.drivers.sim.health import Faults, look
from dray.drivers.sim.partitions import (
    Partition,
    consumption,
    counter_set,
    partitions_of,
    slice_count,
    slice_parts,
)
from dray.drivers.sim.shapes import (
    MEMORY,
    attributes_of,
    capacity_of,
    gpu_uuid,
    shares_of,
    spot_of,
    versions_of,
)
from dray.hardware.host_root import Place

KIND = "sim"


@dataclass(frozen=True, slots=True)
class _Entry:
    """What the devices of an entry have in common, and what keeps all of them from being healthy."""

    config: SimDevices
    reason: str
    versions: Mapping[str, str]
    capacity: Mapping[str, DeviceCapacity]
    shares: int | None
    partitions: tuple[Partition, ...] = ()
    slices: int = 0


def discover(config: SimConfig, root: Place, elapsed: float) -> Discovery:
    """All devices by name, `elapsed` seconds after the start. One whose node is not there is unhealthy too."""
    problems: list[Problem] = []
    entries = sorted(config.devices, key=lambda entry: entry.name)
    files = sorted({fault.while_file for fault in config.faults if fault.while_file})
    nodes = sorted({entry.node for entry in entries})
    with root.sweep() as sweep:
        missing = {node: why_missing(sweep, (node,), problems) for node in nodes}
        faults = look(config.faults, sweep, elapsed)
    devices: list[Device] = []
    counters: list[CounterSet] = []
    for entry in (_entry(entry, missing[entry.node]) for entry in entries):
        for index, device_id in enumerate(entry.config.ids):
            if device_id not in faults.gone:
                devices += _devices(entry, _device(entry, index, faults), faults)
                counters += [counter_set(device_id, entry.slices)] if entry.slices else []
    return Discovery(
        tuple(devices),
        (*problems, *faults.problems),
        tuple(sorted({*nodes, *files})),
        tuple(sorted({path.rpartition("/")[0] or "/" for path in files})),
        faults.again_in,
        tuple(counters),
    )


def _entry(entry: SimDevices, reason: str) -> _Entry:
    return _Entry(
        entry,
        reason,
        versions_of(entry),
        capacity_of(entry),
        shares_of(entry),
        partitions_of(entry),
        slice_count(entry),
    )


def _device(entry: _Entry, index: int, faults: Faults) -> Device:
    config = entry.config
    attributes, spot = attributes_of(config, index), spot_of(config, index)
    device_id = f"{config.name}-{index}"
    reason = entry.reason or faults.reasons.get(device_id, "")
    return Device(
        id=device_id,
        kind=KIND,
        resource=config.resource_name,
        health=health_for(reason),
        reason=reason,
        label=str(attributes["model"]),
        numa_node=spot.numa_node,
        pcie_root=spot.pcie_root,
        attributes=attributes,
        paths=(config.node,),
        watch=(config.node,),
        shares=entry.shares,
        addresses=(device_id,),
        permissions="rw",
        name=device_id,
        versions=entry.versions,
        capacity=entry.capacity,
        taints=faults.taints_of(device_id),
        hardware=(f"sim:{device_id}",),
    )


def _devices(entry: _Entry, whole: Device, faults: Faults) -> Iterator[Device]:
    """The device, and all that it can be cut into instead."""
    if not entry.slices:
        yield whole
        return
    slices = range(entry.slices)
    yield replace(
        whole,
        consumes=consumption(whole.id, slices),
        hardware=(*whole.hardware, *slice_parts(whole.id, slices)),
    )
    for partition in entry.partitions:
        if f"{whole.id}-{partition.suffix}" not in faults.gone:
            yield _partition(whole, partition, faults)


def _partition(whole: Device, partition: Partition, faults: Faults) -> Device:
    device_id = f"{whole.id}-{partition.suffix}"
    reason = whole.reason or faults.reasons.get(device_id, "")
    return replace(
        whole,
        id=device_id,
        resource=partition_resource(whole.resource, partition.profile),
        health=health_for(reason),
        reason=reason,
        label=f"{whole.label} {partition.profile}",
        attributes=_partition_attributes(whole, partition, device_id),
        addresses=(device_id,),
        name=device_id,
        capacity={MEMORY: DeviceCapacity(value=partition.memory)},
        consumes=consumption(whole.id, partition.slices),
        taints=faults.taints_of(whole.id, device_id),
        hardware=slice_parts(whole.id, partition.slices),
    )


def _partition_attributes(whole: Device, partition: Partition, device_id: str) -> dict[str, str | int | bool]:
    own: dict[str, str | int | bool] = {
        "memory": str(partition.memory),
        "parent": whole.id,
        "profile": partition.profile,
        "serial": attribute_text(f"SIM-{device_id.upper()}"),
        "type": "partition",
    }
    if "uuid" in whole.attributes:
        own["uuid"] = gpu_uuid(device_id)
    return dict(sorted({**whole.attributes, **own}.items()))
