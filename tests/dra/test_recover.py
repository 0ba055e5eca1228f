from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dray.dra.claims.books import open_books
from dray.dra.claims.prepare import Preparer, open_preparer
from dray.dra.claims.recover import EVERY, ClaimState, Looked, Started
from dray.dra.claims.state import STATE_FORMAT, Phase
from dray.dra.parcels import ClaimRef
from dray.errors import ConflictError, InvariantError, UnavailableError
from dray.hardware.change import HostChange
from dray.runtime.clock import FakeClock, settle
from tests.dra.prepare_node import FREE, Node, claim_of, ref_of, uid_of
from tests.waiting import PATIENCE


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    for index in range(4):
        node.add(f"gpu-{index}")
    return node


class DiesError(BaseException):
    """Stands for a kill inside one process: nothing on its way catches it."""


def dying_at(place: str) -> Callable[[str], None]:
    def reached(here: str) -> None:
        if here == place:
            raise DiesError

    return reached


async def leave_in_the_middle(node: Node, number: int, *devices: str, place: str = "host changed") -> None:
    with pytest.raises(DiesError):
        async with node.serving(dying_at(place)) as preparer:
            await preparer.prepare(claim_of(number, *devices))


async def test_a_reboot_drops_all_claims_and_their_files(node: Node) -> None:
    async with node.serving() as preparer:
        answer = await preparer.prepare(claim_of(1, "gpu-0"))
        await preparer.prepare(claim_of(2, "gpu-1"))
    await leave_in_the_middle(node, 3, "gpu-2")
    node.boot_id = "boot-2"
    for device in node.devices:
        (node.host / "dev" / device).chmod(FREE)
    async with node.serving() as preparer:
        assert node.leaks() == {}
        assert await preparer.prepare(claim_of(1, "gpu-0")) == answer
    async with node.serving() as preparer:
        assert await preparer.recovery.start() == Started()
        assert list(node.state().records) == [uid_of(1)]


async def test_two_processes_start_after_a_reboot(node: Node) -> None:
    """The second one saw the old state, and the first has prepared the claim anew since."""
    async with node.serving() as preparer:
        await preparer.prepare(claim_of(1, "gpu-0"))
    node.boot_id = "boot-2"
    async with open_books(node.options(), node.surroundings()) as books, node.serving() as first:
        await first.prepare(claim_of(1, "gpu-0"))
        assert await Preparer(books).recovery.start() == Started()
        assert list(node.state().records) == [uid_of(1)]
        assert node.cdi_file(uid_of(1)).exists()
        assert node.holders() == [uid_of(1)]


async def test_an_empty_tmpfs_after_a_reboot(node: Node) -> None:
    async with node.serving() as preparer:
        await preparer.prepare(claim_of(1, "gpu-0"))
    node.boot_id = "boot-2"
    shutil.rmtree(node.cdi_dir)
    async with node.serving() as preparer:
        await preparer.prepare(claim_of(1, "gpu-0"))
        assert node.cdi_file(uid_of(1)).exists()


async def test_without_a_boot_id_all_is_trusted(node: Node) -> None:
    async with node.serving() as preparer:
        await preparer.prepare(claim_of(1, "gpu-0"))
    node.boot_id = ""
    async with node.serving():
        assert list(node.state().records) == [uid_of(1)]


async def test_files_of_no_claim_go(node: Node) -> None:
    async with node.serving() as preparer:
        await preparer.prepare(claim_of(1, "gpu-0"))
        kept = node.cdi_files()
        content = node.cdi_file(uid_of(1)).read_bytes()
    node.cdi_file(uid_of(8)).write_bytes(content)
    (node.cdi_dir / f"{node.cdi_file(uid_of(9)).name}").touch()
    (node.cdi_dir / f".{node.cdi_file(uid_of(7)).name}.tmp").touch()
    (node.cdi_dir / f"test.dray.internal_metadata_{uid_of(9)}_r.json").touch()
    (node.cdi_dir / "foreign.yaml").touch()
    (node.metadata_dir / f"{uid_of(6)}_r.json").touch()
    (node.metadata_dir / f".{uid_of(5)}_r.json.tmp").touch()
    async with node.serving():
        assert node.cdi_files() == sorted([*kept, "foreign.yaml"])
        assert node.metadata_files() == [f"{uid_of(1)}_r.json"]


async def test_a_lost_ledger_is_fed_again(node: Node) -> None:
    async with node.serving() as preparer:
        await preparer.prepare(claim_of(1, "gpu-0"))
    (node.door.claims / uid_of(1)).unlink()
    async with node.serving():
        assert node.holders() == [uid_of(1)]


@pytest.mark.parametrize("harm", ["garbage", "cut", "empty", "gone", "newer"])
async def test_the_checkpoint_is_rebuilt_from_the_cdi_files(node: Node, harm: str) -> None:
    async with node.serving() as preparer:
        answer = await preparer.prepare(claim_of(1, "gpu-0"))
        before = node.state().entries
    content = node.checkpoint.read_bytes()
    harmed = {
        "garbage": os.urandom(200),
        "cut": content[:-1],
        "empty": b"",
        "newer": content.replace(b"version 1", b"version 9"),
    }
    if harm == "gone":
        node.checkpoint.unlink()
    else:
        node.checkpoint.write_bytes(harmed[harm])
    async with node.serving() as preparer:
        await asyncio.sleep(0)
        assert len(node.lost) == (harm != "gone")
        assert node.state().entries == before
        with pytest.raises(ConflictError):
            await preparer.prepare(claim_of(2, "gpu-0"))
        assert await preparer.prepare(claim_of(1, "gpu-0")) == answer
        await preparer.unprepare(ref_of(claim_of(1)))
        assert node.leaks() == {}


async def test_a_checkpoint_lost_while_we_run(node: Node) -> None:
    async with node.serving() as preparer:
        await preparer.prepare(claim_of(1, "gpu-0"))
        await leave_in_the_middle(node, 2, "gpu-1")
        await preparer.prepare(claim_of(3, "gpu-2"))
        node.checkpoint.write_bytes(b"garbage")
        await preparer.unprepare(ref_of(claim_of(9)))
        assert {uid: one.entry.phase for uid, one in node.state().records.items()} == {
            uid_of(1): Phase.COMPLETED,
            uid_of(2): Phase.STARTED,
            uid_of(3): Phase.COMPLETED,
        }


async def test_allocated_claims_are_noted_after_a_loss(node: Node) -> None:
    async with node.serving() as preparer:
        await preparer.prepare(claim_of(1, "gpu-0"))
        claims = [
            claim_of(1, "gpu-0"),
            claim_of(2, "gpu-1"),
            claim_of(3, "gpu-9"),
            claim_of(4, "gpu-0"),
            claim_of(5, {"request": "r", "device": "gpu-2", "pool": "other-node"}),
        ]
        assert await preparer.recovery.rebuild(claims) == (ref_of(claim_of(2)),)
        assert await preparer.recovery.rebuild(claims) == ()
        assert node.holders() == [uid_of(1), uid_of(2)]
        await preparer.prepare(claim_of(2, "gpu-1"))
        assert node.given() == ["gpu-0", "gpu-1"]


async def test_claims_left_in_the_middle_and_gone_are_given_back(node: Node) -> None:
    for number in range(4):
        await leave_in_the_middle(node, number, f"gpu-{number}")
    states = {0: ClaimState.ALLOCATED, 1: ClaimState.GONE, 2: ClaimState.UNALLOCATED}

    async def lookup(ref: ClaimRef) -> ClaimState:
        for number, state in states.items():
            if ref.uid == uid_of(number):
                return state
        raise UnavailableError("the API server is away")

    async with node.serving() as preparer:
        looked = await preparer.recovery.look(lookup)
        assert looked == Looked(given_back=(ref_of(claim_of(1)), ref_of(claim_of(2))))
        assert sorted(node.state().records) == [uid_of(0), uid_of(3)]
        assert node.given() == ["gpu-0", "gpu-3"]
        await preparer.prepare(claim_of(0, "gpu-0"))
        states[0] = ClaimState.GONE
        assert (await preparer.recovery.look(lookup)).stale == (ref_of(claim_of(0)),)
        assert node.state().entries[0].phase is Phase.COMPLETED


async def test_a_prepared_claim_that_is_gone_is_told_once(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    states = {ref_of(claim_of(number)): ClaimState.GONE for number in (1, 2)}

    async def lookup(ref: ClaimRef) -> ClaimState:
        return states[ref]

    def told() -> int:
        return caplog.text.count("claim is gone and still prepared")

    async with node.serving() as preparer:
        for number in (1, 2):
            await preparer.prepare(claim_of(number, f"gpu-{number}"))
        for _ in range(2):
            await preparer.recovery.look(lookup)
            assert told() == 2
        states[ref_of(claim_of(1))] = ClaimState.ALLOCATED
        await preparer.recovery.look(lookup)
        states[ref_of(claim_of(1))] = ClaimState.GONE
        await preparer.recovery.look(lookup)
        assert told() == 3, "it was there again in between"


async def test_a_bug_in_a_look_is_not_taken_for_a_bad_day(node: Node) -> None:
    await leave_in_the_middle(node, 1, "gpu-0")

    async def lookup(ref: ClaimRef) -> ClaimState:
        raise InvariantError("a bug")

    async with node.serving() as preparer:
        with pytest.raises(InvariantError, match="a bug"):
            await preparer.recovery.run(lookup)


async def test_what_cannot_be_given_back_now_is_looked_after_again(node: Node) -> None:
    await leave_in_the_middle(node, 1, "gpu-0")
    away = [UnavailableError("the disk does not answer"), InvariantError("a bug")]

    async def undo(changes: Sequence[HostChange]) -> None:
        if away:
            raise away.pop(0)

    async def lookup(ref: ClaimRef) -> ClaimState:
        return ClaimState.GONE

    around = replace(node.surroundings(), undo=undo)
    async with open_preparer(node.options(), around) as preparer:
        assert await preparer.recovery.look(lookup) == Looked()
        assert [ref.uid for ref in preparer.known] == [uid_of(1)]
        with pytest.raises(InvariantError, match="a bug"):
            await preparer.recovery.look(lookup)
        assert await preparer.recovery.look(lookup) == Looked(given_back=(ref_of(claim_of(1)),))


async def test_an_allocated_claim_that_the_other_door_has_a_device_of_is_noted_and_told(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    (node.door.plugin / "gpu-1").touch()
    async with node.serving() as preparer:
        assert await preparer.recovery.rebuild([claim_of(2, "gpu-1")]) == (ref_of(claim_of(2)),)
        assert "allocated claim does not hold its devices" in caplog.text
        assert list(node.state().records) == [uid_of(2)] and node.holders() == []


async def test_it_looks_now_and_every_ten_minutes(node: Node) -> None:
    await leave_in_the_middle(node, 1, "gpu-0")
    clock, asked = FakeClock(), list[ClaimRef]()

    async def lookup(ref: ClaimRef) -> ClaimState:
        asked.append(ref)
        return ClaimState.ALLOCATED

    async with open_preparer(node.options(), node.surroundings(clock=clock)) as preparer:
        running = asyncio.gather(preparer.recovery.run(lookup))
        for times in (1, 2, 3):
            async with asyncio.timeout(60):
                while len(asked) < times or not clock.sleepers:
                    await asyncio.sleep(0.005)
            await clock.advance(EVERY)
        await settle()
        running.cancel()
        await asyncio.wait({running}, timeout=PATIENCE)


async def test_a_start_with_a_directory_that_is_a_link(node: Node, tmp_path: Path) -> None:
    """It is told and refused claim by claim; the process does not end for it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / node.cdi_file(uid_of(1)).name).touch()
    node.cdi_dir.symlink_to(tmp_path / "outside")
    async with node.serving() as preparer:
        assert await preparer.recovery.start() == Started()
    assert len(list((tmp_path / "outside").iterdir())) == 1
    assert STATE_FORMAT.decode(node.checkpoint.read_bytes()).entries == ()


async def test_what_was_answered_is_known_after_a_restart(node: Node) -> None:
    claim, other = claim_of(1, "gpu-0", "gpu-1"), ref_of(claim_of(2, "gpu-2"))
    async with node.serving() as preparer:
        answer = await preparer.prepare(claim)
        assert preparer.answered(ref_of(claim)) == answer
    async with node.serving() as preparer:
        assert preparer.answered(ref_of(claim)) == answer and preparer.answered(other) is None
        assert [one.claim for one in await preparer.noted()] == [ref_of(claim)]
        await preparer.unprepare(ref_of(claim))
        assert preparer.answered(ref_of(claim)) is None and await preparer.noted() == ()
