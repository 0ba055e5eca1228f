"""Find simulated devices: what the config names, less what its faults take away."""

from __future__ import annotations

from dray.drivers.contract import Device, Discovery, Problem
from dray.drivers.health import health_for, why_missing
from dray.drivers.sim.config import SimConfig, SimDevices
from dray.drivers.sim.health import look
from dray.drivers.sim.shapes import attributes_of, spot_of
from dray.hardware.host_root import Place

KIND = "sim"


def discover(config: SimConfig, root: Place, elapsed: float) -> Discovery:
    """All devices by name, `elapsed` seconds after the start. One whose node is not there is unhealthy too."""
    problems: list[Problem] = []
    entries = sorted(config.devices, key=lambda entry: entry.name)
    files = sorted({fault.while_file for fault in config.faults if fault.while_file})
    nodes = sorted({entry.node for entry in entries})
    with root.sweep() as sweep:
        missing = {node: why_missing(sweep, (node,), problems) for node in nodes}
        faults = look(config.faults, sweep, elapsed)
    devices = tuple(
        _device(entry, index, missing[entry.node] or faults.reasons.get(device_id, ""))
        for entry in entries
        for index, device_id in enumerate(entry.ids)
        if device_id not in faults.gone
    )
    return Discovery(
        devices,
        (*problems, *faults.problems),
        tuple(sorted({*nodes, *files})),
        tuple(sorted({path.rpartition("/")[0] or "/" for path in files})),
        faults.again_in,
    )


def _device(entry: SimDevices, index: int, reason: str) -> Device:
    attributes, spot = attributes_of(entry, index), spot_of(entry, index)
    device_id = f"{entry.name}-{index}"
    return Device(
        id=device_id,
        kind=KIND,
        resource=entry.resource_name,
        health=health_for(reason),
        reason=reason,
        label=str(attributes["model"]),
        numa_node=spot.numa_node,
        pcie_root=spot.pcie_root,
        attributes=attributes,
        paths=(entry.node,),
        watch=(entry.node,),
        shares=entry.shares,
        addresses=(device_id,),
        permissions="rw",
    )
