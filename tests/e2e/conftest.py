"""Fixtures over a real Kubernetes. `apiserver`, `killable`, `gated`: etcd and API server; `cluster`: a whole node. For the session.

Install the parts first: `make e2e` does, or `python -m dray.testing.kubernetes install`. With pytest-xdist (`-n 3`) lanes.py
says which files run beside each other; a fixture of the session is then one of each process that has tests for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from dray.errors import Error
from dray.testing.kubernetes import leftovers
from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.control_plane import ControlPlane
from dray.testing.kubernetes.footprint import footprint
from dray.testing.kubernetes.install import check_machine
from dray.testing.kubernetes.part import last_lines
from dray.testing.kubernetes.tools import Tools, locate
from tests.e2e import lanes

TOOLS = Path(__file__).parent / "tools"
LOGS = Path(__file__).parents[2] / "build" / "e2e-logs"
SAVED = pytest.StashKey[list[ControlPlane]]()
BEFORE = pytest.StashKey[frozenset[str]]()
CHANGED = pytest.StashKey[list[str]]()
BEGAN = pytest.StashKey[float]()
Running = TypeVar("Running", bound=ControlPlane)


@pytest.fixture(scope="session")
def tools(pytestconfig: pytest.Config) -> Iterator[Tools]:
    """The installed programs; after everything that uses them is stopped, the machine must look as before.

    Where several processes run tests at once, that is looked at once for all of them: see `pytest_sessionfinish`.
    Ends the run with one line where this machine cannot run them.
    """
    found = locate(TOOLS)
    try:
        check_machine()
    except Error as error:
        pytest.exit(str(error), returncode=2)
    if missing := found.missing():
        line = f"not installed: {', '.join(missing)}. Run `make e2e`, or `python -m dray.testing.kubernetes install`."
        pytest.exit(line, returncode=2)
    if hasattr(pytestconfig, "workerinput"):
        yield found
        return
    leftovers.sweep_dead()
    before = footprint()
    yield found
    assert changes(before, footprint()) == []


def changes(before: frozenset[str], after: frozenset[str]) -> list[str]:
    return [f"left behind: {one}" for one in sorted(after - before)] + [
        f"removed: {one}" for one in sorted(before - after)
    ]


@pytest.fixture(scope="session")
def apiserver(tools: Tools, request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A real API server with its etcd, no node. Shared by the session: use names of your own and clean them up."""
    yield from _running(ControlPlane(tools, save_logs=_log_dir()), request)


@pytest.fixture(scope="session")
def killable(tools: Tools, request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """As `apiserver`, but tests may kill it, and make etcd forget its history: they start it again."""
    yield from _running(ControlPlane(tools, save_logs=_log_dir()), request)


@pytest.fixture(scope="session")
def gated(tools: Tools, request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """As `apiserver`, with features that are alpha in 1.36: without them it drops fields that Dray's keeps and validates."""
    gates = {"DRAListTypeAttributes": True, "DRANodeAllocatableResources": True}
    yield from _running(ControlPlane(tools, feature_gates=gates, save_logs=_log_dir()), request)


@pytest.fixture(scope="session")
def cluster(tools: Tools, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A whole real node, Ready. Shared by the session: use names of your own and clean them up."""
    yield from _running(Cluster(tools, save_logs=_log_dir()), request)


def _log_dir() -> Path:
    return LOGS / time.strftime("%Y%m%d-%H%M%S")


def _running(parts: Running, request: pytest.FixtureRequest) -> Iterator[Running]:
    """Run the parts for the session. The logs are kept when a test failed meanwhile, or the start did."""
    session: pytest.Session = request.session
    session.config.stash.setdefault(SAVED, []).append(parts)
    failed_before = session.testsfailed
    with parts:
        yield parts
        parts.failed = session.testsfailed > failed_before


# Several processes at once. These hooks do nothing in the processes that run the tests, and nothing without pytest-xdist.


def is_leader(config: pytest.Config) -> bool:
    """Whether this process only hands out tests to others."""
    return bool(config.getoption("numprocesses", None)) and not hasattr(config, "workerinput")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    config.option.loadscopereorder = False  # lanes.in_order has ordered them by length
    return lanes.Scheduler(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items[:] = lanes.in_order(items)


def pytest_sessionstart(session: pytest.Session) -> None:
    if is_leader(session.config):
        session.config.stash[BEGAN] = time.time()
        leftovers.sweep_dead()
        session.config.stash[BEFORE] = footprint()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """All processes have ended: the machine must look as before."""
    before = session.config.stash.get(BEFORE, None)
    if before is not None and (found := changes(before, footprint())):
        session.config.stash[CHANGED] = found
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """After a failure, say where the logs of the parts are, and show how each ends."""
    for parts in config.stash.get(SAVED, []):
        if parts.saved_logs is not None:
            terminalreporter.section(f"logs of the real parts: {parts.saved_logs}")
            terminalreporter.write_line(parts.log_ends())
    began = config.stash.get(BEGAN, time.time())
    for directory in sorted(LOGS.glob("*")):
        logs = [log for log in sorted(directory.rglob("*.log")) if log.stat().st_ctime > began]
        if logs:
            terminalreporter.section(f"logs of the real parts: {directory}")
        for log in logs:
            terminalreporter.write_line(f"--- {log.relative_to(directory)}\n{last_lines(log, 5)}")
    if found := config.stash.get(CHANGED, []):
        terminalreporter.section("the machine does not look as before")
        for line in found:
            terminalreporter.write_line(line, red=True)
