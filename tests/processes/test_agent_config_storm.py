"""The configuration changes at random, good and bad, while pods come and go: nothing is lost, nothing is given twice."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dray.errors import Error
from dray.processes.agent import run_agent
from dray.runtime.tasks import running
from dray.testing.host import MdevType
from dray.wire.podresources import SOCKET
from tests.campaign import campaign, seeded
from tests.processes.conftest import Node
from tests.processes.faults import FastClock, make_node

KVM = "devices.kubevirt.io/kvm"
PERMANENT = {f"devices.kubevirt.io/{name}" for name in ("kvm", "tun", "vhost-net", "sev")}
SPEED = 8.0
SHARED = {"/dev/vfio/vfio", "/dev/kvm", "/dev/net/tun", "/dev/null"}
BAD = (
    "dray: {rolle: replace}\n",
    "permittedHostDevices: [\n",
    "\x00\x01\x02",
    "virtualMachineInstancesPerNode: many\n",
    "permittedHostDevices: {pciHostDevices: [{pciVendorSelector: x, resourceName: y}]}\n",
    "dray: {generic: [{name: a, path: /dev/a}, {name: a, path: /dev/b}]}\n",
)


@dataclass(frozen=True)
class Choice:
    """Parts of a configuration of which one, or none, is in force at a time; each with the resources it brings."""

    section: str
    variants: tuple[tuple[str, tuple[str, ...]], ...]


CHOICES = (
    Choice(
        "pci",
        (
            ('{pciVendorSelector: "10DE:2330", resourceName: nvidia.com/GPU}', ("nvidia.com/GPU",)),
            ('{pciVendorSelector: "10DE:2330", resourceName: x.io/renamed}', ("x.io/renamed",)),
        ),
    ),
    Choice("pci", (('{pciVendorSelector: "8086:10d3", resourceName: intel.com/nic}', ("intel.com/nic",)),)),
    Choice("select", (('{pciAddress: "0000:0c:00.0", resourceName: x.io/one}', ("x.io/one",)),)),
    Choice("mdev", (('{mdevNameSelector: "GRID T4-1Q", resourceName: x.io/small}', ("x.io/small",)),)),
    Choice(
        "usb",
        (
            ('{resourceName: x.io/stick, selectors: [{vendor: "46f4", product: "0001"}]}', ("x.io/stick",)),
            (
                '{resourceName: x.io/sticks, selectors: [{vendor: "46f4"}, {vendor: "46f4"}]}'.replace(
                    '"46f4"', '"46f4", product: "0001"'
                ),
                ("x.io/sticks",),
            ),
        ),
    ),
    Choice("generic", (('{name: disk, glob: "/dev/nvme*n1"}', ("dray.internal/disk",)),)),
    Choice("sim", (("{name: gpu, count: 3, resourceName: x.io/sim}", ("x.io/sim",)),)),
)


def written(chosen: dict[Choice, int], number: int) -> tuple[str, set[str]]:
    """A configuration, and the resources that it brings."""
    parts: dict[str, list[str]] = {}
    resources = set(PERMANENT)
    for choice, index in chosen.items():
        text, names = choice.variants[index]
        parts.setdefault(choice.section, []).append(text)
        resources |= set(names)

    def section(name: str) -> str:
        return ", ".join(parts.get(name, []))

    return (
        f"virtualMachineInstancesPerNode: {number}\n"
        f"permittedHostDevices: {{pciHostDevices: [{section('pci')}], mediatedDevices: [{section('mdev')}], "
        f"usb: [{section('usb')}]}}\n"
        f"mediatedDevicesConfiguration: {{mediatedDeviceTypes: [{'nvidia-300' if section('mdev') else ''}]}}\n"
        f"dray: {{generic: [{section('generic')}], select: [{section('select')}], "
        f"sim: {{devices: [{section('sim')}]}}}}\n"
    ), resources


@dataclass
class Pods:
    """What containers hold, as the kubelet would know and as the machine would feel it."""

    node: Node
    random: random.Random
    live: dict[str, tuple[str, tuple[str, ...], frozenset[str]]] = field(default_factory=dict)
    starting: set[tuple[str, str]] = field(default_factory=set)
    given: int = 0
    refused: int = 0
    _count: int = 0

    async def run(self) -> None:
        while True:
            if self.live and self.random.random() < 0.25 + 0.05 * len(self.live):
                self.end(self.random.choice(sorted(self.live)))
            else:
                await self._start_one()
            await asyncio.sleep(self.random.choice((0, 0.005, 0.02)))

    def end(self, name: str) -> None:
        del self.live[name]
        del self.node.kubelet.pods[name]

    def free(self, resource: str) -> list[str]:
        taken = {(held, one) for held, ids, _ in self.live.values() for one in ids} | self.starting
        return [one for one in self.node.kubelet.healthy.get(resource, []) if (resource, one) not in taken]

    async def _start_one(self) -> None:
        resources = sorted(self.node.kubelet.healthy)
        resource = self.random.choice(resources) if resources else KVM
        free = self.free(resource)
        if free:
            await self.start(
                resource, *self.random.sample(free, min(len(free), self.random.choice((1, 1, 2))))
            )

    async def start(self, resource: str, *ids: str) -> None:
        """As a kubelet does: it asks, and remembers what it was answered."""
        reserved = {(resource, one) for one in ids}
        self.starting |= reserved
        try:
            answer = await self.node.kubelet.allocate(resource, *ids)
        except Error:
            self.refused += 1
            return
        finally:
            self.starting -= reserved
        nodes = (
            frozenset(device.host_path for device in answer.devices if "sim" not in device.host_path) - SHARED
        )
        for name, (held, held_ids, held_nodes) in self.live.items():
            assert not nodes & held_nodes, (
                f"{resource} {ids} was given {sorted(nodes & held_nodes)}, which {name} has as {held} {held_ids}"
            )
        self._count += 1
        self.given += 1
        self.live[f"pod-{self._count}"] = (resource, ids, nodes)
        self.node.kubelet.pods[f"pod-{self._count}"] = {resource: ids}


def _mdevs(node: Node) -> set[str]:
    """The IOMMU groups of the mediated devices that are there."""
    places = (node.machine.host.root / "sys/bus/mdev/devices").iterdir()
    return {(place / "iommu_group").readlink().name for place in places}


def _check_mdevs(node: Node, pods: Pods) -> None:
    held = {one for resource, ids, _ in pods.live.values() if resource == "x.io/small" for one in ids}
    assert held <= _mdevs(node), f"mediated devices {held - _mdevs(node)} were removed under a container"


@asynccontextmanager
async def agent(node: Node) -> AsyncIterator[None]:
    async with node.kubelet.running(), running(run_agent(node.options, FastClock(SPEED)), name="agent"):
        yield


async def test_random_edits_while_pods_allocate(tmp_path: Path) -> None:
    node, _ = make_node(tmp_path)
    kubelet, host, chance = node.kubelet, node.machine.host, seeded(61)
    card = host.pci("0000:07:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=4)
    host.mdev_parent(card, {"nvidia-300": MdevType(3, "GRID T4-1Q")})
    pods = Pods(node, seeded(62))
    text, before = written({}, 2)
    node.configure(text)
    with host.active():
        async with agent(node):
            await node.wait(lambda: set(kubelet.lists) == PERMANENT, "the permanent ones")
            async with running(pods.run(), name="pods"):
                for edit in range(campaign(8, 1000)):
                    if chance.random() < 0.3:
                        node.configure(chance.choice(BAD))
                        await asyncio.sleep(1.5 / SPEED)
                    chosen = {
                        one: chance.randrange(len(one.variants)) for one in CHOICES if chance.random() < 0.7
                    }
                    text, wanted = written(chosen, 3 + edit % 40)
                    kubelet.registered.clear()
                    node.configure(text)
                    await _wait_in_force(node, 3 + edit % 40, wanted)
                    assert set(kubelet.registered) <= wanted - before, (kubelet.registered, wanted - before)
                    assert len(set(kubelet.registered)) == len(kubelet.registered)
                    _check_mdevs(node, pods)
                    before = wanted
            await _all_can_be_had(node, pods)
    print(f"{pods.given} given, {pods.refused} refused")


async def _wait_in_force(node: Node, number: int, wanted: set[str]) -> None:
    lists = node.kubelet.lists

    def is_so() -> bool:
        return len(lists[KVM]) == number and {name for name, found in lists.items() if found} == wanted

    await node.wait(is_so, f"{number} shares and just {sorted(wanted)}", 20)


async def _all_can_be_had(node: Node, pods: Pods) -> None:
    for name in list(pods.live):
        pods.end(name)
    text, _ = written(dict.fromkeys(CHOICES, 0), 2)
    node.configure(text)
    sizes = {
        "nvidia.com/GPU": 1,
        "x.io/one": 1,
        "intel.com/nic": 1,
        "x.io/stick": 2,
        "x.io/small": 5,
        "x.io/sim": 3,
    }
    sizes |= {"dray.internal/disk": 2}

    def is_all() -> bool:
        return all(len(node.kubelet.healthy.get(name, [])) == size for name, size in sizes.items())

    await node.wait(is_all, f"all of {sizes}", 60)
    for resource in sorted(sizes):
        if resource == "x.io/stick" and os.geteuid() != 0:
            continue  # only root can give its node to another user
        for one in list(pods.free(resource)):
            before = pods.given
            await pods.start(resource, one)
            assert pods.given == before + 1, f"{resource} {one} cannot be had"


async def test_what_a_container_holds_is_not_offered_under_another_name(tmp_path: Path) -> None:
    node, _ = make_node(tmp_path)
    gpus = CHOICES[0]
    node.configure(written({gpus: 0}, 2)[0])
    async with agent(node):
        await node.wait_list("nvidia.com/GPU", {"5": "Healthy", "12": "Healthy"})
        await node.kubelet.allocate("nvidia.com/GPU", "5")
        node.kubelet.pods["vm"] = {"nvidia.com/GPU": ["5"]}
        node.configure(written({}, 2)[0])  # no name in between
        await node.wait_list("nvidia.com/GPU", {})
        node.configure(written({gpus: 1}, 2)[0])
        await node.wait_list("x.io/renamed", {"5": "Unhealthy", "12": "Healthy"})
    async with agent(node):  # it is remembered
        await node.wait_list("x.io/renamed", {"5": "Unhealthy", "12": "Healthy"})
        del node.kubelet.pods["vm"]
        await node.wait_list("x.io/renamed", {"5": "Healthy", "12": "Healthy"})


async def test_a_mediated_device_that_a_container_holds_outlives_its_name(tmp_path: Path) -> None:
    node, _ = make_node(tmp_path)
    host, kubelet, small = node.machine.host, node.kubelet, CHOICES[3]
    card = host.pci("0000:07:00.0", vendor="10de", device="1eb8", driver="nvidia", iommu_group=4)
    parent = host.mdev_parent(card, {"nvidia-300": MdevType(2, "GRID T4-1Q")})
    socket = kubelet.directory.parent / SOCKET
    node.configure(written({small: 0}, 2)[0])
    with host.active():
        async with agent(node):
            await node.wait(lambda: len(kubelet.lists.get("x.io/small", [])) == 4, "two made, two of another")
            held = min(_mdevs(node) - {"71", "72"})
            kubelet.pods["vm"] = {"x.io/small": [held]}
            node.configure(written({}, 2)[0])  # neither the name nor the type
            await node.wait(lambda: parent.available("nvidia-300") == 1, "the free one to go")
            socket.rename(
                socket.with_name("away")
            )  # a kubelet that does not say has not said that nobody holds it
            del kubelet.pods["vm"]
            for number in (3, 4):  # it looks at the mediated devices with each
                node.configure(written({}, number)[0])
                await node.wait(lambda: len(kubelet.lists[KVM]) == number, "the edit")  # noqa: B023
            assert held in _mdevs(node)
            socket.with_name("away").rename(socket)
            await node.wait(lambda: parent.available("nvidia-300") == 2, "the other one to go", 30)
