from __future__ import annotations

import stat
import threading
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.cdi.edits import ContainerEdits, DeviceNode, Mount
from dray.cdi.registry import read_registry
from dray.cdi.spec import spec_edits
from dray.dra.claims.claim_files import ANNOTATION, ClaimFiles, claim_spec, parcel
from dray.dra.claims.state import Entry, Phase
from dray.dra.names import cdi_kind
from dray.errors import DeniedError, InvalidError
from tests.campaign import campaign
from tests.dra.prepare_node import DRIVER
from tests.dra.test_state import FULL, REF

KIND = cdi_kind(DRIVER)


@pytest.fixture
def files(tmp_path: Path) -> ClaimFiles:
    return ClaimFiles(DRIVER, tmp_path / "run" / "cdi")


def cdi_dir(tmp_path: Path) -> Path:
    return tmp_path / "run" / "cdi"


def with_edits(edits: ContainerEdits) -> Entry:
    return msgspec.structs.replace(
        FULL, requests=tuple(msgspec.structs.replace(one, edits=edits) for one in FULL.requests)
    )


def test_a_runtime_finds_the_device_of_each_request(files: ClaimFiles, tmp_path: Path) -> None:
    assert files.ensure(FULL)
    assert not files.ensure(FULL)
    registry = read_registry([cdi_dir(tmp_path)])
    assert registry.broken == ()
    assert list(registry.devices) == [f"{KIND}={REF.uid}-gpu"]
    path = cdi_dir(tmp_path) / f"k8s.{DRIVER}-claim_{REF.uid}.yaml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [one.name for one in cdi_dir(tmp_path).iterdir()] == [path.name]


def test_the_entry_comes_back_from_the_file(files: ClaimFiles, tmp_path: Path) -> None:
    files.ensure(msgspec.structs.replace(FULL, phase=Phase.STARTED))
    assert files.read_back() == (FULL,)
    other = msgspec.structs.replace(FULL, claim=msgspec.structs.replace(REF, uid="another"))
    files.ensure(other)
    assert set(files.uids()) == {REF.uid, "another"}
    assert sorted(files.read_back(), key=lambda one: one.claim) == sorted(
        [FULL, other], key=lambda one: one.claim
    )
    files.remove(REF.uid)
    files.remove(REF.uid)
    assert files.uids() == ("another",)


@pytest.mark.parametrize(
    "content", ["", "{}", "garbage: [", "\0", f"kind: {KIND}\nannotations: {{{ANNOTATION}: x}}"]
)
def test_a_file_that_says_nothing_is_left_out(files: ClaimFiles, tmp_path: Path, content: str) -> None:
    files.ensure(FULL)
    (cdi_dir(tmp_path) / files.name("broken")).write_text(content)
    (cdi_dir(tmp_path) / files.name("copied")).write_bytes(
        (cdi_dir(tmp_path) / files.name(REF.uid)).read_bytes()
    )
    assert files.read_back() == (FULL,)
    assert set(files.uids()) == {REF.uid, "broken", "copied"}


def test_what_a_killed_process_left_belongs_to_its_claim(files: ClaimFiles, tmp_path: Path) -> None:
    cdi_dir(tmp_path).mkdir(parents=True)
    left = cdi_dir(tmp_path) / f".{files.name(REF.uid)}.tmp"
    left.write_text("half")
    (cdi_dir(tmp_path) / "other-vendor.yaml").touch()
    assert files.uids() == (REF.uid,)
    files.ensure(FULL)
    assert not left.exists()
    left.write_text("half")
    files.remove(REF.uid)
    assert [one.name for one in cdi_dir(tmp_path).iterdir()] == ["other-vendor.yaml"]


def test_a_runtime_never_sees_half_a_file(files: ClaimFiles, tmp_path: Path) -> None:
    """It scans the directory whenever it likes: while a claim is written, removed and written again."""
    nodes = tuple(DeviceNode(f"/dev/null{number}", "/dev/null") for number in range(200))
    big = with_edits(ContainerEdits(device_nodes=nodes))
    is_done = threading.Event()

    def write() -> None:
        files.ensure(big)
        for _ in range(campaign(30, 2_000)):
            files.remove(REF.uid)
            files.ensure(big)
        is_done.set()

    def scan() -> int:
        registry = read_registry([cdi_dir(tmp_path)])
        assert registry.broken == ()
        for device in registry.devices.values():
            assert len(device.spec.devices[0].container_edits.device_nodes) == len(nodes)
        return len(registry.devices)

    cdi_dir(tmp_path).mkdir(parents=True)
    writer = threading.Thread(target=write)
    writer.start()
    while not is_done.is_set():
        scan()
    writer.join()
    assert scan() == len(big.requests)


def test_a_claim_that_gives_nothing_needs_no_file(files: ClaimFiles, tmp_path: Path) -> None:
    assert not files.ensure(with_edits(ContainerEdits()))
    assert not cdi_dir(tmp_path).exists()
    assert files.uids() == ()
    files.remove("any")


def test_edits_that_cdi_does_not_have(files: ClaimFiles) -> None:
    for edits in (ContainerEdits(annotations=(("a", "b"),)), ContainerEdits(cdi_devices=("a.b/c=d",))):
        with pytest.raises(InvalidError):
            files.ensure(with_edits(edits))
    assert files.uids() == ()


def test_a_huge_entry_is_written_without_what_it_could_be_read_back_from(files: ClaimFiles) -> None:
    big = msgspec.structs.replace(FULL.requests[0], parameters=({"x": "y" * 300_000},))
    spec = claim_spec(DRIVER, msgspec.structs.replace(FULL, requests=(big,)))
    assert spec is not None
    assert spec.annotations == {}


def test_a_linked_directory_is_refused(files: ClaimFiles, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    cdi_dir(tmp_path).parent.mkdir()
    cdi_dir(tmp_path).symlink_to(tmp_path / "elsewhere")
    for act in (lambda: files.ensure(FULL), lambda: files.remove(REF.uid), files.uids, files.read_back):
        with pytest.raises(DeniedError, match="symbolic link"):
            act()
    assert list((tmp_path / "elsewhere").iterdir()) == []


WORD = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)
PATH = WORD.map(lambda word: f"/{word}")


@given(
    st.lists(st.tuples(WORD, st.text(max_size=8)), max_size=3, unique_by=lambda pair: pair[0]),
    st.lists(st.builds(DeviceNode, PATH, PATH, st.sampled_from(["r", "rw", "mrw"])), max_size=3),
    st.lists(st.builds(Mount, PATH, PATH, st.booleans()), max_size=3),
)
def test_edits_come_back_as_they_were(
    env: list[tuple[str, str]], nodes: list[DeviceNode], mounts: list[Mount]
) -> None:
    edits = ContainerEdits(tuple(env), tuple(nodes), tuple(mounts))
    assert parcel(spec_edits(edits)) == edits
