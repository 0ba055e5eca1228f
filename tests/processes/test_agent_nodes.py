"""The agent while device nodes come, go, and are renamed or replaced at random."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.campaign import campaign
from tests.processes.conftest import Node
from tests.processes.faults import History, common_rights, make_node
from tests.processes.random_tree import Tree

CONFIG = """
permittedHostDevices:
  pciHostDevices:
  - {pciVendorSelector: "10DE:2330", resourceName: nvidia.com/GPU}
  - {pciVendorSelector: "8086:10d3", resourceName: intel.com/nic}
  mediatedDevices:
  - {mdevNameSelector: "GRID T4-1Q", resourceName: nvidia.com/GRID_T4-1Q}
  usb:
  - resourceName: kubevirt.io/storage
    selectors: [{vendor: "46f4", product: "0001"}]
  - resourceName: kubevirt.io/pair
    selectors: [{vendor: "1050", product: "0407"}, {vendor: "0951", product: "1666"}]
mediatedDevicesConfiguration: {enabled: false}
virtualMachineInstancesPerNode: 1
persistentReservationConfiguration: {enabled: true}
developerConfiguration: {featureGates: [WorkloadEncryptionTDX, IOMMUFD]}
dray:
  generic:
  - {name: disk, glob: "/dev/nvme*n1"}
  - {name: deep, glob: "/dev/cards/*/c*"}
  - {name: twin, path: /dev/twin}
  sim:
    devices: [{name: gpu, shape: gpu, count: 2, resourceName: x.io/sim}]
"""
UNTOUCHED = ("devices.kubevirt.io/kvm", "devices.kubevirt.io/tdx", "x.io/sim")
PATIENCE = 60.0
"""Seconds. Without an event a look is made only every five minutes."""


async def _equal(history: History, tree: Tree, *, goes_on: bool = False) -> float:
    """Seconds until the kubelet has what is there. `goes_on`: events come without a pause, so there is never peace."""
    began = time.monotonic()
    while True:
        right = tree.wanted()
        found = {resource: dict(history.get(resource, [])) for resource in right}
        if found == right:
            return time.monotonic() - began
        if time.monotonic() - began > PATIENCE:
            differs = {key: (found[key], right[key]) for key in right if found[key] != right[key]}
            pytest.fail(f"the kubelet has, and should have: {differs}")
        await asyncio.sleep(0.001 if goes_on else 0.02)
        if goes_on or tree.modes:  # the kernel's watch does not tell of modes
            tree.nudge()


async def _storm(node: Node, history: History, tree: Tree, events: int, waves: int) -> None:
    waits = []
    async with node.serving(CONFIG) as kubelet:
        await _equal(history, tree)
        await node.wait(lambda: all(history.get(resource) for resource in UNTOUCHED), "the untouched ones")
        registered = sorted(kubelet.registered)
        told = {name: list(history.messages[name]) for name in UNTOUCHED}
        for wave in range(waves):
            for _ in range(events // waves):
                tree.change()
                await asyncio.sleep(tree.random.choice((0, 0, 0, 0.001, 0.01)))
            waits.append(await _equal(history, tree, goes_on=wave % 2 == 0))
        tree.mend()
        waits.append(await _equal(history, tree))
        assert sorted(kubelet.registered) == registered
        assert {name: history.messages[name] for name in UNTOUCHED} == told
    assert tree.outside.read_text() == "outside"
    print(f"right after {max(waits):.3f} s at most")


async def test_random_events_on_nodes_end_in_the_right_state(tmp_path: Path) -> None:
    node, history = make_node(tmp_path)
    tree = Tree(node, seed=4)
    tree.mend()
    await _storm(node, history, tree, campaign(160, 10_000), campaign(2, 50))


async def test_directories_that_may_not_be_read_hide_only_what_is_in_them(tmp_path: Path) -> None:
    node, history = make_node(tmp_path)
    tree = Tree(node, seed=5, modes=True)
    tree.mend()
    with common_rights():
        await _storm(node, history, tree, campaign(50, 3000), campaign(1, 30))
