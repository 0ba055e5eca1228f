"""What `kubectl describe pod` shows of the devices of its claims."""

from __future__ import annotations

import json
from pathlib import Path

from dray.dra.parcels import ClaimRef
from dray.inventory.ledger import Door
from tests.processes.dra_machine import DraMachine, Json, config, dra_machine

USERS: list[Json] = [{"resource": "pods", "name": name, "uid": f"{name}-uid"} for name in ("one", "two")] + [
    {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "group", "uid": "group-uid"}
]


async def told(machine: DraMachine, reason: str) -> list[tuple[str, str, str]]:
    """Kind and name of the object, and the message, of each Event."""
    return [
        (one.involved_object.kind, one.involved_object.name, one.message)
        for one in await machine.server.events(reason)
    ]


async def wait_told(machine: DraMachine, reason: str, count: int) -> list[tuple[str, str, str]]:
    async def is_told() -> bool:
        return len(await told(machine, reason)) >= count

    await machine.wait(is_told, f"{count} events {reason}")
    return await told(machine, reason)


async def test_pods_are_told_why_their_claim_is_not_prepared(tmp_path: Path) -> None:
    async with dra_machine(tmp_path) as machine:
        await machine.start()
        await machine.wait_served()
        bad = await machine.create("bad", ["gpu-77"], users=USERS)
        for _ in range(3):
            answer = (await machine.prepare(bad))[bad.uid]
            assert "gpu-77" in answer.error
        found = await wait_told(machine, "DevicePrepareFailed", 3)
        why = f"cannot prepare: {answer.error}"
        assert sorted(found) == [
            ("Pod", "one", f"claim bad: {why}"),
            ("Pod", "two", f"claim bad: {why}"),
            ("ResourceClaim", "bad", why),
        ]

        async def is_counted() -> bool:
            events = await machine.server.events("DevicePrepareFailed")
            return [one.count for one in events] == [3, 3, 3]

        await machine.wait(is_counted, "the same failure to be counted")
        await machine.kill()


async def test_pods_are_told_once_that_a_device_is_ill_and_well_again(tmp_path: Path) -> None:
    """Both claims of the pods have a share of it, and a new life of the agent knows of them too."""
    async with dra_machine(tmp_path) as machine:
        fault = machine.root / "host/fault"
        whole = config(machine.doors)
        whole["dray"]["sim"]["faults"] = [{"device": "shared-0", "whileFile": "/fault"}]
        (machine.root / "agent.json").write_text(json.dumps(whole))
        await machine.start()
        await machine.wait_served()
        for name in ("a", "b"):
            ref = await machine.create(name, ["shared-0"], is_shared=True, users=USERS)
            assert not (await machine.prepare(ref))[ref.uid].error
        await machine.kill()
        await machine.start()
        await machine.wait_served()
        await _wait_followed(machine)
        fault.write_text("XID 79\n")
        found = await wait_told(machine, "DeviceUnhealthy", 5)
        text = "sim shared-0 does not work: XID 79"
        assert sorted(found) == [
            ("Node", "node-1", text),
            ("Pod", "one", f"claim a: {text}"),
            ("Pod", "two", f"claim a: {text}"),
            ("ResourceClaim", "a", text),
            ("ResourceClaim", "b", text),
        ]
        fault.unlink()
        found = await wait_told(machine, "DeviceRecovered", 5)
        assert [name for kind, name, _ in found if kind == "Pod"] == ["one", "two"]
        await machine.kill()


async def _wait_followed(machine: DraMachine) -> None:
    """Until the new agent has read the claims: it notes those that are allocated, prepared or not."""
    later: ClaimRef = await machine.create("later", ["gpu-3"])

    async def is_noted() -> bool:
        return any(hold.uid == later.uid for hold in machine.held(Door.DRA))

    await machine.wait(is_noted, "the claims to be followed")
