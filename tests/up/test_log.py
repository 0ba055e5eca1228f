"""The log of a `dray up` in the background."""

from __future__ import annotations

from pathlib import Path

from dray.up.log import rotate, tail


def test_a_long_log_moves_on_while_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "dray.log"
    assert not rotate(path)
    with path.open("ab", buffering=0) as writer:
        for number in range(5):
            writer.write(b"%d" % number * 20)
            assert rotate(path, limit=10)
            assert path.stat().st_size == 0
        assert not rotate(path, limit=10)
        writer.write(b"last")
    assert path.read_text() == "last"
    older = {one.name: one.read_text()[0] for one in tmp_path.iterdir() if one != path}
    assert older == {"dray.log.1": "4", "dray.log.2": "3", "dray.log.3": "2"}


def test_a_log_that_cannot_be_copied_is_cut_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "dray.log"
    (tmp_path / "dray.log.1").symlink_to("/dev/full")
    path.write_text("x" * 20)
    assert rotate(path, limit=10, older=1)
    assert path.read_text() == "" and not (tmp_path / "dray.log.1").is_symlink()


def test_a_log_that_cannot_be_moved_stays(tmp_path: Path) -> None:
    path = tmp_path / "dray.log"
    (tmp_path / "dray.log.2").touch()
    (tmp_path / "dray.log.3").mkdir()
    path.write_text("x" * 20)
    assert not rotate(path, limit=10)
    assert path.read_text() == "x" * 20


def test_its_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "dray.log"
    assert tail(path) == []
    path.write_bytes(b"one\ntwo\nthree \xff\n")
    assert tail(path, 2) == ["two", "three \ufffd"]
    assert tail(path, since=4) == ["two", "three \ufffd"]
    assert tail(path, since=1000) == ["one", "two", "three \ufffd"], "it was rotated meanwhile"
    path.write_text("x\n" * 100_000)
    assert len(tail(path, 15)) == 15
