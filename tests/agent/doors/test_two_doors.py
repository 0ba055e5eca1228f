"""Plugins on real sockets, a small kubelet and claims, all on one ledger."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dray.agent.config import Served
from dray.agent.doors.holders import LookPace
from dray.agent.doors.two_doors import DoorPlaces, TwoDoors, two_doors
from dray.cdi.edits import ContainerEdits
from dray.deviceplugin.controller import PluginController
from dray.deviceplugin.directory import following
from dray.deviceplugin.plugin import Offer
from dray.dra.parcels import ClaimRef
from dray.drivers.contract import Device, Discovery, Driver, Prepared
from dray.errors import ConflictError, Error, UnavailableError
from dray.hardware.host_root import Place
from dray.inventory.doors import Offered
from dray.inventory.inventory import InventoryFeed
from dray.inventory.ledger import Door
from dray.runtime.clock import FakeClock, SystemClock
from dray.runtime.tasks import running
from tests.inventory.conftest import claim, gpu
from tests.small_kubelet import SmallKubelet
from tests.waiting import PATIENCE, wait_until

RESOURCE = "example.com/gpu"
A = ClaimRef("default", "a", "uid-a")


class GpuDriver:
    kind = "gpu"

    def discover(self, root: Place, known: Sequence[Device] = ()) -> Discovery:
        return Discovery((), (), ())

    def prepare(self, resource: str, devices: Sequence[Device]) -> Prepared:
        return Prepared(ContainerEdits((("GPUS", ",".join(device.id for device in devices)),)))


async def carry_out(prepared: Prepared) -> ContainerEdits:
    return prepared.edits


@dataclass
class Node:
    path: Path
    kubelet: SmallKubelet
    clock: FakeClock
    doors: TwoDoors
    plugins: PluginController

    def want(self, offered: Offered) -> None:
        """As an edit of the configuration."""
        drivers: dict[str, Driver] = {RESOURCE: GpuDriver()}
        self.doors.want(Served(doors={"*": offered}))
        wanted = self.doors.plugin_resources(drivers)
        self.plugins.want(Offer(resource, drivers[resource], "gpu.sock") for resource in sorted(wanted))

    def taints(self) -> list[str]:
        devices = self.doors.feeds.dra.current.devices
        return [f"{device.id} {one.key}={one.value}" for device in devices for one in device.taints]

    async def wait_listed(self, **health: str) -> None:
        wanted = [(name.replace("_", "-"), value) for name, value in health.items()]
        await wait_until(lambda: self.kubelet.lists.get(RESOURCE) == wanted)

    async def pass_time(self, condition: Callable[[], bool]) -> None:
        """Let fake time pass until it holds; the kubelet is asked over a socket, which takes real time."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await self.clock.advance(1.0)
                await asyncio.sleep(0.005)

    async def end_pods(self) -> None:
        self.kubelet.pods = {}
        await self.pass_time(lambda: self.taints() == [])


@asynccontextmanager
async def serving(path: Path, offered: Offered, kubelet: SmallKubelet) -> AsyncIterator[Node]:
    feed, clock = InventoryFeed(), FakeClock()
    feed.publish([gpu(1), gpu(2)])
    places = DoorPlaces(path / "state", kubelet.directory.parent, kubelet.directory)
    with two_doors(places, feed, clock, pace=LookPace(rest=2.0)) as doors:
        async with following(kubelet.directory) as directory:
            plugins = PluginController(
                directory, doors.feeds.plugin, carry_out, SystemClock(), giving=doors.holds.giving
            )
            node = Node(path, kubelet, clock, doors, plugins)
            node.want(offered)
            await doors.begin()
            doors.holds.allocated(())
            async with running(doors.run(), name="doors"), running(plugins.run(), name="plugins"):
                yield node


@pytest.fixture
def kubelet(tmp_path: Path) -> SmallKubelet:
    directory = tmp_path / "device-plugins"
    directory.mkdir()
    return SmallKubelet(directory)


async def test_what_a_pod_has_no_claim_gets(tmp_path: Path, kubelet: SmallKubelet) -> None:
    async with kubelet.running(), serving(tmp_path, Offered.BOTH, kubelet) as node:
        await node.wait_listed(gpu_1="Healthy", gpu_2="Healthy")
        await kubelet.allocate(RESOURCE, "gpu-1")
        await wait_until(lambda: node.taints() == ["gpu-1 gpu.dray.internal/held-by-plugin="])
        door = node.doors.holds.claim_door("gpu")
        with pytest.raises(ConflictError, match="a new pod has it"):
            await door.take(A, [gpu(1)])
        kubelet.pods = {"one": {RESOURCE: ["gpu-1"]}}
        await node.pass_time(lambda: node.taints() == ["gpu-1 gpu.dray.internal/held-by-plugin=one"])
        await node.end_pods()
        await door.take(A, [gpu(1)])
        await node.wait_listed(gpu_1="Unhealthy", gpu_2="Healthy")


async def test_what_a_claim_has_no_pod_gets(tmp_path: Path, kubelet: SmallKubelet) -> None:
    async with kubelet.running(), serving(tmp_path, Offered.BOTH, kubelet) as node:
        await node.wait_listed(gpu_1="Healthy", gpu_2="Healthy")
        node.doors.holds.allocated([claim("a", gpu(1))])
        with pytest.raises(Error, match="claim default/a has it"):  # whether or not the list is out
            await kubelet.allocate(RESOURCE, "gpu-1")
        await node.wait_listed(gpu_1="Unhealthy", gpu_2="Healthy")
        with pytest.raises(Error, match="claim default/a has it"):
            await kubelet.allocate(RESOURCE, "gpu-1")
        node.doors.holds.allocated([])
        await node.wait_listed(gpu_1="Healthy", gpu_2="Healthy")
        await kubelet.allocate(RESOURCE, "gpu-1")


async def test_a_resource_moves_to_dra_while_a_pod_runs_and_back_while_a_claim_does(
    tmp_path: Path, kubelet: SmallKubelet
) -> None:
    async with kubelet.running(), serving(tmp_path, Offered.PLUGIN, kubelet) as node:
        await node.wait_listed(gpu_1="Healthy", gpu_2="Healthy")
        assert not node.doors.dra_kinds([GpuDriver()], {RESOURCE: GpuDriver()})
        await kubelet.allocate(RESOURCE, "gpu-1")
        kubelet.pods = {"one": {RESOURCE: ["gpu-1"]}}
        node.want(Offered.DRA)
        assert node.doors.dra_kinds([GpuDriver()], {RESOURCE: GpuDriver()}) == {"gpu"}
        assert node.taints()[0].startswith("gpu-1 gpu.dray.internal/held-by-plugin=")
        await node.wait_listed()  # the plugin says goodbye
        await node.pass_time(lambda: node.taints() == ["gpu-1 gpu.dray.internal/held-by-plugin=one"])
        await node.end_pods()

        door = node.doors.holds.claim_door("gpu")
        await door.take(A, [gpu(1)])
        node.want(Offered.PLUGIN)
        assert node.doors.holds.current.kinds(Door.DRA) == {"gpu"}  # somebody must unprepare it
        await node.wait_listed(gpu_1="Unhealthy", gpu_2="Healthy")
        await door.give_back(A)
        await node.wait_listed(gpu_1="Healthy", gpu_2="Healthy")
        assert not node.doors.dra_kinds([GpuDriver()], {RESOURCE: GpuDriver()})


async def test_a_pod_from_before_is_known_before_anybody_is_served(
    tmp_path: Path, kubelet: SmallKubelet
) -> None:
    kubelet.pods = {"old": {RESOURCE: ["gpu-2"]}}
    async with kubelet.running(), serving(tmp_path, Offered.DRA, kubelet) as node:
        assert node.taints() == ["gpu-2 gpu.dray.internal/held-by-plugin=old"]


async def test_two_at_once_is_one(tmp_path: Path, kubelet: SmallKubelet) -> None:
    async with kubelet.running(), serving(tmp_path, Offered.BOTH, kubelet) as node:
        await node.wait_listed(gpu_1="Healthy", gpu_2="Healthy")
        door = node.doors.holds.claim_door("gpu")
        for number in (1, 2):
            results = await asyncio.gather(
                kubelet.allocate(RESOURCE, f"gpu-{number}"),
                door.take(A, [gpu(number)]),
                return_exceptions=True,
            )
            assert sum(isinstance(result, Error) for result in results) == 1


async def test_without_the_kubelets_socket_claims_are_served_where_there_are_no_plugins(
    tmp_path: Path, kubelet: SmallKubelet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dray")
    async with serving(tmp_path, Offered.DRA, kubelet) as node:
        await node.doors.holds.claim_door("gpu").take(A, [gpu(1)])
        for _ in range(3):
            await node.doors.looks.look()
        told = [one for one in caplog.records if "no pod-resources socket" in one.getMessage()]
        assert [one.levelname for one in told] == ["INFO"]


async def test_with_plugins_a_claim_is_told_soon_what_is_missing(
    tmp_path: Path, kubelet: SmallKubelet, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path, Offered.BOTH, kubelet) as node:
        told = [one for one in caplog.records if "no pod-resources socket" in one.getMessage()]
        assert [one.levelname for one in told] == ["WARNING"]
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(refusal(node))
            while not asking.done():
                await node.clock.advance(0.5)
        assert node.clock.monotonic() < 5
        assert str(asking.result()).endswith(
            "pod-resources/kubelet.sock' is not there: mount its directory into the agent"
        )
        async with kubelet.running():  # it was only late
            await node.doors.looks.look()
            await node.doors.holds.claim_door("gpu").take(A, [gpu(1)])


async def refusal(node: Node) -> Error:
    with pytest.raises(UnavailableError) as caught:
        await node.doors.holds.claim_door("gpu").take(A, [gpu(1)])
    return caught.value
