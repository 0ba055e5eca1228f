from __future__ import annotations

import argparse
import os
import tomllib
from pathlib import Path

import pytest

from dray.cli import new
from dray.errors import ConflictError, Error, InvalidError


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    new.add_arguments(parser)
    return new.run(parser.parse_args(["driver", *words]))


def test_it_says_what_it_wrote_and_what_is_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("lamp") == 0
    out = capsys.readouterr().out
    assert out.startswith("lamp-driver: driver lamp.example.com, resource example.com/lamp\n")
    assert "src/lamp_driver/__init__.py" in out and "python -m pytest" in out
    assert os.listdir(tmp_path) == ["lamp-driver"]
    project = tomllib.loads((tmp_path / "lamp-driver/pyproject.toml").read_text())["project"]
    assert project["entry-points"]["dray.drivers"] == {"lamp": "lamp_driver:LampDriver"}


def test_a_domain_and_a_place_of_its_own(tmp_path: Path) -> None:
    assert run("desk-lamp.acme.io", "--directory", str(tmp_path / "deep/er")) == 0
    text = (tmp_path / "deep/er/src/desk_lamp_driver/__init__.py").read_text()
    assert 'name = "desk-lamp.acme.io"' in text and "class DeskLampDriver(Driver)" in text


@pytest.mark.parametrize(
    "name", ["", "Lamp", "0lamp", "lamp_x", "-lamp", "lamp-", "a/b", "..", "lamp.", "lamp..io", "l" * 41]
)
def test_names_that_no_driver_can_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidError) as caught:
        run("--directory", str(tmp_path / "x"), "--", name)
    assert caught.value.field == "NAME"
    assert os.listdir(tmp_path) == []


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "file").write_text("mine")
    for name in ("there", "link", "file"):
        with pytest.raises(ConflictError, match="exists already"):
            run("lamp", "--directory", str(tmp_path / name))
    assert sorted(os.listdir(tmp_path)) == ["file", "link", "there"]
    assert (tmp_path / "file").read_text() == "mine"


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Error, match="file"):
        run("lamp", "--directory", str(tmp_path / "file/below"))
    assert os.listdir(tmp_path) == ["file"]
