from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from dray.api.resource.slice import DeviceAttribute
from dray.dra.claims.books import open_books, read_back, with_begun
from dray.dra.claims.claim_files import ClaimFiles
from dray.dra.claims.state import Phase, State
from dray.dra.parcels import ClaimRef
from dray.drivers.contract import Device
from tests.dra.prepare_node import DRIVER, Node, attributes_of
from tests.dra.test_state import FULL, REF


async def test_files_of_another_boot_are_not_taken_for_prepared_claims(tmp_path: Path) -> None:
    files = ClaimFiles(DRIVER, tmp_path / "cdi")
    files.ensure(FULL)
    unknown = msgspec.structs.replace(FULL, claim=ClaimRef("a", "b", "c"), boot="")
    files.ensure(unknown)
    assert read_back(State(), files, "boot-1").entries == (FULL, unknown)
    assert read_back(State(), files, "boot-2").entries == (unknown,)
    newer = msgspec.structs.replace(FULL, pod_claim="another")
    assert read_back(State().with_entry(newer), files, "boot-1").entry(REF.uid) == newer


async def test_files_that_cannot_be_read_are_no_reason_to_stop(tmp_path: Path) -> None:
    (tmp_path / "cdi").symlink_to(tmp_path)
    assert read_back(State(), ClaimFiles(DRIVER, tmp_path / "cdi"), "boot-1") == State()


async def test_what_was_left_in_the_middle_is_known_unless_somebody_got_a_device_since() -> None:
    begun = msgspec.structs.replace(FULL, phase=Phase.STARTED)
    recent = State().with_entry(begun)
    assert with_begun(State(), recent) == recent
    assert with_begun(State(), State().with_entry(FULL)) == State()  # what was prepared has files
    known = State().with_entry(FULL)
    assert with_begun(known, recent) is known
    other = State().with_entry(msgspec.structs.replace(FULL, claim=ClaimRef("a", "b", "c")))
    assert with_begun(other, recent) is other


async def test_opening_makes_the_file(tmp_path: Path) -> None:
    node = Node(tmp_path)
    async with open_books(node.options(), node.surroundings()) as books:
        assert books.checkpoint.latest == State()
    assert node.state() == State()
    assert sorted(one.name for one in node.data_dir.iterdir()) == [
        "prepared-claims",
        "prepared-claims.turn",
    ]


async def test_what_a_slice_shows_of_a_device_is_asked_once(tmp_path: Path) -> None:
    node = Node(tmp_path)
    asked: list[Device] = []
    device = node.add("gpu-0")

    def attributes(one: Device) -> Mapping[str, DeviceAttribute]:
        asked.append(one)
        return attributes_of(one)

    around = replace(node.surroundings(), attributes=attributes)
    async with open_books(node.options(), around) as books:
        found = books.around.attributes
        assert found(device) == found(device) == attributes_of(device)
        changed = replace(device, attributes={"model": "T-2"})
        assert found(changed) == attributes_of(changed) != found(device)
    assert asked == [device, changed, device]


async def test_files_that_are_as_they_should_be_are_not_written_again(tmp_path: Path) -> None:
    node = Node(tmp_path)
    async with open_books(node.options(), node.surroundings()) as books:
        path = books.options.cdi_dir / books.files.name(REF.uid)
        await books.ensure_files(FULL)
        first = path.stat().st_ino
        await books.ensure_files(FULL)
        assert path.stat().st_ino == first
        path.write_text("something else")
        await books.ensure_files(FULL)
        assert books.files.read_back() == (FULL,)


async def test_a_directory_that_others_could_look_into_is_closed(tmp_path: Path) -> None:
    """Who holds which device is in it. It was there already: made by hand, or by another driver of this name."""
    node = Node(tmp_path)
    data = node.options().data_dir
    data.mkdir(parents=True, exist_ok=True)
    data.chmod(0o755)
    (data / "checkpoint.json").touch()
    async with open_books(node.options(), node.surroundings()):
        assert data.stat().st_mode & 0o7777 == 0o700
