from __future__ import annotations

from typing import Any

import pytest

from dray.cdi.document import read_document
from dray.cdi.spec import Edits, HookEdit, NodeEdit, RdtEdit
from dray.cdi.typed import Reading, to_struct


def node(number: str) -> tuple[Any, list[str]]:
    reading = Reading()
    made = to_struct(read_document(f"{{path: /dev/x, uid: {number}}}", "f").root, NodeEdit, reading)
    return made.uid, [str(fault) for fault in reading.faults]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("0660", 432),
        ("0o660", 432),
        ("0x1f", 31),
        ("0b11", 3),
        ("08", 8),
        ("1_000", 1000),
        ("1e3", 1000),
        ("1.0", 1),
        ("+7", 7),
        ("-0", 0),
        ("4294967295", 2**32 - 1),
        ("~", None),
        ("null", None),
    ],
)
def test_numbers_as_runtimes_read_them(text: str, number: int | None) -> None:
    assert node(text) == (number, [])


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("'5'", "uid: must be a whole number, without quotes"),
        ("1.5", "uid: must be a whole number, not '1.5'"),
        ("word", "uid: must be a whole number, not 'word'"),
        ("_1", "uid: must be a whole number, not '_1'"),
        ("[1]", "uid: must be a whole number"),
        ("-1", "uid: must be between 0 and 4294967295, not -1"),
        ("4294967296", "uid: must be between 0 and 4294967295, not 4294967296"),
        ("9" * 500, f"uid: must be a whole number, not '{'9' * 40}'"),
    ],
)
def test_numbers_that_are_none(text: str, fault: str) -> None:
    assert node(text) == (None, [fault])


def rdt(text: str) -> bool | str:
    reading = Reading()
    made = to_struct(read_document(f"enableMonitoring: {text}", "f").root, RdtEdit, reading)
    return reading.faults[0].message if reading.faults else made.enable_monitoring


def test_words_for_yes_and_no() -> None:
    assert [rdt(text) for text in ("true", "yes", "On", '"y"')] == [True] * 4
    assert [rdt(text) for text in ("False", "no", "OFF", "~")] == [False] * 4
    assert [rdt(text) for text in ("1", '"true"', "[]")] == ["must be true or false"] * 3


def test_texts_may_look_like_numbers_and_nulls_are_not_there() -> None:
    reading = Reading()
    text = "{hookName: 5, path: 0x10, args: [true, ~, 1e3], env: ~}"
    made = to_struct(read_document(text, "f").root, HookEdit, reading)
    assert (made, reading.faults) == (HookEdit("5", "0x10", ("true", "1e3")), [])


def test_every_fault_is_told_and_the_rest_is_there() -> None:
    reading = Reading()
    text = "env: x\nmonts: []\ndeviceNodes:\n- {path: [a], type: c}\n- ~\n- {path: /dev/y}\nadditionalGids: [5, x]\n"
    made = to_struct(read_document(text, "f").root, Edits, reading)
    assert [str(fault) for fault in reading.faults] == [
        "env: must be a list",
        'monts: unknown field: did you mean "mounts"?',
        "deviceNodes[0].path: must be a string",
        "deviceNodes[1]: must be a map",
        "additionalGids[1]: must be a whole number, not 'x'",
    ]
    assert made.device_nodes == (NodeEdit("", type="c"), NodeEdit(""), NodeEdit("/dev/y"))
    assert reading.lines["deviceNodes[2].path"] == 6


def test_aliases_cannot_blow_up_a_file() -> None:
    """Many values behind a short text."""
    entries = ", ".join(["*n"] * 100_000)
    text = (
        f"env: &e [{', '.join(['A=1'] * 1000)}]\nhooks: [&n {{hookName: x, path: /x, env: *e}}, {entries}]\n"
    )
    reading = Reading()
    to_struct(read_document(text, "f").root, Edits, reading)
    assert [fault.message for fault in reading.faults] == ["more than 200000 values"]
