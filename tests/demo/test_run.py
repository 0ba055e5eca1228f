"""A demonstration that does not come to its end leaves nothing behind either."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from dray.demo.run import Audience, Demo, DemoOptions
from dray.errors import InvalidError, UnavailableError
from dray.up.place import DATA_DIR_BYTES, RunningUp


async def test_a_step_that_does_not_come_is_named_and_all_is_cleaned_up(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    found: list[RunningUp] = []
    demo = Demo(DemoOptions("process", patience=0.0), Audience(ready=found.append))
    with pytest.raises(UnavailableError, match="waited 0 s for"):
        await demo.run()
    assert demo.story.where.startswith("DRA: ") and found[0].runtime == "process"
    assert list(short.iterdir()) == []


async def test_what_is_to_be_kept_stays(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    demo = Demo(DemoOptions("nonsense", keep=True), Audience())
    with pytest.raises(InvalidError, match="--runtime 'nonsense'"):
        await demo.run()
    assert demo.place.data_dir.is_dir() and demo.story.where == "the start"


def test_names_of_sockets_stay_short_enough(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = short / ("x" * 60)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    demo = Demo(DemoOptions(), Audience())
    try:
        assert len(str(demo.place.data_dir)) <= DATA_DIR_BYTES and not list(deep.iterdir())
    finally:
        demo.place.data_dir.rmdir()
