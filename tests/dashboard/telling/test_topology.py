"""Where devices sit."""

from __future__ import annotations

from dray.api.codec import view
from dray.api.resource import ResourceSlice
from dray.dashboard.fleet.devices import Place, pool_devices
from dray.dashboard.telling.topology import topology
from tests.dashboard import small_fleet as objects


def test_devices_by_numa_node_and_root_and_the_homeless_last() -> None:
    plain = {"name": "plain"}
    documents = [plain, objects.gpu(5), objects.gpu(0), objects.gpu(1), *objects.partitioned(2)]
    devices = pool_devices([view(objects.slice_of("n", documents), ResourceSlice)], Place("n"), {}, [])
    found = topology(devices)
    assert [one["numa"] for one in found] == [0, 1, None]
    assert [(one["root"], len(one["devices"])) for one in found[0]["roots"]] == [("pci0000:00", 2), ("pci0000:10", 1)]  # fmt: skip
    assert found[2]["roots"] == [{"root": None, "devices": ["sim.dray.internal/n/plain"]}]
