"""What a person expects of a GPU, a network card or a USB device, and where in the machine it sits."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass

from dray.drivers.sim.config import Shape, SimDevices

Attributes = dict[str, str | int | bool]

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "sim.dray.internal")


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a device sits; None where it does not tell."""

    numa_node: int | None
    pcie_root: str | None


def attributes_of(entry: SimDevices, index: int) -> Attributes:
    """The shape's, each device with a serial number of its own, and over them what the config says; sorted."""
    found = {**_of_shape(Shape(entry.shape), f"{entry.name}-{index}", index), **entry.attributes}
    return dict(sorted(found.items()))


def _of_shape(shape: Shape, device_id: str, index: int) -> Attributes:
    every: Attributes = {"serial": f"SIM-{device_id.upper()}", "shape": shape.value}
    if shape is Shape.GPU:
        identity = uuid.uuid5(_NAMESPACE, device_id)
        return {**every, "model": "SimGPU-80", "memory": "80Gi", "uuid": f"GPU-{identity}"}
    if shape is Shape.NIC:
        return {**every, "model": "SimNIC-100", "speed": "100Gbps", "mac": _mac(device_id)}
    ids: Attributes = {"vendor": "1209", "product": "0001", "port": f"1-{index + 1}"}
    return {**every, **ids, "model": "SimKey", "speed": "480Mbps"}


def _mac(device_id: str) -> str:
    """A locally administered address."""
    digest = hashlib.sha256(device_id.encode()).hexdigest()
    return ":".join(["02", *(digest[at : at + 2] for at in range(0, 10, 2))])


def placement(entry: SimDevices) -> tuple[int, int]:
    """Over how many NUMA nodes and PCIe roots the devices are spread. A root belongs to one node, so it has as many or more."""
    default = 0 if entry.shape == Shape.USB else 1
    nodes = default if entry.numa_nodes is None else entry.numa_nodes
    roots = max(nodes, default) if entry.pcie_roots is None else entry.pcie_roots
    return nodes, roots


def spot_of(entry: SimDevices, index: int) -> Spot:
    """Devices are spread in blocks, as slots are: of eight over two nodes the first four sit together."""
    nodes, roots = placement(entry)
    return Spot(
        index * nodes // entry.count if nodes else None,
        f"pci0000:{index * roots // entry.count:02x}" if roots else None,
    )
