from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

from dray.hardware.nvml.reading import read_gpus
from dray.hardware.nvml.recorded import Recorded
from dray.testing.nvml import recorder
from dray.testing.nvml.__main__ import main
from dray.testing.nvml.machine import recording
from tests.hardware.nvml.small_library import SmallLibrary, loaded


def test_it_needs_the_bindings_alone() -> None:
    """It is run on machines that have neither this package nor what this package needs."""
    tree = ast.parse(Path(recorder.__file__).read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) == {"pynvml"}


def test_it_changes_nothing() -> None:
    text = Path(recorder.__file__).read_text()
    assert not [
        word for word in ("Set", "Create", "Destroy", "Reset", "Clear") if f'"nvmlDevice{word}' in text
    ]


@pytest.mark.parametrize("name", ["h200", "a100-mig", "eight-h100"])
def test_what_it_writes_plays_back_the_same(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    cards = recording(name)
    with loaded(SmallLibrary(cards)):
        assert main(["record"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written["events"]["wait"]["error"] == 10
    assert all(written["events"][f"register {index}"] is None for index in range(len(cards.cards)))
    with cards.open() as before, Recorded(written).open() as after:
        assert read_gpus(after) == read_gpus(before)


def test_a_lost_card_is_recorded_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    cards = recording("h200")
    cards.lose(cards.cards[0].uuid)
    with loaded(SmallLibrary(cards)):
        written = recorder.gpu(0)
    assert written["handle"]["error"] == 15
    assert capsys.readouterr().out == ""


def test_serial_numbers_and_processes_are_left_out() -> None:
    said = "<gpu><serial>1650</serial><uuid>GPU-1</uuid><processes><pid>7</pid>\n</processes></gpu>"
    assert recorder._PRIVATE.sub("", said) == "<gpu><uuid>GPU-1</uuid></gpu>"
    committed = (Path(recorder.__file__).parent / "recordings/h200.json").read_text()
    assert "<serial>" not in committed
    assert "<process_info>" not in committed
