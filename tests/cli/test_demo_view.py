"""How the words of a demonstration look."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.cli.demo_view import View
from dray.demo.story import Output, Road, Stage, Step


def test_words_have_their_places() -> None:
    view = View(colour=False, width=60)
    assert view.lines(Road("dra", "A road")) == ["", "A road"]
    assert view.lines(Stage(3, "A stage")) == ["", "       3  A stage"]
    assert view.lines(Step("kubelet", "did it", ms=12.4)) == ["  +12 ms  kubelet      did it"]
    assert view.lines(Step("agent", "did it before")) == ["          agent        did it before"]
    assert view.lines(Output("pod", ("a", "b"))) == [" " * 23 + "| a", " " * 23 + "| b"]


def test_long_lines_are_wrapped_below_their_beginning() -> None:
    step = Step(
        "scheduler",
        "chose one device out of a great many devices",
        "it was the very first of all of them",
        5.0,
    )
    assert View(colour=False, width=60).lines(step) == [
        "   +5 ms  scheduler    chose one device out of a great many",
        "                       devices",
        "                         (it was the very first of all of",
        "                         them)",
    ]


def test_a_container_cannot_steer_the_terminal() -> None:
    assert "\033" not in "".join(View(colour=True).lines(Output("pod", ("\033[2Jhello",))))


def test_colours_are_for_titles() -> None:
    assert View(colour=True).lines(Road("dra", "A road")) == ["", "\033[1mA road\033[0m"]


def test_the_end_says_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    View(colour=False).end(1.25, None)
    assert "in 1.2 s; its processes, sockets and files are gone." in capsys.readouterr().out
    View(colour=False).end(1.25, Path("/there"))
    assert "`dray up --data-dir /there` goes on with it" in capsys.readouterr().out
    View(colour=False, show=False).end(1.25, None)
    assert capsys.readouterr().out == ""
