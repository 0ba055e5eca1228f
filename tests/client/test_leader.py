from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from dray.client.access import ClusterAccess
from dray.client.leader import LeaderConfig, LeaderElection, LeadershipLostError, own_identity
from dray.client.lease import LeaseTimes
from dray.runtime.clock import FakeClock
from tests.campaign import seeds
from tests.client.lease_api import Candidate, LeaseApi, serving_lease
from tests.waiting import wait_until


@dataclass
class Machine:
    """A clock of its own for each candidate: same speed, other time, and its wall clock jumps."""

    shared: FakeClock
    offset: float
    jump: timedelta = timedelta()

    def now(self) -> datetime:
        return self.shared.now() + self.jump

    def monotonic(self) -> float:
        return self.shared.monotonic() + self.offset

    async def sleep(self, seconds: float) -> None:
        await self.shared.sleep(seconds)


@dataclass
class Part:
    """A process that wants to lead, again and again."""

    name: str
    client: Candidate
    clock: Machine
    rng: random.Random
    election: LeaderElection | None = None
    is_inside: bool = False
    led: int = 0
    lost: list[str] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        while True:
            config = LeaderConfig("ns", "lock", self.name)
            self.election = LeaderElection(self.client, config, clock=self.clock, rng=self.rng)
            try:
                async with self.election:
                    self.is_inside = True
                    self.led += 1
                    try:
                        await asyncio.Event().wait()
                    finally:
                        self.is_inside = False
            except LeadershipLostError as error:
                self.lost.append(str(error))

    @property
    def is_leading(self) -> bool:
        return self.election is not None and self.election.is_leading

    def start(self) -> None:
        self.task = asyncio.create_task(self.run())

    async def stop(self) -> None:
        """As on SIGTERM: the tree is unwound, the lease given back."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait({self.task})
            self.task = None


@dataclass
class Race:
    """Several parts, one server, and the rule that at no instant two of them lead."""

    api: LeaseApi
    clock: FakeClock
    parts: list[Part]

    async def settle(self) -> None:
        """Let all requests be answered; with a server that hangs there is nothing to wait for."""
        for _ in range(3):
            await asyncio.sleep(0)
        if self.api.mode != "hang":
            await wait_until(lambda: not any(part.client.busy for part in self.parts))
        self.check()

    async def advance(self, seconds: float, step: float = 0.5) -> None:
        for _ in range(round(seconds / step)):
            await self.settle()
            await self.clock.advance(step)
            self.check()
        await self.settle()

    def check(self) -> None:
        assert sum(part.is_leading for part in self.parts) <= 1
        assert sum(part.is_inside for part in self.parts) <= 1

    def leader(self) -> Part | None:
        found = [part for part in self.parts if part.is_inside]
        return found[0] if found else None

    async def until(self, condition: Callable[[], object], limit: float = 60.0) -> float:
        """How long it took, by the clock."""
        start = self.clock.monotonic()
        while not condition():
            assert self.clock.monotonic() - start < limit, "too long"
            await self.advance(0.5)
        return self.clock.monotonic() - start


@asynccontextmanager
async def racing(count: int = 2, seed: int = 1) -> AsyncIterator[Race]:
    clock = FakeClock()
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(serving_lease())
        parts = []
        for number in range(count):
            client = Candidate(ClusterAccess(api.url))
            await stack.enter_async_context(client)
            machine = Machine(clock, offset=1000.0 * number)
            parts.append(Part(f"part-{number}", client, machine, random.Random(seed * 100 + number)))
        race = Race(api, clock, parts)
        try:
            yield race
        finally:
            api.become("up")
            for part in parts:
                await part.stop()


def part_of(race: Race) -> Part:
    found = race.leader()
    assert found is not None
    return found


async def test_first_one_leads_renews_and_gives_back() -> None:
    async with racing() as race:
        one, two = race.parts
        one.start()
        await race.until(lambda: one.is_inside)
        two.start()
        await race.advance(60)
        assert (one.is_leading, two.is_leading, two.led) == (True, False, 0)
        assert two.election is not None
        assert two.election.leader == "part-0"
        assert race.api.spec["leaseDurationSeconds"] == 15
        assert race.api.spec["renewTime"] > race.api.spec["acquireTime"]
        await one.stop()
        assert "holderIdentity" not in race.api.spec
        assert await race.until(lambda: two.is_inside) <= 5
        assert race.api.holders == ["part-0", "", "part-1"]
        assert race.api.spec["leaseTransitions"] == 1


async def test_killed_leader_is_followed_after_the_lease_ran_out() -> None:
    async with racing() as race:
        one, two = race.parts
        one.start()
        await race.until(lambda: one.is_inside)
        two.start()
        await race.advance(6)
        one.client.is_cut = True
        await one.stop()
        took = await race.until(lambda: two.is_inside)
        assert 15 - 2 <= took <= 15 + 2.2 * 2 + 1
        assert race.api.holders == ["part-0", "part-1"]


async def test_a_leader_that_is_cut_off_stops_before_another_starts() -> None:
    async with racing() as race:
        one, two = race.parts
        one.start()
        await race.until(lambda: one.is_inside)
        two.start()
        await race.advance(6)
        one.client.is_cut = True
        assert await race.until(lambda: not one.is_leading) <= 10.5
        assert not two.is_inside
        await race.until(lambda: two.is_inside)
        assert one.lost == ["lease ns/lock: could not be renewed for 10 s: cut off; stopping"]


@pytest.mark.parametrize("mode", ["refuse", "hang", "lose"])
async def test_short_outage_is_survived_and_a_long_one_ends_the_lead(mode: str) -> None:
    async with racing(1) as race:
        one = race.parts[0]
        one.start()
        await race.until(lambda: one.is_inside)
        race.api.become(mode)  # type: ignore[arg-type]
        await race.advance(7)
        race.api.become("up")
        await race.advance(5)
        assert (one.led, one.lost) == (1, [])
        race.api.become(mode)  # type: ignore[arg-type]
        await race.until(lambda: one.lost, limit=15)
        assert not one.is_leading
        race.api.become("up")
        await race.until(lambda: one.is_inside)


async def test_lost_to_another_is_noticed_at_the_next_renewal() -> None:
    async with racing(1) as race:
        one = race.parts[0]
        one.start()
        await race.until(lambda: one.is_inside)
        assert race.api.lease is not None
        race.api.store({**race.api.lease, "spec": {**race.api.spec, "holderIdentity": "somebody"}})
        assert await race.until(lambda: one.lost) <= 2.5
        assert one.lost == ["lease ns/lock: somebody holds it now; stopping"]
        await race.advance(10)
        assert one.led == 1


async def test_edited_lease_is_renewed_and_keeps_its_fields() -> None:
    """Somebody labels the lease: the version changes, the holder does not."""
    async with racing(1) as race:
        one = race.parts[0]
        one.start()
        await race.until(lambda: one.is_inside)
        lease = race.api.lease
        assert lease is not None
        race.api.store({**lease, "metadata": {**lease["metadata"], "labels": {"a": "b"}}, "future": 1})
        await race.advance(20)
        assert (one.led, one.lost) == (1, [])
        assert race.api.lease is not None
        assert (race.api.lease["metadata"]["labels"], race.api.lease["future"]) == ({"a": "b"}, 1)


async def test_a_lease_that_vanishes_does_not_let_another_in() -> None:
    async with racing() as race:
        one, two = race.parts
        one.start()
        await race.until(lambda: one.is_inside)
        two.start()
        await race.advance(6)
        one.client.is_cut = True
        race.api.lease = None
        await race.advance(6)
        one.client.is_cut = False
        await race.advance(20)
        assert (one.led, one.lost, two.led) == (1, [], 0)


async def test_wall_clock_jumps_change_nothing() -> None:
    async with racing() as race:
        one, two = race.parts
        one.start()
        await race.until(lambda: one.is_inside)
        two.start()
        for jump in (timedelta(days=400), timedelta(days=-400), timedelta(seconds=20)):
            one.clock.jump, two.clock.jump = jump, -jump
            await race.advance(20)
        assert (one.led, one.lost, two.led) == (1, [], 0)


async def test_a_lead_that_was_paused_too_long_is_over_at_once() -> None:
    """A process that was stopped and goes on: its clock jumped over the deadline."""
    async with racing() as race:
        one, two = race.parts
        one.start()
        await race.until(lambda: one.is_inside)
        one.clock.offset += 100
        assert not one.is_leading
        assert await race.until(lambda: one.lost) <= 2.5
        assert "could not be renewed for 10 s" in one.lost[0]
        two.start()
        await race.until(lambda: one.led == 2 or two.led)


@pytest.mark.parametrize("before", [0.0, 0.45], ids=["renewal first", "deadline first"])
async def test_a_blocked_process_loses_the_lead_once(before: float) -> None:
    """By the real clock: renewal and deadline are due in the same turn of the loop."""
    async with serving_lease() as api, (client := Candidate(ClusterAccess(api.url))):
        config = LeaderConfig("ns", "lock", "me", LeaseTimes(lease=2, renew=0.5, retry=0.2))
        with pytest.raises(LeadershipLostError, match="could not be renewed"):
            async with LeaderElection(client, config):
                client.is_cut = True
                await asyncio.sleep(before)
                time.sleep(0.7)
                await asyncio.Event().wait()


async def test_given_back_also_when_the_last_answer_was_lost() -> None:
    async with racing(1) as race:
        one = race.parts[0]
        one.start()
        await race.until(lambda: one.is_inside)
        race.api.become("lose")
        version = race.api.revision
        await race.until(lambda: race.api.revision > version)
        race.api.become("up")
        await one.stop()
        assert "holderIdentity" not in race.api.spec


async def test_body_that_fails_gives_the_lease_back() -> None:
    async with serving_lease() as api, Candidate(ClusterAccess(api.url)) as client:
        with pytest.raises(ZeroDivisionError):
            async with LeaderElection(client, LeaderConfig("ns", "lock", "me")):
                assert api.spec["holderIdentity"] == "me"
                raise ZeroDivisionError
        assert "holderIdentity" not in api.spec


@pytest.mark.parametrize("seed", seeds(3, 300))
async def test_never_two_leaders_whatever_happens(seed: int) -> None:
    rng = random.Random(seed)
    async with racing(3, seed) as race:
        for part in race.parts:
            part.start()
        for _ in range(40):
            part = rng.choice(race.parts)
            match rng.randrange(8):
                case 0 | 1:
                    race.api.become(rng.choice(("up", "refuse", "hang", "lose")))
                case 2:
                    part.client.is_cut = not part.client.is_cut
                case 3:
                    part.clock.jump = timedelta(seconds=rng.uniform(-1e6, 1e6))
                case 4 if race.api.mode == "up":
                    await part.stop()
                    part.start()
                case 5 if race.api.lease is not None:
                    race.api.store(race.api.lease)
                case _:
                    race.api.become("up")
            await race.advance(rng.choice((0.5, 1, 2, 5, 12)))
        for part in race.parts:
            part.client.is_cut = False
        race.api.become("up")
        await race.until(race.leader)
        assert part_of(race).is_leading


def test_identities_are_unique() -> None:
    assert own_identity() != own_identity()
    assert LeaderConfig("ns", "x").identity != LeaderConfig("ns", "x").identity
