"""One device, two doors, in a process that is killed: through the plugin's socket or for a claim, never both."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from dray.dra.parcels import ClaimRef
from dray.errors import Error
from dray.inventory.ledger import Door
from tests.campaign import campaign, seeded
from tests.processes.dra_machine import FAST, GPU, GPUS, DraMachine, config, dra_machine

BOTH = {"*": "dra", GPU: "both"}


@dataclass
class Rivals:
    """Pods of either door that want the same devices. `held` says who has which, as the kubelet was answered."""

    machine: DraMachine
    dice: random.Random
    held: dict[str, str] = field(default_factory=dict)
    allotted: set[str] = field(default_factory=set)
    plugged: set[str] = field(default_factory=set)
    """What the scheduler and the kubelet have in hand: each of them gives a device to one at a time."""
    seen: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    is_over: bool = False
    _names: int = 0

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}-{self._names}"

    def _take(self, device: str, holder: str) -> None:
        other = self.held.get(device)
        if other is not None:
            self.faults.append(f"{device} was given to {holder} while {other} had it")
        self.held[device] = holder

    async def plugin_pods(self) -> None:
        """They take devices that are listed as healthy, and sometimes any: a list may be late."""
        while not self.is_over:
            await asyncio.sleep(self.dice.uniform(0, 0.1))
            listed = self.machine.kubelet.healthy.get(GPU, ()) if self.dice.random() < 0.5 else GPUS
            if fits := [one for one in listed if one not in self.plugged]:
                device = self.dice.choice(fits)
                self.plugged.add(device)
                await self._plugin_pod(device, self._name("pod"))
                self.plugged.discard(device)

    async def _plugin_pod(self, device: str, name: str) -> None:
        try:
            await self.machine.kubelet.allocate(GPU, device)
        except (Error, KeyError) as error:
            self.seen["pod refused" if "has it" in str(error) else "pod failed"] += 1
            return
        self._take(device, name)
        self.seen["pod"] += 1
        await asyncio.sleep(self.dice.uniform(0, 0.2))  # before the kubelet lists it
        self.machine.kubelet.pods[name] = {GPU: [device]}
        await asyncio.sleep(self.dice.uniform(0, 0.5))
        del self.held[device]
        del self.machine.kubelet.pods[name]

    async def claims(self) -> None:
        """A scheduler that knows nothing of taints allots them."""
        while not self.is_over:
            device = self.dice.choice([one for one in GPUS if one not in self.allotted])
            self.allotted.add(device)
            await self._claim(device, self._name("claim"))
            self.allotted.discard(device)
            await asyncio.sleep(self.dice.uniform(0, 0.1))

    async def _claim(self, device: str, name: str) -> None:
        ref = await self.machine.create(name, [device])
        if await self._is_prepared(ref):
            self._take(device, name)
            self.seen["claim"] += 1
            await asyncio.sleep(self.dice.uniform(0, 0.5))
            del self.held[device]
        await self.machine.wait(lambda: self._is_given_back(ref), f"{name} to be given back")
        await self.machine.delete(ref)

    async def _is_prepared(self, ref: ClaimRef) -> bool:
        for _ in range(10):
            try:
                error = (await self.machine.prepare(ref))[ref.uid].error
            except Error:
                self.seen["claim failed"] += 1
                await asyncio.sleep(0.1)
                continue
            self.seen["claim refused"] += "has it" in error
            return not error
        return False

    def has_seen_all(self) -> bool:
        """Whether both doors gave something away, and both refused what the other had given."""
        return all(self.seen[one] for one in ("pod", "claim", "pod refused", "claim refused"))

    async def _is_given_back(self, ref: ClaimRef) -> bool:
        try:
            return not (await self.machine.unprepare(ref))[ref.uid]
        except Error:
            return False


async def test_never_both(tmp_path: Path) -> None:
    wanted, began = campaign(4, 200), time.monotonic()
    async with dra_machine(tmp_path, BOTH) as machine:
        rivals = Rivals(machine, seeded(6002))
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(rivals.plugin_pods())
                group.create_task(rivals.claims())
            # A short run may be over before each of them was lucky and unlucky once.
            while machine.kills < wanted or (not rivals.has_seen_all() and machine.kills < 10 * wanted):
                await machine.start(FAST)
                await machine.wait_served()
                await asyncio.sleep(
                    rivals.dice.uniform(0, 3.0)
                )  # a claim that is refused is tried for a second
                await machine.kill()
            await machine.start(FAST)
            rivals.is_over = True
        assert rivals.faults == []
        print(f"{machine.kills} kills in {time.monotonic() - began:.0f} s, {dict(rivals.seen)}")
        assert machine.kills >= wanted
        assert rivals.has_seen_all()
        await machine.wait_clean()
        await machine.wait_pool()  # no taint is left either
        log = machine.log()
        assert "two holders" not in log and "Traceback" not in log


async def test_a_resource_moves_while_it_is_held_and_the_agent_is_killed(tmp_path: Path) -> None:
    async with dra_machine(tmp_path, {"*": "dra", GPU: "plugin"}) as machine:
        kubelet = machine.kubelet

        async def restart() -> None:
            await machine.kill()
            await machine.start(FAST)
            await machine.wait_served()

        async def listed(**health: str) -> None:
            wanted = [(name.replace("_", "-"), state) for name, state in sorted(health.items())]
            await machine.wait(lambda: _is(kubelet.lists.get(GPU) == wanted), f"{wanted}")

        async def pool(*expected: str) -> None:
            async def is_so() -> bool:
                return [one for one in await machine.pool() if one.startswith("gpu")] == sorted(expected)

            await machine.wait(is_so, f"the pool {expected}")

        async def error_of(ref: ClaimRef) -> str:
            return (await machine.prepare(ref))[ref.uid].error

        await machine.start(FAST)
        await machine.wait_served()
        healthy = {one.replace("-", "_"): "Healthy" for one in GPUS}
        await listed(**healthy)
        await kubelet.allocate(GPU, "gpu-0")
        kubelet.pods["old"] = {GPU: ["gpu-0"]}

        machine.configure({"*": "dra", GPU: "dra"})
        await pool(*GPUS, "gpu-0 tainted")
        first, second = await machine.create("first", ["gpu-0"]), await machine.create("second", ["gpu-1"])
        for _ in range(2):
            assert "old has it" in await error_of(first)
            assert await error_of(second) == ""
            await restart()
        await pool(*GPUS, "gpu-0 tainted")
        kubelet.pods.clear()
        await pool(*GPUS)
        assert await error_of(first) == ""

        machine.configure({"*": "dra", GPU: "plugin"})
        await listed(**healthy | {"gpu_0": "Unhealthy", "gpu_1": "Unhealthy"})
        for _ in range(2):
            with contextlib.suppress(Error):
                await kubelet.allocate(GPU, "gpu-0")
                raise AssertionError("a claim has it")
            await restart()
            await listed(**healthy | {"gpu_0": "Unhealthy", "gpu_1": "Unhealthy"})
        assert await machine.unprepare(first, second) == {first.uid: "", second.uid: ""}
        for ref in (first, second):
            await machine.delete(ref)
        await listed(**healthy)
        await kubelet.allocate(GPU, "gpu-0")
        await machine.wait_clean()
        await pool()


async def test_a_kind_that_leaves_dra_leaves_no_slices_behind(tmp_path: Path) -> None:
    async with dra_machine(tmp_path) as machine:
        await machine.start()
        await machine.wait_served()
        await machine.wait_pool()
        ref = await machine.create("a", ["gpu-0"])
        answer = await machine.prepare(ref)
        assert not answer[ref.uid].error
        machine.configure({"*": "plugin"})

        async def is_empty() -> bool:
            found = await machine.pool()
            return not [one for one in found if one.startswith("gpu")]

        await machine.wait(is_empty, "a pool without devices")
        assert await machine.prepare(ref) == answer  # its pod's container may be started again
        assert await machine.unprepare(ref) == {ref.uid: ""}
        await machine.delete(ref)
        socket = machine.data_dir / "dra.sock"
        await machine.wait(lambda: _is(not socket.exists()), "the driver to leave")
        await machine.wait(is_empty, "a pool without devices")
        await machine.wait_clean()


async def test_claims_of_a_kind_that_is_configured_no_more_are_given_back(tmp_path: Path) -> None:
    async with dra_machine(tmp_path) as machine:
        await machine.start()
        await machine.wait_served()
        ref = await machine.create("a", ["gpu-0"])
        answer = await machine.prepare(ref)
        await machine.wait(lambda: _is(bool(machine.held(Door.DRA))), "the hold on disk")
        await machine.kill()
        (machine.root / "agent.json").write_text("{}")
        await machine.start()
        await machine.wait_served()
        other = await machine.create("other", ["gpu-1"])
        assert await machine.prepare(ref) == answer
        assert "not on this node" in (await machine.prepare(other))[other.uid].error
        assert await machine.unprepare(ref, other) == {ref.uid: "", other.uid: ""}
        for one in (ref, other):
            await machine.delete(one)
        await machine.wait_clean()
        socket = machine.data_dir / "dra.sock"
        await machine.wait(lambda: _is(not socket.exists()), "the driver to leave")


async def test_a_driver_gets_another_name_when_its_claims_are_given_back(tmp_path: Path) -> None:
    async with dra_machine(tmp_path) as machine:
        await machine.start(FAST)
        await machine.wait_served()
        ref = await machine.create("a", ["gpu-0"])
        answer = await machine.prepare(ref)
        await machine.wait(lambda: _is(bool(machine.held(Door.DRA))), "the hold on disk")
        edited = config({"*": "dra"})
        edited["dray"]["domain"] = "other.example"
        (machine.root / "agent.json").write_text(json.dumps(edited))
        renamed = machine.root / "kubelet/plugins/sim.other.example/dra.sock"
        other_kind = machine.root / "kubelet/plugins/generic.other.example/dra.sock"
        await machine.wait(lambda: _is(other_kind.exists()), "the new name of a kind that no claim has")
        for _ in range(2):
            await machine.wait_served()
            assert await machine.prepare(ref) == answer and not renamed.exists()
            await machine.kill()
            await machine.start(FAST)
        await machine.wait_served()
        assert await machine.unprepare(ref) == {ref.uid: ""}
        await machine.delete(ref)
        await machine.wait(lambda: _is(renamed.exists()), "the new name")
        await machine.wait(
            lambda: _is(not (machine.data_dir / "dra.sock").exists()), "the old one to be gone"
        )
        await machine.wait_clean()


async def _is(value: bool) -> bool:
    return value
