"""Fixtures of the tests that change a host made of files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dray.hardware.change.access import Access, Limits
from dray.hardware.change.executor import Audit, AuditEntry, Executor, Outcome
from dray.testing.host import Host

QUICK = Limits(effect=1.0, node=1.0, process=20)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    host = Host(tmp_path / "root")
    with host.active():
        yield host


@pytest.fixture
def entries() -> list[AuditEntry]:
    """What was reported to the audit hook."""
    return []


@pytest.fixture
def audit(host: Host, entries: list[AuditEntry]) -> Audit:
    """Keeps the reports. After a change it lets the host's thread finish, so that a test may look at its objects."""

    def keep(entry: AuditEntry) -> None:
        entries.append(entry)
        if entry.outcome is not Outcome.STARTED:
            host.settle()

    return keep


@pytest.fixture
def executor(host: Host, audit: Audit) -> Executor:
    """Runs all changes in this process; effects may take 5 s, as on a slow host."""
    return Executor(host.root, audit, isolate=False)


@pytest.fixture
def quick(host: Host, audit: Audit) -> Executor:
    """The same, for effects that will not come."""
    return Executor(host.root, audit, limits=QUICK, isolate=False)


@pytest.fixture
def access(host: Host) -> Access:
    return Access(host.root)
