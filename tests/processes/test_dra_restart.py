"""What is told after the answer to the kubelet: a process that is killed in between leaves it to the next one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

from dray.agent.doors.restart import keep_holds
from dray.dra.claims.prepare import Preparer
from dray.dra.parcels import ClaimRef
from dray.inventory.holds import Holds
from dray.inventory.ledger import KubeletLook
from dray.runtime.clock import SystemClock
from dray.runtime.tasks import running
from tests.inventory.conftest import gpu
from tests.processes.dra_machine import GPU, DraMachine, dra_machine
from tests.waiting import wait_until


async def test_holds_and_status_of_a_claim(tmp_path: Path) -> None:
    async with dra_machine(tmp_path, {"*": "dra", GPU: "both"}) as machine:
        await machine.start()
        await machine.wait_served()
        for _ in range(2):
            await _prepared_and_given_back(machine)
        assert machine.kills == 4


async def _prepared_and_given_back(machine: DraMachine) -> None:
    """Killed right after each answer: neither is written yet."""
    ref = await machine.create("a", ["gpu-0"])

    async def is_told() -> bool:
        return await machine.status_devices(ref) == ["gpu-0"]

    async def is_not_told() -> bool:
        return await machine.status_devices(ref) == []

    answer = await machine.prepare(ref)
    await machine.kill()
    await machine.start()
    await machine.wait(is_told, "the status of a prepared claim")
    await machine.wait_served()
    assert await machine.prepare(ref) == answer
    assert await machine.unprepare(ref) == {ref.uid: ""}
    await machine.kill()
    await machine.start()
    await machine.wait(is_not_told, "the status of one that was given back")
    await machine.wait_served()
    await machine.delete(ref)
    await machine.wait_clean()
    await machine.wait(lambda: machine.is_offered("gpu-0"), "the plugin to offer it again")


class Notes:
    """What a driver's checkpoint says, as far as `keep_holds` asks."""

    def __init__(self, *claims: ClaimRef) -> None:
        self.known = claims

    async def noted(self) -> None:
        await asyncio.sleep(0)


async def test_what_the_process_before_us_gave_back_is_free(tmp_path: Path) -> None:
    """The successor took what was prepared when it started; its predecessor unprepared some of it before it ended."""
    clock = SystemClock()
    left, kept = ClaimRef("default", "a", "uid-a"), ClaimRef("default", "b", "uid-b")
    with Holds(tmp_path / "holds", clock) as holds:
        async with running(holds.run(), name="ledger"):
            holds.looked(KubeletLook(clock.monotonic(), {}), ())
            holds.allocated(())
            for ref, device in ((left, gpu(1)), (kept, gpu(2))):
                await holds.claim_door("gpu").take(ref, [device])
            assert len(holds.current.holds) == 2
            notes = cast("Preparer", Notes(kept))
            async with running(keep_holds(holds, "gpu", notes, clock), name="holds"):
                await wait_until(lambda: len(holds.current.holds) == 1)
            assert [one.uid for one in holds.current.holds] == [kept.uid]
