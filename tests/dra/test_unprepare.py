from __future__ import annotations

from pathlib import Path

import pytest

from dray.dra.claims.prepare import Preparer
from dray.dra.claims.state import Phase
from dray.dra.parcels import ClaimRef
from dray.errors import InvalidError, UnavailableError
from tests.dra.prepare_node import GIVEN, Node, claim_of, ref_of, uid_of
from tests.dra.test_recover import DiesError, dying_at, leave_in_the_middle


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    for index in range(3):
        node.add(f"gpu-{index}")
    return node


async def test_one_that_is_not_known_is_fine_and_what_is_left_of_it_goes(node: Node) -> None:
    claim = claim_of(1, "gpu-0")
    async with node.serving() as preparer:
        await preparer.prepare(claim)
        content = {path: path.read_bytes() for path in node.cdi_dir.rglob("*") if path.is_file()}
        await preparer.unprepare(ref_of(claim))
        for path, data in content.items():
            path.write_bytes(data)
        (node.door.claims / uid_of(1)).touch()
        await preparer.unprepare(ref_of(claim))
    assert node.leaks() == {}


@pytest.mark.parametrize("place", ["started", "taken", "host changed", "completed"])
async def test_one_that_was_left_in_the_middle(node: Node, place: str) -> None:
    await leave_in_the_middle(node, 1, "gpu-0", place=place)
    async with node.serving() as preparer:
        await preparer.unprepare(ref_of(claim_of(1)))
    assert node.leaks() == {}


@pytest.mark.parametrize("place", ["started", "taken", "host changed"])
async def test_the_next_claim_of_the_device_rolls_it_back(node: Node, place: str) -> None:
    await leave_in_the_middle(node, 1, "gpu-0", "gpu-1", place=place)
    async with node.serving() as preparer:
        await preparer.prepare(claim_of(2, "gpu-1", "gpu-2"))
        assert list(node.state().records) == [uid_of(2)]
        assert node.given() == ["gpu-1", "gpu-2"]
        assert all(uid_of(1) not in name for name in node.cdi_files())
        assert node.holders() == [uid_of(2)]


async def test_nothing_is_undone_on_a_device_that_it_never_had(node: Node) -> None:
    """It died before it took the device, and a pod got it through the other door since."""
    await leave_in_the_middle(node, 1, "gpu-0", place="started")
    (node.door.plugin / "gpu-0").touch()
    (node.host / "dev/gpu-0").chmod(GIVEN)
    async with node.serving() as preparer:
        await preparer.unprepare(ref_of(claim_of(1)))
    assert node.leaks() == {"given": ["gpu-0"]}


async def test_what_another_process_prepared(node: Node) -> None:
    async with node.serving() as one, node.serving() as other:

        async def both(first: Preparer, second: Preparer) -> None:
            answer = await first.prepare(claim_of(1, "gpu-0"))
            assert await second.prepare(claim_of(1, "gpu-0")) == answer
            await second.unprepare(ref_of(claim_of(1)))
            await first.prepare(claim_of(2, "gpu-0"))
            assert node.state().entries[0].phase is Phase.COMPLETED
            await second.unprepare(ref_of(claim_of(2)))

        await both(one, other)
        await both(other, one)
    assert node.leaks() == {}


@pytest.mark.parametrize("place", ["host restored", "given back", "forgotten"])
async def test_as_long_as_something_is_left_the_entry_is_there(node: Node, place: str) -> None:
    """Nobody may ask for the claim again: what a start or a look finds is the entry."""
    async with node.serving() as preparer:
        await preparer.prepare(claim_of(1, "gpu-0"))
    with pytest.raises(DiesError):
        async with node.serving(dying_at(place)) as preparer:
            await preparer.unprepare(ref_of(claim_of(1)))
    assert bool(node.state().records) == bool(node.leaks())


async def test_the_locks_of_what_another_process_prepared_are_waited_for(node: Node) -> None:
    node.lock_limit = 0.2
    async with node.serving() as one, node.serving() as other:
        await other.prepare(claim_of(1, "gpu-0"))
        async with other._books.locks.held(["test:gpu-0"], "x"):
            with pytest.raises(UnavailableError, match="gives back test:gpu-0"):
                await one.unprepare(ref_of(claim_of(1)))
        assert node.given() == ["gpu-0"]
        await one.unprepare(ref_of(claim_of(1)))
    assert node.leaks() == {}


async def test_a_device_that_was_given_away_after_it_was_given_back(node: Node) -> None:
    """The process died before it could forget the claim, and a pod got the device through the other door since."""
    async with node.serving() as preparer:
        await preparer.prepare(claim_of(1, "gpu-0"))
    with pytest.raises(DiesError):
        async with node.serving(dying_at("given back")) as preparer:
            await preparer.unprepare(ref_of(claim_of(1)))
    (node.door.plugin / "gpu-0").touch()
    (node.host / "dev/gpu-0").chmod(GIVEN)
    async with node.serving() as preparer:
        await preparer.unprepare(ref_of(claim_of(1)))
    assert node.leaks() == {"given": ["gpu-0"]}


async def test_a_bad_name_is_refused(node: Node) -> None:
    async with node.serving() as preparer:
        with pytest.raises(InvalidError, match="uid"):
            await preparer.unprepare(ClaimRef("default", "web", "../../etc"))


async def test_a_cdi_file_that_cannot_be_removed_holds_up_nobody(node: Node, tmp_path: Path) -> None:
    claim = claim_of(1, "gpu-0")
    async with node.serving() as preparer:
        await preparer.prepare(claim)
        node.cdi_dir.rename(tmp_path / "away")
        node.cdi_dir.symlink_to(tmp_path / "away")
        await preparer.unprepare(ref_of(claim))
    node.cdi_dir.unlink()
    (tmp_path / "away").rename(node.cdi_dir)
    assert list(node.leaks()) == ["cdi", "metadata"]
    async with node.serving():
        assert node.leaks() == {}
