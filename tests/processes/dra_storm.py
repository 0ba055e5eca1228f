"""Pods that come and go on a node whose agent is killed all the time, and the mishaps between its lives.

Each pod is played as a kubelet treats it: its claim is prepared until the driver answers, again from time to time, and given
back until the driver answers. A device goes to one claim at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from dray.dra.parcels import ClaimRef
from dray.errors import Error
from tests.processes.dra_machine import GPUS, WAIT_SECONDS, Answer, DraMachine
from tests.processes.fault_points import ANY, Target, rarest
from tests.waiting import PATIENCE, until

PUBLISH = ("planned", "slice created", "slice updated", "slice deleted")
PREPARE = ("started", "taken", "host changed", "completed")
UNPREPARE = ("host restored", "given back", "forgotten")
EFFECTS = (
    "before os.rename prepared-claims",
    "before os.rename holds",
    "before os.rename kNs.sim.dray.internal-claim_N.yaml",
    "before os.remove kNs.sim.dray.internal-claim_N.yaml",
    "before os.rename sim.dray.internal_metadata_N_req.json",
    "before os.remove sim.dray.internal_metadata_N_req.json",
    "before os.rename N_req.json",
    "before os.remove N_req.json",
)
STEPS = (*PUBLISH, *PREPARE, *UNPREPARE)
POINTS = (*STEPS, *EFFECTS)
KINDS = (*((one,) for one in GPUS), ("cut-0-1g-0", "cut-0-1g-1"), ("cut-0-1g-2",), ("shared-0",))
"""What claims ask for. Any number may have shares."""


@dataclass
class Storm:
    """`running` are the claims that were answered for, with the answer; `answers` how many there were."""

    machine: DraMachine
    dice: random.Random
    running: dict[str, tuple[ClaimRef, Answer]] = field(default_factory=dict)
    taken: set[tuple[str, ...]] = field(default_factory=set)
    is_ending: bool = False
    answers: int = 0
    ended: int = 0
    refusals: list[str] = field(default_factory=list)
    mishaps: list[str] = field(default_factory=list)
    aimed: list[str] = field(default_factory=list)

    # Pods

    async def pods(self, count: int) -> None:
        """Until `is_ending`; then all are given back."""
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(self._pods(number))

    async def _pods(self, number: int) -> None:
        while not self.is_ending:
            kind = self.dice.choice([one for one in KINDS if one not in self.taken])
            self.taken |= {kind} if kind != ("shared-0",) else set()
            self.ended += 1
            await self._pod(f"pod-{number}-{self.ended}", kind)
            self.taken.discard(kind)

    async def _pod(self, name: str, devices: tuple[str, ...]) -> None:
        ref = await self.machine.create(name, devices, is_shared=devices == ("shared-0",))
        answer = await self._prepared(ref)
        assert sorted(one for one, _, _ in answer.devices) == sorted(devices)
        self.running[ref.uid] = ref, answer
        for _ in range(self.dice.randrange(3)):
            await asyncio.sleep(self.dice.uniform(0, 0.1))
            assert await self._prepared(ref) == answer, f"another answer for {name}"
        del self.running[ref.uid]
        await self._asked(lambda: self._unprepare(ref), f"{name} to be given back")
        await self.machine.delete(ref)

    async def _prepared(self, ref: ClaimRef) -> Answer:
        found: list[Answer] = []

        async def ask() -> bool:
            before = len(self.mishaps)
            answer = (await self.machine.prepare(ref))[ref.uid]
            if answer.error:
                self.refusals.append(answer.error)
            else:
                found.append(answer)
                if before == len(self.mishaps):  # else the files may be gone again
                    self._check_files(answer)
            return not answer.error

        await self._asked(ask, f"{ref} to be prepared")
        self.answers += 1
        return found[0]

    async def _unprepare(self, ref: ClaimRef) -> bool:
        error = (await self.machine.unprepare(ref))[ref.uid]
        self.refusals += [error] if error else []
        return not error

    async def _asked(self, call: Callable[[], Awaitable[bool]], what: str) -> None:
        """Again and again, as a kubelet does; who is never answered is stuck."""

        async def is_done() -> bool:
            try:
                return await call()
            except Error:
                return False

        await self.machine.wait(is_done, f"{what}; refused: {self.refusals[-2:]}", 2 * WAIT_SECONDS)

    def _check_files(self, answer: Answer) -> None:
        missing = set(answer.cdi_ids) - self.machine.cdi_names()
        assert answer.cdi_ids and not missing, f"answered for, but a runtime does not find {missing}"

    # Lives

    async def live_and_die(self) -> None:
        """One life of the agent: it ends itself at a place that was seldom hit, or is killed at a random moment."""
        machine, dice = self.machine, self.dice
        by_chance = dice.random()
        if by_chance < 0.7:
            place = dice.choice(rarest(POINTS, self.aimed))
            self.aimed.append(place)
            if place in PUBLISH:
                self._devices()
            machine.aim(Target(place, dice.choice((1, 1, 2))))
        else:
            machine.aim(Target(ANY, dice.randrange(1, 80)) if by_chance < 0.85 else None)
        await machine.start()
        is_away = dice.random() < 0.1
        if is_away:
            await machine.server.stop()
        served = asyncio.ensure_future(self._registered())
        try:
            await machine.ended(dice.uniform(0.4, 1.2) if by_chance < 0.85 else dice.uniform(0, 0.6))
        except TimeoutError:
            await machine.kill()
        finally:
            served.cancel()
            await asyncio.wait({served}, timeout=PATIENCE)
            if is_away:
                await machine.server.start()

    async def die_at(self, place: str) -> None:
        """One life of the agent that ends at this step, whatever chance does. Fails where the step does not come."""
        self.machine.aim(Target(place))
        await self.machine.start()
        async with asyncio.TaskGroup() as group:
            others = [group.create_task(self._registered())]
            if place in PUBLISH:
                others.append(group.create_task(self._slices_come_and_go()))
            try:
                await self.machine.ended(2 * WAIT_SECONDS)
            except TimeoutError:
                pytest.fail(f"the agent never came to {place!r}\n{self.machine.log()[-6000:]}")
            for one in others:
                one.cancel()

    async def _slices_come_and_go(self) -> None:
        while True:
            self.machine.configure(extra=1 if self.machine.extra == 260 else 260)
            with contextlib.suppress(Error):
                while await self.machine.pool() != self.machine.expected_pool():
                    await asyncio.sleep(0.05)

    async def _registered(self) -> None:
        await until(self.machine.register)

    def mishap(self) -> None:
        """While the agent is dead: something else goes wrong too."""
        chosen = self.dice.choices(
            ["nothing", "reboot", "wiped", "truncated", "garbage", "removed", "devices"],
            [10, 1, 1, 1, 1, 1, 5],
        )[0]
        getattr(self, f"_{chosen}")()
        self.mishaps.append(chosen)

    def _nothing(self) -> None:
        pass

    def _reboot(self) -> None:
        """What ran is gone: the kubelet prepares all claims anew before it starts pods again."""
        self.machine.reboot()

    def _wiped(self) -> None:
        for path in (self.machine.root / "cdi").rglob("*"):
            if not path.is_dir():
                path.unlink()

    def _truncated(self) -> None:
        path = self.machine.checkpoint
        if path.exists():
            content = path.read_bytes()
            path.write_bytes(content[: self.dice.randrange(len(content))])

    def _garbage(self) -> None:
        if self.machine.checkpoint.exists():
            self.machine.checkpoint.write_bytes(self.dice.randbytes(self.dice.randrange(1, 3000)))

    def _removed(self) -> None:
        self.machine.checkpoint.unlink(missing_ok=True)

    def _devices(self) -> None:
        """Slices are to be made, changed and taken away."""
        others = [one for one in (1, 2, 130, 260) if one != self.machine.extra]
        self.machine.configure(extra=self.dice.choice(others))

    # The end

    async def settle(self) -> None:
        """All pods end while an agent lives; then nothing is left, and the pool is whole."""
        self.is_ending = True
        self.machine.aim(None)
        await self.machine.start()
        await self.machine.wait_served()
