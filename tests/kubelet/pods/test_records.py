from __future__ import annotations

from pathlib import Path

import pytest

from dray.errors import InvalidError
from dray.kubelet.pods.publish import FileStatuses
from dray.kubelet.pods.records import Record, Records
from dray.kubelet.rejection import Rejection
from dray.runtime.files.durable import temporary_name
from tests.kubelet.pods.pods import pod


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    records = Records(tmp_path / "records")
    assert records.load() == {}
    record = Record(pod("a", inits=("i",)), "file", Rejection("R", "m"), ended=True)
    records.save(record)
    assert Records(tmp_path / "records").load() == {"u1": record}
    records.save(Record(pod("b"), "api"))
    assert Records(tmp_path / "records").load() == {"u1": Record(pod("b"), "api")}
    records.remove("u1")
    records.remove("u1")
    assert records.load() == {}


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"pod": 1}', b'{"source": "x"}', b"[]"])
def test_a_broken_record_is_set_aside_and_hides_no_other(tmp_path: Path, content: bytes) -> None:
    records = Records(tmp_path)
    records.save(Record(pod("a"), "api"))
    (tmp_path / "u0.json").write_bytes(content)
    assert list(records.load()) == ["u1"]
    assert (tmp_path / "u0.unreadable").read_bytes() == content
    assert list(records.load()) == ["u1"]


def test_a_uid_that_is_no_file_name_is_refused(tmp_path: Path) -> None:
    for uid in ("", "../x", ".hidden", "a/b"):
        with pytest.raises(InvalidError, match="cannot name a file"):
            Records(tmp_path).remove(uid)


def test_what_kills_left_half_written_does_not_pile_up(tmp_path: Path) -> None:
    (tmp_path / temporary_name()).write_bytes(b"{")
    Records(tmp_path)
    FileStatuses(tmp_path)
    assert list(tmp_path.iterdir()) == []
