"""The devices of a pool as the page is told them."""

from __future__ import annotations

from dray.dashboard.fleet.devices import Place, pool_devices
from dray.dashboard.fleet.model import DeviceId, DeviceView
from dray.dashboard.fleet.nodes import summary_of
from dray.semantics.devices import Holder
from tests.mig_pool import DRIVER, NODE, mig_slices


def devices(*held: str) -> dict[str, DeviceView]:
    holds = {DeviceId(DRIVER, NODE, name): [Holder("ns/train")] for name in held}
    return {one.name: one for one in pool_devices(mig_slices(), Place(NODE, hollow=True), holds, ())}


def test_what_lacks_counters_is_not_available() -> None:
    part = "gpu-0-mig-1g18gb-19-2"
    found = devices(part, "gpu-1")
    asked = ("gpu-0", "gpu-0-mig-7g141gb-0-0", "gpu-1-mig-1g18gb-19-0", part, "gpu-1")
    assert [found[name].available for name in asked] == [False] * 5
    assert [found[name].state for name in asked] == [*["blocked"] * 3, "held", "held"]
    assert all(found[name].available for name in ("gpu-2", "gpu-2-mig-7g141gb-0-0", "gpu-0-mig-1g18gb-19-1"))
    assert not found["gpu-0"].holders and not found["gpu-1-mig-1g18gb-19-0"].holders
    assert found["gpu-0"].blocked_by == (f"{DRIVER}/{NODE}/{part}",)
    assert found["gpu-1-mig-1g18gb-19-0"].blocked_by == (f"{DRIVER}/{NODE}/gpu-1",)
    assert found["gpu-1"].blocked_by == found["gpu-2"].blocked_by == ()


def test_sums_do_not_call_it_free() -> None:
    whole = summary_of(devices("gpu-0-mig-1g18gb-19-2", "gpu-1").values())
    assert (whole.devices, whole.free, whole.held) == (8, 6, 2)
    assert (whole.partitions, whole.partitions_held) == (200, 1)
    idle = summary_of(devices().values())
    assert (idle.free, idle.held) == (8, 0)
