"""The agent as DRA driver, killed between any two steps: claims get the same answer for ever, and nothing is left of them."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from dray.dra.slices import slice_writer
from dray.errors import Error
from tests.campaign import campaign, seeded
from tests.processes.dra_machine import FAST, GPU, dra_machine
from tests.processes.dra_storm import PUBLISH, STEPS, Storm

DOORS = {"*": "dra", GPU: "both"}


def test_all_steps_of_publishing_are_aimed_at() -> None:
    assert set(PUBLISH) == {"planned", *slice_writer.STEPS}


async def test_kills_at_every_step_under_load(tmp_path: Path) -> None:
    wanted, began = campaign(14, 1000), time.monotonic()
    async with dra_machine(tmp_path, DOORS) as machine:
        storm = Storm(machine, seeded(6001))
        async with asyncio.TaskGroup() as group:
            group.create_task(storm.pods(6))
            while machine.kills < wanted:
                storm.mishap()
                await storm.live_and_die()
            for step in sorted(set(STEPS) - set(machine.deaths())):
                await storm.die_at(step)
            await storm.settle()
        await machine.wait_clean()
        await machine.wait_pool()
        assert await machine.kill(signal.SIGTERM) == 0
        deaths = machine.deaths()
        mishaps = dict(sorted(Counter(storm.mishaps).items()))
        print(
            f"{machine.kills} kills in {time.monotonic() - began:.0f} s at {len(set(deaths))} places,"
            f" {storm.answers} answers, {len(storm.refusals)} refusals, mishaps {mishaps}"
        )
        assert machine.kills >= wanted and storm.answers > wanted / 4
        assert set(deaths) >= set(STEPS)
        log = machine.log()
        assert "Traceback" not in log and "InvariantError" not in log


async def test_the_ledger_is_garbage(tmp_path: Path) -> None:
    """Until the kubelet has told of all containers nobody gets what two doors offer; then all is as before."""
    async with dra_machine(tmp_path, DOORS) as machine:
        await machine.start(FAST)
        await machine.wait_served()
        first = await machine.create("first", ["gpu-0"])
        answer = await machine.prepare(first)
        await machine.wait(lambda: machine.is_offered("gpu-1"), "the plugin")
        await machine.kubelet.allocate(GPU, "gpu-1")
        machine.kubelet.pods["old"] = {GPU: ["gpu-1"]}
        for damage in (b"garbage\n" * 50, None, b"")[: campaign(2, 3)]:
            await machine.kill()
            if damage is None:
                machine.holds_file.unlink()
            else:
                machine.holds_file.write_bytes(damage)
            await machine.start(FAST)
            await machine.wait_served()
            assert await machine.prepare(first) == answer
            second = await machine.create("second", ["gpu-1"])
            assert "old has it" in (await machine.prepare(second))[second.uid].error
            assert await machine.unprepare(second) == {second.uid: ""}
            await machine.delete(second)
            with pytest.raises(Error, match="claim default/first has it"):
                await machine.kubelet.allocate(GPU, "gpu-0")
        await machine.unprepare(first)
        await machine.delete(first)
        await machine.wait_clean()


async def test_the_api_server_is_away(tmp_path: Path) -> None:
    """A claim that is known is given back, one that is not waits; the kubelet need not ask again."""
    async with dra_machine(tmp_path) as machine:
        await machine.start()
        await machine.wait_served()
        await machine.wait_pool()
        first, second = await machine.create("first", ["gpu-0"]), await machine.create("second", ["gpu-1"])
        assert not (await machine.prepare(first))[first.uid].error
        await machine.server.stop()
        assert await machine.unprepare(first) == {first.uid: ""}
        await machine.kill()
        await machine.start()
        await machine.wait_served()
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(machine.prepare(second))
            for _ in range(3):  # it answers what it can
                assert await machine.unprepare(first) == {first.uid: ""}
            assert not waiting.done()
            await machine.server.start()
        assert not waiting.result()[second.uid].error
        await machine.unprepare(second)
        for ref in (first, second):
            await machine.delete(ref)
        await machine.wait_clean()
        await machine.wait_pool()


async def test_directories_vanish_under_the_running_agent(tmp_path: Path) -> None:
    """It makes them anew, is found again, and knows what it has answered."""
    async with dra_machine(tmp_path, DOORS) as machine:
        await machine.start(FAST)
        await machine.wait_served()
        ref = await machine.create("a", ["gpu-0"])
        answer = await machine.prepare(ref)
        for path in (machine.root / "cdi", machine.data_dir, machine.root / "kubelet/plugins_registry"):
            shutil.rmtree(path)

            async def is_same() -> bool:
                with contextlib.suppress(Error):
                    return await machine.register() and await machine.prepare(ref) == answer
                return False

            await machine.wait(is_same, f"the same answer without {path.name}")
            assert set(answer[ref.uid].cdi_ids) <= machine.cdi_names() and machine.entries() == {ref.uid}
        assert await machine.unprepare(ref) == {ref.uid: ""}
        await machine.delete(ref)
        await machine.wait_clean()
        assert machine.kills == 0 and "Traceback" not in machine.log()
