from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dray.agent.config.last_known import LastKnown
from dray.runtime.files.checkpoint_format import Format


class Known(msgspec.Struct, frozen=True):
    text: str


LAYOUT = Format(Known)


def test_it_outlives_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "a" / "known"
    assert LastKnown(path, LAYOUT).load() is None
    LastKnown(path, LAYOUT).save(Known("x"))
    again = LastKnown(path, LAYOUT)
    assert again.load() == Known("x")
    before = path.stat().st_ino
    again.save(Known("x"))
    assert path.stat().st_ino == before, "the same need not be written"
    again.save(Known("y"))
    assert LastKnown(path, LAYOUT).load() == Known("y")
    assert [one.name for one in path.parent.iterdir()] == ["known"]


@pytest.mark.parametrize("content", [b"", b"junk", LAYOUT.encode(Known("x"))[:-1]])
def test_what_cannot_be_used_is_told_and_written_anew(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "known"
    path.write_bytes(content)
    known = LastKnown(path, LAYOUT)
    assert known.load() is None
    assert "not usable" in caplog.text
    known.save(Known("z"))
    assert known.load() == Known("z")


def test_trouble_is_told_once_and_breaks_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("no directory")
    known = LastKnown(tmp_path / "file" / "known", LAYOUT)
    known.save(Known("x"))
    known.save(Known("x"))
    assert caplog.text.count("not saved") == 1
    (tmp_path / "known").mkdir()
    assert LastKnown(tmp_path / "known", LAYOUT).load() is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(LAYOUT.encode(Known("x")))
    (tmp_path / "known").symlink_to("elsewhere")
    assert LastKnown(tmp_path / "known", LAYOUT).load() is None
