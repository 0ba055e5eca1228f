"""Where a node's devices sit: NUMA nodes, and PCIe roots in them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dray.dashboard.fleet.model import DeviceView


def topology(devices: Iterable[DeviceView]) -> list[dict[str, Any]]:
    """Whole devices by NUMA node and root, in order; what does not say where it is comes last."""
    found: dict[int | None, dict[str | None, list[str]]] = {}
    for one in devices:
        if one.parent is None:
            found.setdefault(one.numa, {}).setdefault(one.pcie_root, []).append(one.id)
    return [
        {
            "numa": numa,
            "roots": [
                {"root": root, "devices": ids}
                for root, ids in sorted(roots.items(), key=lambda one: (one[0] is None, one[0] or ""))
            ],
        }
        for numa, roots in sorted(found.items(), key=lambda one: (one[0] is None, one[0] or 0))
    ]
