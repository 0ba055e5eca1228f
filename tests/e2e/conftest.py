"""Fixtures over a real Kubernetes. `apiserver`: etcd and API server; `cluster`: a whole node. Both for the session.

Install the parts first: `make e2e` does, or `python -m dray.testing.kubernetes install`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from dray.errors import Error
from dray.testing.kubernetes import leftovers
from dray.testing.kubernetes.cluster import Cluster
from dray.testing.kubernetes.control_plane import ControlPlane
from dray.testing.kubernetes.footprint import footprint
from dray.testing.kubernetes.install import check_machine
from dray.testing.kubernetes.tools import Tools, locate

TOOLS = Path(__file__).parent / "tools"
LOGS = Path(__file__).parents[2] / "build" / "e2e-logs"
SAVED = pytest.StashKey[list[ControlPlane]]()
Running = TypeVar("Running", bound=ControlPlane)


@pytest.fixture(scope="session")
def tools() -> Iterator[Tools]:
    """The installed programs; after everything that uses them is stopped, the machine must look as before.

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
    leftovers.sweep_dead()
    before = footprint()
    yield found
    after = footprint()
    assert sorted(after - before) == [], "left behind"
    assert sorted(before - after) == [], "removed"


@pytest.fixture(scope="session")
def apiserver(tools: Tools, request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A real API server with its etcd, no node. Shared by the session: use names of your own and clean them up."""
    yield from _running(ControlPlane(tools, save_logs=_log_dir()), request)


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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """After a failure, say where the logs of the parts are, and show how each ends."""
    for parts in config.stash.get(SAVED, []):
        if parts.saved_logs is not None:
            terminalreporter.section(f"logs of the real parts: {parts.saved_logs}")
            terminalreporter.write_line(parts.log_ends())
