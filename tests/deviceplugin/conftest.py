from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dray.cdi.edits import ContainerEdits, DeviceNode
from dray.drivers.contract import Device, Discovery, Health, Prepared
from dray.hardware.host_root import Place
from tests.small_kubelet import SmallKubelet


@pytest.fixture
def kubelet(tmp_path: Path) -> SmallKubelet:
    directory = tmp_path / "device-plugins"
    directory.mkdir()
    return SmallKubelet(directory)


class TapeDriver:
    """Tape drives: one node each, and a variable with their names."""

    kind = "tape"

    def discover(self, root: Place, known: Sequence[Device] = ()) -> Discovery:
        return Discovery((), (), ())

    def prepare(self, resource: str, devices: Sequence[Device]) -> Prepared:
        names = ",".join(device.id for device in devices)
        nodes = tuple(DeviceNode(path, path, "rw") for device in devices for path in device.paths)
        return Prepared(
            ContainerEdits((("TAPES", names),), nodes), required=tuple(node.host_path for node in nodes)
        )


async def nothing(prepared: Prepared) -> ContainerEdits:
    """The host needs nothing."""
    return prepared.edits


def tape(
    number: int, health: Health = Health.HEALTHY, *, numa_node: int | None = None, root: str | None = None
) -> Device:
    return Device(
        f"tape{number}",
        "tape",
        "example.com/tape",
        health,
        numa_node=numa_node,
        pcie_root=root,
        paths=(f"/dev/tape{number}",),
    )
