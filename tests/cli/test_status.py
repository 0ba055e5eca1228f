"""What `dray status` says."""

from __future__ import annotations

from dray.cli.status import as_document, as_lines
from dray.up.place import Supervising
from dray.up.status import OK, Status
from tests.cli.test_up import running

SUPERVISOR = Supervising(pid=7, start_time=1, boot="", child=8, restarts=3, last="signal SIGKILL")


def test_one_that_runs() -> None:
    counts = {"nodes": {"Ready": 1}, "devices": {"published": 2, "allocated": 1}, "claims": {}}
    found = Status(running(), SUPERVISOR, parts={"API server": OK, "agent": "x: starting"}, counts=counts)
    text = "\n".join(as_lines(found, "/d"))
    for told in (
        "restarts: 3, the last after signal SIGKILL",
        "DRA devices   1 allocated, 2 published",
        "x: starting",
    ):
        assert told in text, told
    assert "claims        none" in text
    assert not found.is_healthy
    document = as_document(found, "/d")
    assert document["state"] == "running" and document["healthy"] is False
    assert document["supervisor"]["restarts"] == 3 and document["parts"]["API server"] == "ok"


def test_one_whose_supervisor_is_gone_is_told() -> None:
    text = "\n".join(as_lines(Status(running(supervisor="dray"), None, parts={"agent": OK}), "/d"))
    assert "gone: nobody starts it again" in text


def test_colours_are_for_terminals() -> None:
    found = Status(running(), None, parts={"agent": OK})
    assert "\033" not in "\n".join(as_lines(found, "/d"))
    assert "\033[32mok" in "\n".join(as_lines(found, "/d", colour=True))


def test_one_that_does_not_run() -> None:
    assert as_lines(Status(None, None), "/d") == ["Dray does not run on /d; `dray up` starts it."]
    (line,) = as_lines(Status(None, SUPERVISOR), "/d")
    assert "signal SIGKILL" in line and "starts it again; restarts so far: 3" in line
    assert as_document(Status(None, SUPERVISOR), "/d")["state"] == "restarting"
    assert as_document(Status(None, None), "/d") | {"running": 0} == {
        "state": "down",
        "healthy": False,
        "dataDir": "/d",
        "running": 0,
        "supervisor": None,
        "parts": {},
        "counts": {},
    }


def test_one_that_starts() -> None:
    found = Status(None, None, is_starting=True)
    assert as_document(found, "/d")["state"] == "starting"
    assert "not ready yet" in as_lines(found, "/d")[0]
