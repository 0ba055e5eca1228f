from __future__ import annotations

from dray.kubelet.devices.grants import Grant
from dray.kubelet.devices.known import KnownDevices
from dray.kubelet.devices.status import allocated_status
from tests.kubelet.devices.small_node import OTHER, RESOURCE, SmallPlugin, devices


def told(known: KnownDevices, *grants: Grant) -> dict[str, dict[str, str]]:
    return {
        one.name: {each.resource_id: each.health for each in one.resources}
        for one in allocated_status(grants, known)
    }


def test_health_of_what_is_held() -> None:
    known = KnownDevices()
    plugin = SmallPlugin()
    known.connected(RESOURCE, plugin)
    known.listed(RESOURCE, [*devices("dev1"), *devices("dev2", healthy=False)], plugin)
    held = Grant("uid", "c", RESOURCE, {0: ("dev2", "dev1"), 1: ("dev1",)})
    elsewhere = Grant("uid", "c", OTHER, {-1: ("x",)})
    assert told(known, held, elsewhere, Grant("uid", "c", "a/b", {})) == {
        RESOURCE: {"dev1": "Healthy", "dev2": "Unhealthy"},
        OTHER: {"x": "Unknown"},
    }
    known.listed(RESOURCE, devices("dev2"), plugin)
    assert told(known, held) == {RESOURCE: {"dev1": "Unknown", "dev2": "Healthy"}}
    known.stopped(RESOURCE, plugin, 0.0)
    assert told(known, held) == {RESOURCE: {"dev1": "Unknown", "dev2": "Unknown"}}
