"""The machine that `dray bench agent` serves: KubeVirt's permanent devices, PCI functions on VFIO, USB devices."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dray.drivers.naming import KUBEVIRT_PREFIX
from dray.testing.host import Host

GPU = "example.com/gpu"
STICK = "example.com/stick"
_SHARED = {"kvm": ("/dev/kvm", 232), "tun": ("/dev/net/tun", 200), "vhost-net": ("/dev/vhost-net", 238)}
_MISC = 10


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured. `shares` are the ids of each of the three generic devices."""

    shares: int = 1000
    pci: int = 64
    usb: int = 16
    idle_seconds: float = 60.0
    unplugs: int = 240
    pause: tuple[float, float] = (0.05, 0.15)
    calls: int = 3000
    rounds: int = 4
    pods: int = 50
    seed: int = 4

    @property
    def devices(self) -> int:
        """All ids."""
        return len(_SHARED) * self.shares + self.pci + self.usb


@dataclass(frozen=True, slots=True)
class PluggedNode:
    """One device node, and how many ids of its resource are not healthy without it."""

    kind: str
    resource: str
    path: Path
    ids: int

    def unplug(self) -> None:
        """The node alone goes: what a plugin learns first."""
        self.path.unlink()

    def replug(self) -> None:
        """The same name again."""
        self.path.touch(0o600)


@dataclass(frozen=True, slots=True)
class BenchMachine:
    """A tree for `--host-root`, and the nodes in it."""

    root: Path
    nodes: tuple[PluggedNode, ...]

    @property
    def resources(self) -> frozenset[str]:
        """The names served."""
        return frozenset(node.resource for node in self.nodes)

    def count(self, resource: str) -> int:
        """The ids of one of them."""
        return sum(node.ids for node in self.nodes if node.resource == resource)

    def copy_nodes(self, root: Path) -> BenchMachine:
        """A second machine that has the device nodes alone, for a plugin that looks at nothing else."""
        shutil.copytree(self.root / "dev", root / "dev", symlinks=True)
        moved = (
            PluggedNode(node.kind, node.resource, root / node.path.relative_to(self.root), node.ids)
            for node in self.nodes
        )
        return BenchMachine(root, tuple(moved))


def build(root: Path, sizes: Sizes) -> BenchMachine:
    """All of it; equal sizes give equal machines."""
    host = Host(root)
    nodes = []
    for name, (path, minor) in _SHARED.items():
        host.char_device(path, _MISC, minor)
        nodes.append(
            PluggedNode("generic", KUBEVIRT_PREFIX + name, root / path.removeprefix("/"), sizes.shares)
        )
    for number in range(1, sizes.pci + 1):
        facts = {"vendor": "10de", "device": "2330", "driver": "vfio-pci"}
        host.pci(f"0000:{number:02x}:00.0", iommu_group=number, numa_node=number % 2, **facts)  # type: ignore[arg-type]
        nodes.append(PluggedNode("pci", GPU, root / f"dev/vfio/{number}", 1))
    for number in range(1, sizes.usb + 1):
        host.usb(f"1-{number}", vendor="46f4", product="0001", dev=number + 1)
        nodes.append(PluggedNode("usb", STICK, root / f"dev/bus/usb/001/{number + 1:03}", 1))
    return BenchMachine(root, tuple(nodes))


def write_agent_config(path: Path, sizes: Sizes) -> None:
    """What `dray agent --config` reads to serve that machine."""
    config: Mapping[str, Any] = {
        "virtualMachineInstancesPerNode": sizes.shares,
        "developerConfiguration": {"disabledFeatureGates": ["WorkloadEncryptionSEV"]},
        "permittedHostDevices": {
            "pciHostDevices": [{"pciVendorSelector": "10DE:2330", "resourceName": GPU}],
            "usb": [{"resourceName": STICK, "selectors": [{"vendor": "46f4", "product": "0001"}]}],
        },
    }
    path.write_text(json.dumps(config))


def write_peer_spec(path: Path, machine: BenchMachine, directory: Path) -> None:
    """What `agent-peer serve` reads to serve the same ids."""
    resources: dict[str, list[dict[str, str]]] = {}
    for node in machine.nodes:
        devices = resources.setdefault(node.resource, [])
        names = (
            [f"{node.path.name}-{share}" for share in range(node.ids)] if node.ids > 1 else [node.path.name]
        )
        devices += [{"id": name, "path": str(node.path)} for name in names]
    listed = [{"name": name, "devices": devices} for name, devices in resources.items()]
    path.write_text(json.dumps({"directory": str(directory), "resources": listed}))
