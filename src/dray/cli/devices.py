"""`dray devices`: what a machine has, by kind, with health, NUMA node, IOMMU group and who holds it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dray.cli.tables import (
    NOTHING,
    OUTPUTS,
    Column,
    Row,
    Table,
    clean,
    listed,
    print_document,
    print_table,
    progress,
)
from dray.errors import InvalidError, NotFoundError

if TYPE_CHECKING:
    from dray.deviceplugin.held import Holders
    from dray.drivers.contract import Device, Discovery

KUBELET_DIR: Final = Path("/var/lib/kubelet")
_COLUMNS: Final = (
    Column("KIND"),
    Column("DEVICE", cut=True),
    Column("RESOURCE", cut=True),
    Column("HEALTH", state=True),
    Column("NUMA"),
    Column("IOMMU"),
    Column("HELD BY", cut=True),
    Column("PCIE ROOT", wide=True),
    Column("SHARES", wide=True),
    Column("ID", wide=True),
    Column("PATHS", wide=True),
)
_PATIENCE: Final = 1.0
"""Seconds after which it is said what takes so long."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    parser.add_argument(
        "--host-root", default="/", metavar="R", help="where the host's /sys, /proc and /dev are (default /)"
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="F",
        help="an agent's configuration: shows the devices under the resource names it gives them",
    )
    parser.add_argument(
        "--kubelet-dir",
        type=Path,
        metavar="D",
        help="whose pods hold them: the kubelet's root directory (default: that of a running `dray up`, "
        f"else {KUBELET_DIR})",
    )
    parser.add_argument(
        "--data-dir", type=Path, metavar="D", help="the same: that of the `dray up` on this directory"
    )
    parser.add_argument(
        "-o", "--output", choices=OUTPUTS, default="table", help="how to show them (default table)"
    )
    parser.add_argument(
        "-w", "--watch", action="store_true", help="go on, and show what changes, until Ctrl-C"
    )


def run(arguments: argparse.Namespace) -> int:
    """Look once and show it. A device that is not healthy is an answer, not a failure: the code is 0."""
    kubelet_dir = arguments.kubelet_dir or _usual_kubelet(arguments.data_dir)
    if arguments.watch:
        return _watch(arguments, kubelet_dir)
    from dray.agent.discovery import discover

    with _told_when_slow("looking at the devices"):
        found = discover(arguments.host_root, arguments.config)
        held = ask_kubelet(kubelet_dir)
    if arguments.output in ("json", "yaml"):
        print_document(as_document(found, held), arguments.output)
    elif arguments.output == "name":
        for device in found.devices:
            print(clean(f"{device.kind}/{device.id}"))
    else:
        _show(found, held, arguments.host_root, wide=arguments.output == "wide")
    return 0


@contextmanager
def _told_when_slow(what: str) -> Iterator[None]:
    """A look blocks, so somebody else must say that it takes long."""
    from threading import Timer

    with progress() as say:
        timer = Timer(_PATIENCE, say, [what])
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


def _usual_kubelet(data_dir: Path | None) -> Path:
    """That of the `dray up` which is meant, else the machine's."""
    from dray.up.place import UpPlace, default_data_dir, find_running

    if find_running(data_dir) is not None:
        return UpPlace(data_dir or default_data_dir()).kubelet
    if data_dir is not None:
        raise NotFoundError(f"no `dray up` runs on {data_dir}; start it with `dray up --data-dir {data_dir}`")
    return KUBELET_DIR


def _has_kubelet(kubelet_dir: Path) -> bool:
    return os.access(kubelet_dir / "pod-resources" / "kubelet.sock", os.W_OK)


def ask_kubelet(kubelet_dir: Path) -> Holders:
    """Who holds what, as far as a kubelet is there and tells this user."""
    if not _has_kubelet(kubelet_dir):
        return {}
    import asyncio

    from dray.deviceplugin.held import holders

    return asyncio.run(holders(kubelet_dir)) or {}


def _watch(arguments: argparse.Namespace, kubelet_dir: Path) -> int:
    """On a terminal the table is drawn anew, elsewhere changed rows are added. A kubelet is asked at each look."""
    import asyncio

    from dray.agent.discovery import follow
    from dray.cli.watching import Shown
    from dray.deviceplugin.held import holders

    if arguments.output not in ("table", "wide"):
        raise InvalidError("devices can be watched as a table only: leave -o out, or give -o wide", field="--output")  # fmt: skip
    shown = Shown(wide=arguments.output == "wide")

    async def show(found: Discovery) -> None:
        held = await holders(kubelet_dir) if _has_kubelet(kubelet_dir) else None
        shown.show(as_table(found, held or {}, why=True))

    asyncio.run(follow(arguments.host_root, arguments.config, show))


def _held_by(device: Device, held: Holders) -> list[str]:
    return sorted({pod for name in device.share_ids for pod in held.get((device.resource, name), ())})


def as_document(found: Discovery, held: Holders) -> dict[str, Any]:
    """The same for programs. Keys stay; others may join. Unknown is null, and nobody is an empty list."""
    return {
        "devices": [_device_document(device, _held_by(device, held)) for device in found.devices],
        "problems": [{"path": problem.path, "message": problem.message} for problem in found.problems],
    }


def as_table(found: Discovery, held: Holders, *, why: bool = False) -> Table:
    """A row for each device. With `why` the reasons have a column, which else are told below."""
    columns = (*_COLUMNS, Column("WHY", cut=True)) if why else _COLUMNS
    rows = tuple(
        Row((device.kind, device.id), _cells(device, _held_by(device, held))[: len(columns)])
        for device in found.devices
    )
    return Table(columns, rows)


def _cells(device: Device, pods: list[str]) -> tuple[str, ...]:
    return (
        device.kind,
        device.label or device.id,
        device.resource,
        device.health.value,
        _number(device.numa_node),
        _number(device.iommu_group),
        listed(pods),
        device.pcie_root or NOTHING,
        _number(device.shares),
        device.id,
        ", ".join(device.paths),
        device.reason,
    )


def _number(value: int | None) -> str:
    return NOTHING if value is None else str(value)


def _show(found: Discovery, held: Holders, host_root: str, *, wide: bool) -> None:
    """The devices as a table, then why some are not healthy, then what went wrong while looking."""
    if any(device.health == "Healthy" for device in found.devices):
        print_table(as_table(found, held), wide=wide)
        reasons = [device.reason for device in found.devices if device.reason]
        blocks = [f"Unhealthy: {', '.join(reasons)}"] if reasons else []
    else:
        below = "on this machine" if host_root == "/" else f"below {host_root}"
        print(f"No healthy devices {below}. Looked at: {', '.join(found.looked_at)}")
        blocks = []
    for block in (*blocks, *(f"Note: {problem.message}" for problem in found.problems)):
        print(f"\n{clean(block)}")


def _device_document(device: Device, pods: list[str]) -> dict[str, Any]:
    return {
        "id": device.id,
        "kind": device.kind,
        "resource": device.resource,
        "health": device.health.value,
        "reason": device.reason,
        "numaNode": device.numa_node,
        "iommuGroup": device.iommu_group,
        "pcieRoot": device.pcie_root,
        "shares": device.shares,
        "attributes": dict(device.attributes),
        "paths": list(device.paths),
        "heldBy": pods,
    }
