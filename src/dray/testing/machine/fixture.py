"""`machine` as a pytest fixture: one guest for the whole session, started by the first test that asks for it.

Switch it on in a test module: `pytest_plugins = ("dray.testing.machine.fixture",)`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from dray.errors import Error
from dray.testing.machine.install import check_machine
from dray.testing.machine.machine import Machine
from dray.testing.machine.parts import locate

_STARTED = pytest.StashKey[list[Machine]]()


@pytest.fixture(scope="session")
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """The guest, shared: leave its devices as they were. Ends the run with one line where none can be started."""
    session: pytest.Session = request.session
    try:
        check_machine()
        logs = session.config.rootpath / "build" / "e2e-logs" / time.strftime("%Y%m%d-%H%M%S")
        guest = Machine(locate(), save_logs=logs)
    except Error as error:
        pytest.exit(str(error), returncode=2)
    session.config.stash.setdefault(_STARTED, []).append(guest)
    failed_before = session.testsfailed
    with guest:
        yield guest
        guest.failed = session.testsfailed > failed_before


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """After a failure, say where the guest's console is, and show how it ends."""
    for guest in config.stash.get(_STARTED, []):
        if guest.saved_logs is not None:
            terminalreporter.section(f"logs of the guest: {guest.saved_logs}")
            terminalreporter.write_line(guest.log_ends())
