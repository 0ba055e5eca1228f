"""`dray agent` as a process: killed at any moment it leaves nothing but work, and it is idle when nothing happens."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dray.errors import Error
from dray.runtime.tasks import running
from dray.testing.host import MdevType
from tests.campaign import campaign, seeded
from tests.drivers.machine import UUID
from tests.processes.conftest import Node
from tests.processes.faults import AgentProcess, History, make_node, suppressed

SMALL, BIG = "x.io/small", "x.io/big"
GPUS, STICKS, KVM = "nvidia.com/GPU", "kubevirt.io/storage", "devices.kubevirt.io/kvm"
CONFIG = """
virtualMachineInstancesPerNode: {shares}
permittedHostDevices:
  pciHostDevices: [{{pciVendorSelector: "10DE:2330", resourceName: nvidia.com/GPU}}]
  mediatedDevices:
  - {{mdevNameSelector: "GRID T4-1Q", resourceName: x.io/small}}
  - {{mdevNameSelector: "GRID T4-2Q", resourceName: x.io/big}}
  usb: [{{resourceName: kubevirt.io/storage, selectors: [{{vendor: "46f4", product: "0001"}}]}}]
mediatedDevicesConfiguration: {{mediatedDeviceTypes: [{types}]}}
"""
TYPES = {"": (2, 0), "nvidia-300": (4, 0), "nvidia-301": (2, 1)}
"""What is to be made, and how many small and big ones there are then; two small ones are somebody else's."""
FOREIGN = {UUID.format(1), UUID.format(2)}


class Wreckage:
    """A node with a card to split, and an agent that is killed again and again."""

    def __init__(self, path: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.node, self.history = make_node(path)
        self.agent = AgentProcess(self.node)
        host = self.node.machine.host
        card = host.pci("0000:07:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=4)
        host.mdev_parent(
            card, {"nvidia-300": MdevType(2, "GRID T4-1Q"), "nvidia-301": MdevType(1, "GRID T4-2Q")}
        )
        self.types, self.shares = "", 1

    def edit(self, types: str | None = None) -> None:
        self.types = self.random.choice(sorted(TYPES)) if types is None else types
        self.shares = self.random.randrange(1, 9)
        self.node.configure(CONFIG.format(shares=self.shares, types=self.types))

    def is_right(self) -> bool:
        small, big = TYPES[self.types]
        found = {
            name: {one for one, health in entries if health == "Healthy"}
            for name, entries in self.history.items()
        }
        return (
            len(found.get(KVM, ())) == self.shares
            and found.get(GPUS) == {"5", "12"}
            and found.get(STICKS) == {f"{STICKS}-1-1", f"{STICKS}-1-2"}
            and len(found.get(SMALL, ())) == small
            and {"71", "72"} <= found[SMALL]
            and len(found.get(BIG, ())) == big
        )

    def mdevs(self) -> set[str]:
        return {path.name for path in (self.node.machine.host.root / "sys/bus/mdev/devices").iterdir()}

    async def wait_right(self) -> None:
        await self.node.wait(self.is_right, f"what {self.types!r} and {self.shares} shares mean", 40)

    async def live_and_die(self) -> None:
        """One life of the agent, ended at a random moment of it."""
        if self.random.random() < 0.5:
            self.edit()
        self.history.clear()
        await self.agent.start()
        if self.random.random() < 0.4:
            await asyncio.sleep(self.random.uniform(0, 1.5))  # it may not have begun
        else:
            await self.wait_right()
            if self.random.random() < 0.5:
                self.edit()
                await asyncio.sleep(self.random.uniform(0.7, 1.5))  # about when the edit is seen
        await asyncio.sleep(self.random.uniform(0, 0.05))
        assert await self.agent.kill() == -signal.SIGKILL, self.agent.log()[-3000:]
        self.node.machine.host.settle()
        assert self.mdevs() >= FOREIGN


async def _allocate(node: Node, chance: random.Random) -> None:
    """Pods that ask all the time; their agent may die under them."""
    while True:
        await asyncio.sleep(chance.uniform(0, 0.03))
        resource, name = chance.choice(((GPUS, "5"), (STICKS, f"{STICKS}-1-1"), (KVM, "kvm0")))
        if resource in node.kubelet.endpoints:
            try:
                await node.kubelet.allocate(resource, name)
            except Error:
                await asyncio.sleep(0.05)


async def test_kills_at_random_moments(tmp_path: Path) -> None:
    wreckage = Wreckage(tmp_path, seed=71)
    node, agent = wreckage.node, wreckage.agent
    wreckage.edit("nvidia-300")
    with node.machine.host.active():
        async with node.kubelet.running(), running(_allocate(node, seeded(72)), name="pods"):
            for _ in range(campaign(2, 200)):
                await wreckage.live_and_die()
            wreckage.edit("")
            wreckage.history.clear()
            async with agent.running():
                await wreckage.wait_right()
                assert await agent.kill(signal.SIGTERM) == 0
        assert wreckage.mdevs() == FOREIGN  # all of ours are gone, none of theirs
    left = sorted(path.name for path in node.options.state_dir.iterdir())
    assert set(left) <= {
        f"{name}{end}" for name in ("devices", "holds", "mdevs", "sockets") for end in ("", ".lock")
    }, left
    assert not [line for line in agent.log().splitlines() if "level=error" in line or " lost" in line]
    assert not [
        path for path in node.kubelet.directory.iterdir() if path.is_socket() and path.name != "kubelet.sock"
    ]


@asynccontextmanager
async def served(path: Path) -> AsyncIterator[tuple[Node, History, AgentProcess]]:
    wreckage = Wreckage(path, seed=81)
    wreckage.edit("nvidia-300")
    with wreckage.node.machine.host.active():
        async with wreckage.node.kubelet.running(), wreckage.agent.running():
            await wreckage.wait_right()
            yield wreckage.node, wreckage.history, wreckage.agent


async def test_idle_when_nothing_happens_and_nothing_leaks(tmp_path: Path) -> None:
    async with served(tmp_path) as (node, history, agent):
        disk = node.machine.host.root / "dev/vfio/77"
        tun = node.machine.host.root / "dev/net/tun"
        before = await _at_rest(agent)
        node.config.unlink()
        os.mkfifo(node.config)  # a bad edit like any other: nobody waits for a writer
        for _ in range(campaign(30, 100)):
            disk.touch()
            tun.unlink()
            await asyncio.sleep(0.003)
            with suppressed():
                await node.kubelet.allocate(KVM, "kvm0")
            disk.unlink()
            tun.touch()
            await asyncio.sleep(0.003)
        await node.wait(
            lambda: {health for _, health in history["devices.kubevirt.io/tun"]} == {"Healthy"}, "tun"
        )
        await node.wait(
            lambda: agent.threads() == 1 and agent.descriptors() == before,
            f"what is open to be {before} again",
        )
        await _at_rest(agent)
        wakeups, looks, awake = agent.wakeups(), campaign(100, 500), 0
        for _ in range(looks):
            await asyncio.sleep(0.02)
            awake += not agent.is_asleep()
        wakeups = agent.wakeups() - wakeups
        print(f"awake at {awake} of {looks} looks, woke up {wakeups} times; {len(before)} descriptors")
        assert awake <= looks // 10
        assert wakeups <= looks
        await node.kubelet.allocate(KVM, "kvm0")


async def _at_rest(agent: AgentProcess) -> list[str]:
    """What it has open once that was the same for a while, with no look under way: then it has one thread."""
    found, since = agent.descriptors(), time.monotonic()
    async with asyncio.timeout(60):
        while time.monotonic() - since < 0.7:
            await asyncio.sleep(0.05)
            if agent.threads() > 1 or agent.descriptors() != found:
                found, since = agent.descriptors(), time.monotonic()
    return found
