from __future__ import annotations

from dray.testing.check.driver.lifetime import health_faults
from dray.wire.gen.dra_health_v1_pb2 import (
    DeviceHealth,
    DeviceIdentifier,
    HealthStatus,
    NodeWatchResourcesResponse,
)


def device(pool: str = "p", name: str = "d", timeout: int = 0) -> DeviceHealth:
    return DeviceHealth(
        device=DeviceIdentifier(pool_name=pool, device_name=name),
        health=HealthStatus.HEALTHY,
        health_check_timeout_seconds=timeout,
    )


def test_health() -> None:
    assert health_faults(NodeWatchResourcesResponse()) == []
    assert health_faults(NodeWatchResourcesResponse(devices=[device(), device(name="e", timeout=9)])) == []
    assert health_faults(NodeWatchResourcesResponse(devices=[device(), device()])) == [
        "p/d twice in one message"
    ]
    assert len(health_faults(NodeWatchResourcesResponse(devices=[device(pool=""), device(name="")]))) == 2
    assert health_faults(NodeWatchResourcesResponse(devices=[device(timeout=-1)])) == [
        "d: a negative timeout"
    ]
