"""Tables, colours and documents."""

from __future__ import annotations

import sys

import pytest

from dray.cli import tables
from dray.cli.tables import Column, Row, Table, clean, has_colour, listed, print_documents

TABLE = Table(
    (Column("NAME"), Column("STATE", state=True), Column("WHY", cut=True), Column("UID", wide=True)),
    (
        Row(("a",), ("a", "pending", "there is no device of that kind anywhere", "1")),
        Row(("b",), ("long-name", "reserved", "", "2")),
    ),
)


def test_columns_are_as_wide_as_they_must_be() -> None:
    assert TABLE.lines() == [
        "NAME        STATE      WHY",
        "a           pending    there is no device of that kind anywhere",
        "long-name   reserved   -",
    ]
    assert TABLE.lines(wide=True)[2].endswith("-                                          2")
    assert TABLE.lines(header=False)[0].startswith("a           pending")
    assert TABLE.without("STATE", "WHY").lines(wide=True) == [
        "NAME        UID",
        "a           1",
        "long-name   2",
    ]


def test_a_narrow_terminal_cuts_what_may_be_cut() -> None:
    lines = TABLE.lines(width=40)
    assert lines[1] == "a           pending    there is no devi…"
    assert max(map(len, lines)) == 40
    assert TABLE.lines(width=5)[1] == "a           pending    there is no…"
    assert TABLE.lines(width=40, wide=True) == TABLE.lines(wide=True)


def test_states_have_colours_and_stay_aligned() -> None:
    head, pending, reserved = TABLE.lines(colour=True)
    assert "\033" not in head
    assert pending.startswith("a           \033[33mpending \033[0m   there")
    assert reserved == "long-name   \033[32mreserved\033[0m   -"


@pytest.mark.parametrize(
    ("environment", "terminal", "wanted"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_when_there_are_colours(
    environment: dict[str, str], terminal: bool, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    assert has_colour() is wanted


def test_text_of_others_stays_on_its_line() -> None:
    assert clean("a\n b\t\033[31mred\x07") == "a b \ufffd[31mred\ufffd"
    assert clean("Grüße, 世界") == "Grüße, 世界"


def test_lists_are_shortened() -> None:
    assert listed([]) == "-"
    assert listed("abc") == "a, b, c"
    assert listed("abcde", most=2) == "a, b and 3 more"


def test_one_document_or_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    print_documents([{"kind": "Pod"}], "yaml", single=True)
    assert capsys.readouterr().out == "kind: Pod\n"
    print_documents([{"kind": "Pod"}], "yaml")
    assert capsys.readouterr().out.startswith("apiVersion: v1\nkind: List\n")


def test_nothing_is_cut_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert tables.terminal_width() is None
