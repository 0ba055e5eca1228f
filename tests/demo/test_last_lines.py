"""The last lines of the log are there for a failure, and nothing else is said because of them."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from dray.demo.last_lines import keep_last_lines
from dray.runtime.logs import get_log, setup_logs


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_the_newest_lines_are_kept_and_the_flag_counts_for_the_others() -> None:
    stream = io.StringIO()
    setup_logs("text", "error", stream)
    log = get_log("part")
    with keep_last_lines() as kept:
        for number in range(20):
            log.info("passed", number=number)
        get_log("client.reflector").warning("the server went away")
        log.error("broke")
    log.error("later")
    assert len(kept.lines) == 8 and "msg=broke" in kept.lines[-1] and "number=19" in kept.lines[-2]
    assert [line.rpartition("msg=")[2] for line in stream.getvalue().splitlines()] == ["broke", "later"]
    assert logging.getLogger().level == logging.ERROR
