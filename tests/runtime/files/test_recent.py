from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from dray.errors import Error
from dray.runtime.files.checkpoint_format import Format
from dray.runtime.files.recent import Recent


class Names(msgspec.Struct, frozen=True):
    names: tuple[str, ...] = ()


FORMAT = Format(Names)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A checkpoint that is there."""
    found = tmp_path / "state"
    found.write_bytes(FORMAT.encode(Names()))
    return found


def recent(path: Path) -> Recent[Names]:
    """As another process has it."""
    return Recent(path, FORMAT)


def rewrite(path: Path) -> None:
    """The same content in another file, as a checkpoint is written."""
    fresh = path.with_name("fresh")
    fresh.write_bytes(path.read_bytes())
    fresh.rename(path)


def test_it_is_there_for_the_next_process(path: Path) -> None:
    one = recent(path)
    assert one.read() is None
    wanted = Names(("a",))
    one.write(wanted)
    assert one.read() is wanted
    assert recent(path).read() == wanted
    one.write(Names(("b",)))
    assert recent(path).read() == Names(("b",))
    assert sorted(os.listdir(path.parent)) == ["state", "state.recent"]


def test_it_does_not_count_after_a_later_write_of_the_checkpoint_even_of_equal_content(path: Path) -> None:
    one = recent(path)
    one.write(Names(("a",)))
    rewrite(path)
    assert one.read() is None
    assert recent(path).read() is None
    one.remove()
    assert os.listdir(path.parent) == ["state"]
    one.remove()


@pytest.mark.parametrize("harm", ["empty", "cut", "garbage", "link", "directory", "large"])
def test_a_damaged_one_does_not_count_and_is_replaced(path: Path, harm: str) -> None:
    recent(path).write(Names(("a",)))
    file = path.with_name("state.recent")
    good = file.read_bytes()
    file.unlink()
    if harm == "link":
        file.symlink_to("/etc/passwd")
    elif harm == "directory":
        file.mkdir()
    else:
        content = {
            "empty": b"",
            "cut": good[:-3],
            "garbage": os.urandom(50),
            "large": good + b" " * (1 << 25),
        }
        file.write_bytes(content[harm])
    one = recent(path)
    assert one.read() is None
    assert one.salvage() is None
    if harm == "directory":
        with pytest.raises(Error):
            one.write(Names(("b",)))
        return
    one.write(Names(("b",)))
    assert one.read() == recent(path).read() == Names(("b",))


def test_without_a_checkpoint_there_is_none(path: Path) -> None:
    recent(path).write(Names(("a",)))
    path.unlink()
    assert recent(path).read() is None
    assert recent(path).salvage() == Names(("a",))
