"""Random days of a node with two doors: pods and claims come and go, the agent is killed, everybody's news is late.

The kubelet and the scheduler of this world keep their own rules and know nothing of the other's: no device of theirs twice.
That no piece of hardware has two owners is the ledger's doing alone.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dray.dra.parcels import ClaimRef
from dray.drivers.contract import Device, Health
from dray.errors import ConflictError, HardwareError, UnavailableError
from dray.inventory.door_feeds import DoorFeeds
from dray.inventory.doors import Offered
from dray.inventory.handouts import UNTOLD
from dray.inventory.holds import Holds
from dray.inventory.inventory import InventoryFeed
from dray.inventory.ledger import ClaimDevices, Door, KubeletLook
from dray.runtime.clock import FakeClock
from dray.runtime.tasks import running
from tests.campaign import seeds
from tests.inventory.conftest import gpu
from tests.waiting import PATIENCE

DEVICES = tuple(gpu(number, kind) for number in range(3) for kind in ("gpu", "vfio"))
KINDS = ("gpu", "vfio")


@dataclass
class Pod:
    """With a device of a plugin. The kubelet lists it from `listed` on; never, where an init container has it."""

    device: Device
    listed: float


@dataclass
class World:
    """What is true, whoever knows it. `prepared` is what drivers have on disk."""

    rng: random.Random
    path: Path
    clock: FakeClock = field(default_factory=FakeClock)
    pods: dict[str, Pod] = field(default_factory=dict)
    claims: dict[str, Device] = field(default_factory=dict)
    prepared: dict[str, Device] = field(default_factory=dict)
    doors: dict[str, Offered] = field(default_factory=lambda: dict.fromkeys(KINDS, Offered.BOTH))
    feed: InventoryFeed = field(default_factory=InventoryFeed)
    refused: int = 0
    count: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def advance(self, seconds: float) -> None:
        async with self.turn:  # a clock that two move at once would go back
            await self.clock.advance(seconds)

    def owners(self, part: str) -> list[str]:
        pods = [
            f"{pod.device.kind} pod {name}" for name, pod in self.pods.items() if part in pod.device.parts
        ]
        return pods + [f"{one.kind} claim {name}" for name, one in self.prepared.items() if part in one.parts]

    def check(self) -> None:
        for part in {part for device in DEVICES for part in device.parts}:
            assert len(self.owners(part)) <= 1, f"{part}: {self.owners(part)}"

    def name(self) -> str:
        self.count += 1
        return f"n{self.count}"

    def look(self) -> KubeletLook:
        now = self.clock.monotonic()
        listed = {
            (pod.device.resource, pod.device.id): (f"default/{name}",)
            for name, pod in self.pods.items()
            if pod.listed <= now
        }
        noted = frozenset((pod.device.resource, pod.device.id) for pod in self.pods.values())
        return KubeletLook(now, listed, noted)

    def allocated(self) -> list[ClaimDevices]:
        return [ClaimDevices("default", name, name, (device,)) for name, device in self.claims.items()]


@dataclass
class Agent:
    """One life of it: what it knows is late by what `news` still holds."""

    world: World
    holds: Holds
    feeds: DoorFeeds
    since: float
    look: KubeletLook | None = None
    claims: list[ClaimDevices] | None = None

    async def patiently(self, call: Coroutine[None, None, None]) -> bool:
        """Make a call that may wait for the kubelet; whether it was granted."""
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_granted(call))
            while not task.done():
                await asyncio.wait({task}, timeout=0.005)
                if not task.done():
                    await self.world.advance(1.0)
                    await self.world.rng.choice([self.ask, self.hear_kubelet])()
        self.world.refused += not task.result()
        return task.result()

    async def allocate(self) -> None:
        world = self.world
        used = {pod.device.id for pod in world.pods.values()}
        free = [one for one in DEVICES if one.id not in used and world.doors[one.kind] is not Offered.DRA]
        if not free:
            return
        device = world.rng.choice(free)
        seen = {one.id: one.health for one in self.feeds.plugin.current.devices}
        if world.rng.random() < 0.7 and seen.get(device.id) is not Health.HEALTHY:
            return  # mostly the kubelet has our last list
        await self.patiently(self.give(device))

    async def give(self, device: Device) -> None:
        """The host may take its time, or refuse. The pod is there from the answer on."""
        world = self.world
        async with self.holds.giving(device.resource, [device]):
            for _ in range(world.rng.choice([0, 0, 0, 3])):
                await self.wait()
                await self.ask()
                await self.hear_kubelet()
            if world.rng.random() < 0.1:
                raise HardwareError("the bus is stuck")
        if world.rng.random() < 0.9:  # else the pod is not admitted for another reason
            is_init = world.rng.random() < 0.2
            delay = float("inf") if is_init else world.rng.uniform(0, UNTOLD - 0.1)
            world.pods[world.name()] = Pod(device, world.clock.monotonic() + delay)

    async def end_pod(self) -> None:
        if self.world.pods:
            del self.world.pods[self.world.rng.choice(sorted(self.world.pods))]

    async def allocate_claim(self) -> None:
        world = self.world
        used = {one.id for one in (*world.claims.values(), *world.prepared.values())}
        free = [one for one in DEVICES if one.id not in used and world.doors[one.kind] is not Offered.PLUGIN]
        if free:
            device = world.rng.choice(free)
            tainted = {one.id for one in self.feeds.dra.current.devices if one.taints}
            if device.id not in tainted or world.rng.random() < 0.3:
                world.claims[world.name()] = device

    async def end_claim(self) -> None:
        """Deallocated; with force, it may still be prepared."""
        if self.world.claims:
            del self.world.claims[self.world.rng.choice(sorted(self.world.claims))]

    async def prepare(self, dies: bool = False) -> None:
        world = self.world
        waiting = sorted(world.claims.keys() - world.prepared.keys())
        if waiting:
            name = world.rng.choice(waiting)
            device = world.claims[name]
            taking = self.holds.claim_door(device.kind).take(ClaimRef("default", name, name), [device])
            if await self.patiently(taking) and not dies:
                world.prepared[name] = device

    async def unprepare(self, dies: bool = False) -> None:
        world = self.world
        if world.prepared:
            name = world.rng.choice(sorted(world.prepared))
            device = world.prepared.pop(name)
            if not dies:
                await self.holds.claim_door(device.kind).give_back(ClaimRef("default", name, name))

    async def ask(self) -> None:
        self.look = self.world.look()

    async def hear_kubelet(self) -> None:
        if self.look is not None:
            self.holds.looked(self.look, DEVICES)

    async def watch(self) -> None:
        self.claims = self.world.allocated()

    async def hear_claims(self) -> None:
        if self.claims is not None:
            self.holds.allocated(self.claims)

    async def wait(self) -> None:
        await self.world.advance(self.world.rng.choice([0.1, 1.0, 5.0, 12.0]))

    async def configure(self) -> None:
        """Not in the first moments: what only one door gave right before a kill may not be on disk."""
        if self.world.clock.monotonic() - self.since < UNTOLD:
            return
        doors = self.world.doors
        doors[self.world.rng.choice(KINDS)] = self.world.rng.choice(tuple(Offered))
        self.feeds.want(lambda kind, resource: doors[kind], "{}.x.io".format)


async def _granted(call: Coroutine[None, None, None]) -> bool:
    try:
        await call
    except (ConflictError, HardwareError, UnavailableError):
        return False
    return True


STEPS = {
    Agent.allocate: 6,
    Agent.end_pod: 3,
    Agent.allocate_claim: 5,
    Agent.end_claim: 2,
    Agent.prepare: 6,
    Agent.unprepare: 3,
    Agent.ask: 4,
    Agent.hear_kubelet: 5,
    Agent.watch: 3,
    Agent.hear_claims: 3,
    Agent.wait: 5,
    Agent.configure: 1,
}


@contextmanager
def started(world: World) -> Iterator[Agent]:
    """Left without a word: what was not on disk is lost."""
    with Holds(world.path, world.clock) as holds:
        doors = world.doors
        feeds = DoorFeeds(world.feed, holds, lambda kind, resource: doors[kind], "{}.x.io".format)
        for name, device in world.prepared.items():
            holds.claim_door(device.kind).restore(ClaimRef("default", name, name), [device])
        for hold in holds.current.holds:
            if hold.door is Door.DRA and hold.confirmed and hold.uid not in world.prepared:
                holds.give_back_claim(hold.kind, ClaimRef("default", hold.uid, hold.uid))
        yield Agent(world, holds, feeds, world.clock.monotonic())


async def live(agent: Agent, steps: int) -> None:
    async with running(agent.feeds.run(), name="feeds"), running(agent.holds.run(), name="writer"):
        for _ in range(steps):
            (step,) = agent.world.rng.choices(list(STEPS), list(STEPS.values()))
            await step(agent)
            agent.world.check()
        if agent.world.rng.random() < 0.5:  # the kill comes in the middle of a call
            await agent.world.rng.choice([agent.prepare, agent.unprepare])(dies=True)


async def wind_down(agent: Agent) -> None:
    """All pods and claims end, and everybody hears of it."""
    world = agent.world
    async with running(agent.holds.run(), name="writer"):
        world.pods.clear()
        world.claims.clear()
        while world.prepared:
            await agent.unprepare()
        agent.holds.allocated(world.allocated())
        for _ in range(2):
            await world.clock.advance(UNTOLD)
            agent.holds.looked(world.look(), DEVICES)
        assert agent.holds.current.holds == ()
        async with asyncio.timeout(PATIENCE):  # the writer writes in a thread
            while world.path.exists() and b"pci:" in world.path.read_bytes():
                await world.clock.advance(0.5)
                await asyncio.sleep(0.005)


@pytest.mark.parametrize("seed", seeds(10, 600))
async def test_no_hardware_ever_has_two_owners_and_nothing_leaks(tmp_path: Path, seed: int) -> None:
    world = World(random.Random(seed), tmp_path / "holds")
    world.feed.publish(DEVICES)
    for _ in range(world.rng.randrange(1, 6)):
        if world.rng.random() < 0.1 and world.path.exists():
            world.path.write_bytes(b"lost")
        with started(world) as agent:
            await live(agent, world.rng.randrange(20, 80))
    with started(world) as agent:
        await wind_down(agent)


async def test_the_world_is_one_in_which_doors_collide(tmp_path: Path) -> None:
    refused = 0
    for seed in range(3):
        world = World(random.Random(seed), tmp_path / f"{seed}" / "holds")
        world.feed.publish(DEVICES)
        with started(world) as agent:
            await live(agent, 200)
        refused += world.refused
    assert refused > 10
