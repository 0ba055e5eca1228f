"""What a person expects of a GPU, a network card or a USB device, and where in the machine it sits."""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from typing import Final

from dray.api.quantity import Quantity
from dray.api.resource.slice import CapacityRequestPolicy, CapacityRequestPolicyRange, DeviceCapacity
from dray.drivers.naming import SHARES
from dray.drivers.sim.config import Shape, SimDevices, SimPolicy
from dray.errors import InvalidError

Attributes = dict[str, str | int | bool]

GPU_MEMORY: Final = Quantity("80Gi")
MEMORY: Final = "memory"
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "sim.dray.internal")


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a device sits; None where it does not tell."""

    numa_node: int | None
    pcie_root: str | None


def attributes_of(entry: SimDevices, index: int) -> Attributes:
    """The shape's, each device with a serial number of its own, and over them what the config says; sorted."""
    found = {**_of_shape(entry, f"{entry.name}-{index}", index), **entry.attributes}
    return dict(sorted(found.items()))


def gpu_uuid(device_id: str) -> str:
    """As a GPU or a partition of one has it; the same on every machine."""
    return f"GPU-{uuid.uuid5(_NAMESPACE, device_id)}"


def _of_shape(entry: SimDevices, device_id: str, index: int) -> Attributes:
    shape = Shape(entry.shape)
    every: Attributes = {
        "serial": f"SIM-{device_id.upper()}",
        "shape": shape.value,
        "type": shape.value,
    }
    if shape is Shape.GPU:
        memory = str(amounts_of(entry)[MEMORY])
        return {**every, "model": "SimGPU-80", "memory": memory, "uuid": gpu_uuid(device_id)}
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


def versions_of(entry: SimDevices) -> dict[str, str]:
    """The shape's, and over them what the config says."""
    shape: dict[str, str] = {} if entry.shape == Shape.USB else {"driverVersion": "1.0.0"}
    return dict(sorted({**shape, **entry.versions}.items()))


def amounts_of(entry: SimDevices) -> dict[str, Quantity]:
    """What each device has. A GPU has 80Gi of memory, or what the attribute says: the two never contradict by default."""
    shape = {MEMORY: _told_memory(entry)} if entry.shape == Shape.GPU else {}
    return dict(sorted({**shape, **entry.capacity}.items()))


def _told_memory(entry: SimDevices) -> Quantity:
    try:
        told = Quantity(str(entry.attributes.get(MEMORY, GPU_MEMORY)))
    except InvalidError:
        return GPU_MEMORY
    return told if told.sign() > 0 else GPU_MEMORY


def capacity_of(entry: SimDevices) -> dict[str, DeviceCapacity]:
    """The same for a ResourceSlice; what is shared with how claims may take of it."""
    return {
        name: DeviceCapacity(value=amount, request_policy=_policy(entry.shared.get(name)))
        for name, amount in amounts_of(entry).items()
    }


def shares_of(entry: SimDevices) -> int | None:
    """How many use one at once. Without a number in the config as many as there are smallest parts of what is shared."""
    if entry.shares is not None or not entry.shared:
        return entry.shares
    amounts, counts = amounts_of(entry), []
    for name, policy in entry.shared.items():
        least = policy.min or policy.step or policy.default
        if name in amounts and least is not None and least.value() > 0:
            counts.append(amounts[name].value() // least.value())
    return max(1, min([SHARES, *counts]))


def _policy(policy: SimPolicy | None) -> CapacityRequestPolicy | None:
    if policy is None:
        return None
    low = policy.step if policy.min is None else policy.min
    if low is None and policy.max is None:
        return CapacityRequestPolicy(default=policy.default)
    limits = CapacityRequestPolicyRange(min=low, max=policy.max, step=policy.step)
    return CapacityRequestPolicy(default=policy.default, valid_range=limits)
