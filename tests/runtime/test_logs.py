from __future__ import annotations

import io
import json
import logging

from hypothesis import given
from hypothesis import strategies as st

from dray.runtime.logs import LogFormat, get_log, say_as_started, say_more, setup_logs


def _written(log_format: LogFormat, level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    setup_logs(log_format, level, stream)
    return stream


def test_text_line() -> None:
    stream = _written("text")
    get_log("client.watch").info(
        "watch ended", resource="pods", events=3, why='said "bye"\nand left', path="/a=b"
    )
    line = stream.getvalue()
    assert line.count("\n") == 1
    _, _, rest = line.partition(" ")
    assert rest == (
        'level=info part=client.watch msg="watch ended" resource=pods events=3 why="said \\"bye\\"\\nand left" path="/a=b"\n'
    )


def test_json_line_with_a_traceback_stays_one_line() -> None:
    stream = _written("json")
    try:
        raise ValueError("no\ngood")
    except ValueError:
        get_log("agent").exception("failed", msg="mine", device={"a": 1})
    facts = json.loads(stream.getvalue())
    assert stream.getvalue().count("\n") == 1
    assert facts["level"] == "error"
    assert facts["msg"] == "failed"
    assert facts["msg_"] == "mine"
    assert facts["device"] == {"a": 1}
    assert "ValueError: no\ngood" in facts["traceback"]


def test_levels_and_percent_signs_and_foreign_records() -> None:
    stream = _written("text", "warning")
    get_log("x").info("not shown")
    get_log("x").debug("not shown")
    get_log("x").warning("100 % full, %s")
    logging.getLogger("aiohttp.access").warning("foreign %d", 7)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert 'msg="100 % full, %s"' in lines[0]
    assert 'part=aiohttp.access msg="foreign 7"' in lines[1]


@given(st.text(), st.sampled_from(["text", "json"]))
def test_whatever_a_value_holds_it_stays_on_one_line(value: str, log_format: LogFormat) -> None:
    stream = _written(log_format)
    get_log("x").error(value, value=value)
    assert len(stream.getvalue().splitlines()) == 1


def test_the_level_can_be_changed_and_the_log_says_so_at_every_level() -> None:
    stream = _written("json", "error")
    for _ in range(4):
        say_more("asked")
    get_log("x").debug("shown now")
    say_as_started("enough")
    get_log("x").warning("not shown")
    say_as_started("again")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(one["msg"], one.get("was"), one.get("log_level")) for one in lines] == [
        ("log level", "error", "warning"),
        ("log level", "warning", "info"),
        ("log level", "info", "debug"),
        ("log level", "debug", "debug"),
        ("shown now", None, None),
        ("log level", "debug", "error"),
        ("log level", "error", "error"),
    ]
    assert lines[0]["why"] == "asked"
