"""Processes that prepare and give back claims on one directory, and die where they are told to.

Arguments: what to do (`every_point`, `random_lives`, `together`), a directory, a number, a seed. Prints one JSON object. Each
life is a forked child, so that a kill costs milliseconds and nothing is imported again.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dray.api.resource import ResourceClaim
from dray.dra.claims.prepare import Preparer
from dray.dra.claims.state import Phase
from dray.dra.parcels import PreparedDevice
from dray.errors import ConflictError, Error, UnavailableError
from tests.dra.prepare_node import FREE, Node, claim_of, parameters, ref_of
from tests.processes.fault_points import ANY, FaultPoints, Target

Life = Callable[[Preparer], Awaitable[Any]]
DEVICES = 3


class Notes(FaultPoints):
    """Writes down all places."""

    def reached(self, place: str) -> None:
        with self._file.open("a") as notes:
            notes.write(f"{place}\n")


def new_node(root: Path) -> Node:
    """All lives on a directory see the same devices."""
    node = Node(root)
    for index in range(DEVICES):
        node.add(f"gpu-{index}")
    node.add("pair", hardware=("test:gpu-1", "test:gpu-2"))
    return node


def live(node: Node, life: Life, target: Target | None = None, places: Path | None = None) -> Any:
    """What `life` returned in a child; None where it was killed. With `places` every point is written there."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            os.write(writer, json.dumps(asyncio.run(_child(node, life, target, places))).encode())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(3)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return None
    assert status == 0, f"a life ended with status {status}"
    return json.loads(told)


async def _child(node: Node, life: Life, target: Target | None, places: Path | None) -> Any:
    os.dup2(2, 1)
    file = node.root / "target"
    (target or Target("nowhere")).write(file)
    points = FaultPoints(file) if places is None else Notes(places)
    points.watch_effects()
    async with node.serving(points.reached) as preparer:
        return await life(preparer)


def shown(answer: tuple[PreparedDevice, ...]) -> Any:
    """To compare across processes."""
    return [[list(one.requests), one.pool, one.device, list(one.cdi_ids), one.share_id] for one in answer]


async def prepared(preparer: Preparer, claim: ResourceClaim) -> Any:
    """Its answer, or the kind of the error."""
    try:
        return shown(await preparer.prepare(claim))
    except Error as error:
        return type(error).__name__


TWO = ({"request": "a", "device": "gpu-0"}, {"request": "b", "device": "gpu-1"})
CLAIM, OTHER, LAST = claim_of(1, *TWO), claim_of(2, "gpu-2"), claim_of(3, "pair")
FAILING = claim_of(4, *TWO, config=[parameters({"fail": "no power"}, "b")])


async def whole_life(preparer: Preparer) -> Any:
    """Every step that there is: prepared, again, given back, failed, and given back again."""
    first = await prepared(preparer, CLAIM)
    assert await prepared(preparer, CLAIM) == first
    await preparer.unprepare(ref_of(CLAIM))
    assert await prepared(preparer, FAILING) == "HardwareError"
    await preparer.unprepare(ref_of(FAILING))
    return first


async def life_after(preparer: Preparer) -> Any:
    """The successor: another claim that needs a device of the first must wait for it only if it was answered for."""
    entry = preparer._books.checkpoint.latest.entry(CLAIM.metadata.uid)
    taken = await prepared(preparer, LAST)
    was_completed = entry is not None and entry.phase is Phase.COMPLETED
    assert (taken == "ConflictError") == was_completed, (taken, entry)
    await preparer.unprepare(ref_of(LAST))
    answers = [await prepared(preparer, CLAIM), await prepared(preparer, OTHER)]
    for claim in (CLAIM, OTHER, FAILING):
        await preparer.unprepare(ref_of(claim))
    return answers


def every_point(root: Path, stride: int, seed: int) -> Any:
    """Kill at every `stride`-th point, one after the other, on the same directory."""
    node = new_node(root)
    places = root / "places"
    answer = live(node, whole_life, None, places)
    points = places.read_text().splitlines()
    faults: list[Any] = []
    kills = 0
    for number in range(1 + seed % stride, len(points) + 1, stride):
        if live(node, whole_life, Target(ANY, number)) is None:
            kills += 1
        after = live(node, life_after)
        if after[0] != answer or isinstance(after[1], str) or node.leaks():
            faults.append([number, points[number - 1], after, node.leaks()])
    return {"kills": kills, "points": sorted(set(points)), "faults": faults}


@dataclass
class Model:
    """What must be so: which claims were answered for, and with what."""

    rng: random.Random
    node: Node
    answered: dict[int, Any] = field(default_factory=dict)
    kills: int = 0
    faults: list[Any] = field(default_factory=list)
    story: list[str] = field(default_factory=list)

    def devices_of(self, number: int) -> list[str]:
        names = [*(f"gpu-{index}" for index in range(DEVICES)), "pair"]
        return random.Random(number).sample(names, 1 + number % 2)

    def claim(self, number: int) -> ResourceClaim:
        return claim_of(number, *self.devices_of(number))

    def parts(self, number: int) -> set[str]:
        return {part for name in self.devices_of(number) for part in self.node.devices[name].parts}

    def step(self) -> None:
        number = self.rng.randrange(6)
        act = self.rng.choices(["prepare", "unprepare", "reboot", "lose"], [10, 6, 1, 1])[0]
        target = Target(ANY, self.rng.randrange(1, 40)) if self.rng.random() < 0.7 else None
        self.story.append(f"{act} {number} {target}")
        getattr(self, f"_{act}")(number, target)
        self._check()

    def _prepare(self, number: int, target: Target | None) -> None:
        answer = live(self.node, lambda preparer: prepared(preparer, self.claim(number)), target)
        if answer is None:
            self.kills += 1
        elif isinstance(answer, list):
            if self.answered.setdefault(number, answer) != answer:
                self.faults.append(["another answer", self.story[-8:]])
        elif answer not in ("ConflictError", "InvalidError"):
            self.faults.append([answer, self.story[-8:]])
        elif answer == "ConflictError" and not self._is_blocked(number):
            self.faults.append(["refused for nothing", self.story[-8:]])

    def _is_blocked(self, number: int) -> bool:
        """By a claim that the kubelet may have been answered for: killed right before the answer counts too."""
        completed = [
            uid for uid, record in self.node.state().records.items() if record.entry.phase is Phase.COMPLETED
        ]
        others = [one for one in range(6) if one != number and self.claim(one).metadata.uid in completed]
        return any(self.parts(one) & self.parts(number) for one in others)

    def _unprepare(self, number: int, target: Target | None) -> None:
        async def life(preparer: Preparer) -> str:
            await preparer.unprepare(ref_of(self.claim(number)))
            return "done"

        # From the kubelet's first call on the pod is gone; it calls until that is answered.
        self.answered.pop(number, None)
        if live(self.node, life, target) is None:
            self.kills += 1
            live(self.node, life)

    def _reboot(self, number: int, target: Target | None) -> None:
        self.node.boot_id += "'"
        shutil.rmtree(self.node.cdi_dir, ignore_errors=True)
        for name in self.node.devices:
            (self.node.host / "dev" / name).chmod(FREE)
        self.answered.clear()
        live(self.node, _nothing)

    def _lose(self, number: int, target: Target | None) -> None:
        """The checkpoint is damaged: the CDI files tell what was answered for, the API server what else was allocated."""
        if not self.node.checkpoint.exists():
            return
        known = self.node.state().records
        allocated = [claim for claim in map(self.claim, range(6)) if claim.metadata.uid in known]
        content = self.node.checkpoint.read_bytes()
        self.node.checkpoint.write_bytes(content[: self.rng.randrange(len(content))])
        live(self.node, lambda preparer: _rebuilt(preparer, allocated))

    def _check(self) -> None:
        holders: dict[str, int] = {}
        for number in self.answered:
            for part in self.parts(number):
                if holders.setdefault(part, number) != number:
                    self.faults.append(["one device for two claims", part, self.story[-8:]])
        known = self.node.state().records
        if lost := [one for one in self.answered if self.claim(one).metadata.uid not in known]:
            self.faults.append(["forgotten", lost, self.story[-8:]])

    def end(self) -> None:
        for number in range(6):
            self._unprepare(number, None)
        if leaks := self.node.leaks():
            self.faults.append(["leaks", leaks, self.story])


async def _rebuilt(preparer: Preparer, claims: list[ResourceClaim]) -> str:
    await preparer.recovery.rebuild(claims)
    return "done"


async def _nothing(preparer: Preparer) -> str:
    return "done"


def random_lives(root: Path, lives: int, seed: int) -> Any:
    """Random steps with random kills, reboots and lost checkpoints; all given back now and then, and nothing is left."""
    model = Model(random.Random(seed), new_node(root))
    for number in range(lives):
        model.step()
        if number % 20 == 19:
            model.end()
    model.end()
    return {"kills": model.kills, "faults": model.faults[:3]}


def together(root: Path, claims: int, seed: int) -> Any:
    """Three processes at once, each with all claims in an order of its own: half of them want the same devices.

    With an odd seed the first one is killed on its way.
    """
    node = Node(root)
    for index in range(claims):
        node.add(f"one-{index}")
    wanted = [claim_of(index, f"one-{index // 2 * 2 if index % 4 < 2 else index}") for index in range(claims)]
    count = random.Random(seed).randrange(5, 2 * claims)
    Target(ANY, count).write(root / "target")

    def child(number: int) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            os.dup2(2, 1)
            points = FaultPoints(root / ("target" if number == 0 and seed % 2 else "none"))
            points.watch_effects()
            order = random.Random(seed + number).sample(wanted, len(wanted))
            outcome = asyncio.run(_all(node, order, points.reached))
            (root / f"told-{number}").write_text(json.dumps(outcome))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(3)

    ends = [os.waitpid(pid, 0)[1] for pid in [child(number) for number in range(3)]]
    outcomes = [json.loads(told.read_text()) for told in sorted(root.glob("told-*"))]
    given: dict[str, set[str]] = {}
    for outcome in outcomes:
        for uid, answer in outcome.items():
            if isinstance(answer, list):
                given.setdefault(answer[0][2], set()).add(uid)
    phases = sorted({record.entry.phase.value for record in node.state().records.values()})
    held = len(node.state().records)
    live(node, lambda preparer: _give_all_back(preparer, wanted))
    return {
        "ends": ends,
        "same": all(outcome == outcomes[-1] for outcome in outcomes),
        "given": {name: len(uids) for name, uids in given.items()},
        "held": held,
        "phases": phases,
        "leaks": node.leaks(),
    }


async def _all(node: Node, claims: list[ResourceClaim], reached: Callable[[str], None]) -> dict[str, Any]:
    async with node.serving(reached) as preparer:

        async def one(claim: ResourceClaim) -> Any:
            for _ in range(20):  # as the server does
                try:
                    return shown(await preparer.prepare(claim))
                except ConflictError as error:
                    return type(error).__name__
                except UnavailableError:
                    continue
            return "UnavailableError"

        answers = await asyncio.gather(*map(one, claims))
        return {claim.metadata.uid: answer for claim, answer in zip(claims, answers, strict=True)}


async def _give_all_back(preparer: Preparer, claims: list[ResourceClaim]) -> str:
    await asyncio.gather(*(preparer.unprepare(ref_of(claim)) for claim in claims))
    return "done"


if __name__ == "__main__":
    what, directory, count, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    print(
        json.dumps(
            {"every_point": every_point, "random_lives": random_lives, "together": together}[what](
                directory, count, seed
            )
        )
    )
