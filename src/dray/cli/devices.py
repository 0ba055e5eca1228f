"""`dray devices`: what a machine has, by kind, with health, NUMA node, IOMMU group and who holds it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dray.deviceplugin.held import Holders
    from dray.drivers.contract import Device, Discovery

_COLUMNS = ("KIND", "DEVICE", "RESOURCE", "HEALTH", "NUMA", "IOMMU", "HELD BY")
_PODS = 3
_GREEN, _RED, _PLAIN = "\033[32m", "\033[31m", "\033[0m"


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
        default=Path("/var/lib/kubelet"),
        metavar="D",
        help="whose pods hold them: the kubelet's root directory (default /var/lib/kubelet)",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=["table", "json", "yaml"],
        default="table",
        help="how to show them (default table)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Look once and show it. A device that is not healthy is an answer, not a failure: the code is 0."""
    from dray.processes.discovery import discover

    found = discover(arguments.host_root, arguments.config)
    held = ask_kubelet(arguments.kubelet_dir)
    if arguments.output == "table":
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        print(as_table(found, arguments.host_root, held, colour=colour))
    else:
        print(as_text(as_document(found, held), arguments.output), end="")
    return 0


def ask_kubelet(kubelet_dir: Path) -> Holders:
    """Who holds what, as far as a kubelet is there and tells this user."""
    if not os.access(kubelet_dir / "pod-resources" / "kubelet.sock", os.W_OK):
        return {}
    import asyncio

    from dray.deviceplugin.held import holders

    return asyncio.run(holders(kubelet_dir)) or {}


def _held_by(device: Device, held: Holders) -> list[str]:
    return sorted({pod for name in device.share_ids for pod in held.get((device.resource, name), ())})


def as_document(found: Discovery, held: Holders) -> dict[str, Any]:
    """The same for programs. Keys stay; others may join. Unknown is null, and nobody is an empty list."""
    return {
        "devices": [_device_document(device, _held_by(device, held)) for device in found.devices],
        "problems": [{"path": problem.path, "message": problem.message} for problem in found.problems],
    }


def as_text(document: dict[str, Any], output: str) -> str:
    """JSON or YAML."""
    if output == "json":
        import json

        return json.dumps(document, indent=2) + "\n"
    from dray.api.codec import dump_yaml

    return dump_yaml(document)


def as_table(found: Discovery, host_root: str, held: Holders, *, colour: bool) -> str:
    """The devices as a table, then why some are not healthy, then what went wrong while looking."""
    if any(device.health == "Healthy" for device in found.devices):
        blocks = [
            _columns(
                [_COLUMNS, *(_row(device, _held_by(device, held)) for device in found.devices)], colour=colour
            )
        ]
        reasons = [device.reason for device in found.devices if device.reason]
        blocks += [f"Unhealthy: {', '.join(reasons)}"] if reasons else []
    else:
        below = "on this machine" if host_root == "/" else f"below {host_root}"
        blocks = [f"No healthy devices {below}. Looked at: {', '.join(found.looked_at)}"]
    return "\n\n".join([*blocks, *(f"Note: {problem.message}" for problem in found.problems)])


def _row(device: Device, pods: list[str]) -> tuple[str, ...]:
    more = f" and {len(pods) - _PODS} more" if len(pods) > _PODS else ""
    numa = "-" if device.numa_node is None else str(device.numa_node)
    group = "-" if device.iommu_group is None else str(device.iommu_group)
    return (
        device.kind,
        device.label or device.id,
        device.resource or "-",
        device.health.value,
        numa,
        group,
        ", ".join(pods[:_PODS]) + more or "-",
    )


def _columns(rows: list[tuple[str, ...]], *, colour: bool) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = (
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(_coloured(lines) if colour else lines)


def _coloured(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        yield line.replace(" Healthy", f" {_GREEN}Healthy{_PLAIN}").replace(
            " Unhealthy", f" {_RED}Unhealthy{_PLAIN}"
        )


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
