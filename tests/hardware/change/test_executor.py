from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from dray.errors import ConflictError, HardwareError, NotFoundError
from dray.hardware.change import BindDriver, Chmod, CreateMdev, RemoveMdev, UnbindDriver
from dray.hardware.change.access import Limits
from dray.hardware.change.executor import Audit, AuditEntry, Executor, Outcome, log_changes
from dray.runtime.logs import setup_logs
from dray.testing.host import Host, MdevType

UUID = "83b8f4f2-509f-382f-3c1e-e6bfe0fa0001"
ADDRESS = "0000:05:00.0"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    setup_logs("json", "debug", stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def test_every_change_is_reported_before_and_after(
    host: Host, executor: Executor, entries: list[AuditEntry]
) -> None:
    parent = host.mdev_parent("mtty", {"mtty-1": MdevType(24)})
    change = CreateMdev("mtty", "mtty-1", UUID)
    seen: list[tuple[Outcome, bool]] = []

    def look(entry: AuditEntry) -> None:
        host.settle()
        seen.append((entry.outcome, UUID in parent.mdevs))

    Executor(host.root, look).apply(change)
    assert seen == [(Outcome.STARTED, False), (Outcome.CHANGED, True)]
    executor.apply(change)
    with pytest.raises(NotFoundError):
        executor.apply(Chmod("/dev/nothing", 0o600))
    assert [(entry.change, entry.outcome) for entry in entries] == [
        (change, Outcome.STARTED),
        (change, Outcome.ALREADY_SO),
        (Chmod("/dev/nothing", 0o600), Outcome.STARTED),
        (Chmod("/dev/nothing", 0o600), Outcome.FAILED),
    ]
    assert "/dev/nothing" in entries[-1].error and entries[-1].seconds > entries[0].seconds == 0


def test_nothing_is_touched_when_the_audit_refuses(host: Host) -> None:
    """An audit that cannot write its line stops the change."""
    parent = host.mdev_parent("mtty", {"mtty-1": MdevType(24)})

    def audit(entry: AuditEntry) -> None:
        raise HardwareError("the audit log is full")

    with pytest.raises(HardwareError, match="audit log"):
        Executor(host.root, audit).apply(CreateMdev("mtty", "mtty-1", UUID))
    assert not host.writes and not parent.mdevs


def test_the_log_has_one_line_a_change(host: Host, log: io.StringIO) -> None:
    host.mdev_parent("mtty", {"mtty-1": MdevType(24)})
    executor = Executor(host.root, log_changes)
    executor.apply(CreateMdev("mtty", "mtty-1", UUID))
    with pytest.raises(NotFoundError):
        executor.apply(Chmod("/dev/nothing", 0o600))
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    told = [line for line in lines if line["level"] != "debug"]
    assert [(line["level"], line["change"], line["outcome"]) for line in told] == [
        ("info", "CreateMdev", "changed"),
        ("warning", "Chmod", "failed"),
    ]
    assert told[0]["device"] == UUID and "on mtty" in told[0]["what"]
    assert "/dev/nothing" in told[1]["error"]
    assert len(lines) == 4


def test_all_or_nothing(host: Host, executor: Executor, entries: list[AuditEntry]) -> None:
    parent = host.mdev_parent("mtty", {"mtty-1": MdevType(24)})
    other = UUID.replace("0001", "0002")
    parent.create("mtty-1", other)
    node = host.char_device("/dev/kvm", 10, 232, mode=0o600)
    changes = [
        CreateMdev("mtty", "mtty-1", UUID),
        RemoveMdev(other),
        Chmod("/dev/kvm", 0o666),
        Chmod("/dev/nothing", 0o666),
    ]
    with pytest.raises(NotFoundError, match="nothing"):
        executor.apply_all(changes)
    assert list(parent.mdevs) == [other]
    assert (host.root / node.facts.path).stat().st_mode & 0o777 == 0o600
    assert entries[-1].change == RemoveMdev(UUID)
    assert len(executor.apply_all(changes[:3])) == 3


def test_a_rollback_goes_on_where_one_undo_fails(host: Host, executor: Executor) -> None:
    parent = host.mdev_parent("mtty", {"mtty-1": MdevType(24)})
    host.file("/dev/x", "", mode=0o600)
    host.file("/dev/y", "", mode=0o600)

    def audit(entry: AuditEntry) -> None:
        if entry.change.device == "/dev/y" and entry.outcome is Outcome.CHANGED:
            (host.root / "dev/y").unlink()

    with pytest.raises(NotFoundError, match="nothing"):
        Executor(host.root, audit, isolate=False).apply_all(
            [
                CreateMdev("mtty", "mtty-1", UUID),
                Chmod("/dev/x", 0o666),
                Chmod("/dev/y", 0o666),
                Chmod("/dev/nothing", 0),
            ]
        )
    host.settle()
    assert not parent.mdevs and (host.root / "dev/x").stat().st_mode & 0o777 == 0o600


def test_nothing_changed_is_nothing_to_undo(host: Host, executor: Executor) -> None:
    assert executor.undo(executor.apply(RemoveMdev(UUID))) is None


def test_what_may_block_runs_in_a_process_of_its_own(host: Host, audit: Audit) -> None:
    host.driver("vfio-pci")
    nic = host.pci(ADDRESS, vendor="8086", device="10d3", driver="e1000e", iommu_group=2)
    executor = Executor(host.root, audit, limits=Limits(process=20))
    bound = executor.apply(BindDriver(ADDRESS, "vfio-pci"))
    assert nic.driver == "vfio-pci" and bound.undo == BindDriver(ADDRESS, "e1000e", override="")
    host.file("/proc/12/comm", "qemu-kvm\n")
    host.link("/proc/12/fd/30", "/dev/vfio/2")
    with pytest.raises(ConflictError, match=r"in use by process 12 \(qemu-kvm\)"):
        executor.apply(UnbindDriver(ADDRESS))
    assert not executor.apply(BindDriver(ADDRESS, "vfio-pci")).changed
