from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dray.errors import InvalidError
from dray.runtime.files.inotify import Inotify, parse_events
from tests.campaign import campaign


def test_a_watch_tells_of_each_name_and_draining_never_blocks(tmp_path: Path) -> None:
    inotify = Inotify()
    descriptor = os.open(tmp_path, os.O_PATH)
    try:
        watch = inotify.watch_directory(descriptor)
        assert inotify.watch_directory(descriptor) == watch
        assert inotify.drain() == []
        (tmp_path / "a").touch()
        (tmp_path / "a").rename(tmp_path / "b")
        (tmp_path / "b").unlink()
        events = inotify.drain()
        assert [(event.watch, event.name, event.is_arrival) for event in events] == [
            (watch, "a", True),
            (watch, "a", False),
            (watch, "b", True),
            (watch, "b", False),
        ]
    finally:
        os.close(descriptor)
        inotify.close()


def test_watches_that_are_not_kept_end(tmp_path: Path) -> None:
    inotify = Inotify()
    descriptor = os.open(tmp_path, os.O_PATH)
    try:
        watch = inotify.watch_directory(descriptor)
        inotify.keep_only(set())
        assert [(event.watch, event.is_end) for event in inotify.drain()] == [(watch, True)]
        (tmp_path / "a").touch()
        assert inotify.drain() == []
    finally:
        os.close(descriptor)
        inotify.close()


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    inotify = Inotify()
    descriptor = os.open(tmp_path / "file", os.O_PATH)
    try:
        with pytest.raises(InvalidError, match="not a directory"):
            inotify.watch_directory(descriptor)
    finally:
        os.close(descriptor)
        inotify.close()


@settings(max_examples=campaign(200, 50_000))
@given(st.binary(max_size=200))
def test_any_bytes_parse_to_an_end(data: bytes) -> None:
    assert len(parse_events(data)) <= len(data) // 16


@settings(max_examples=campaign(100, 10_000))
@given(st.lists(st.tuples(st.integers(-1, 2**31 - 1), st.integers(0, 2**32 - 1), st.binary(max_size=40))))
def test_records_come_out_as_they_went_in(records: list[tuple[int, int, bytes]]) -> None:
    records = [(watch, mask, name.replace(b"\0", b"-")) for watch, mask, name in records]
    data = b"".join(
        struct.pack("iIII", watch, mask, 0, len(name) + 4) + name + b"\0\0\0\0"
        for watch, mask, name in records
    )
    parsed = [(event.watch, event.mask, os.fsencode(event.name)) for event in parse_events(data)]
    assert parsed == records
