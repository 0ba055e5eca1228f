"""What is told after the answer to the kubelet: a process that is killed in between leaves it to the next one."""

from __future__ import annotations

from pathlib import Path

from tests.processes.dra_machine import GPU, DraMachine, dra_machine


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
