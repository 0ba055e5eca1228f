from __future__ import annotations

from pathlib import Path

from dray.drivers.contract import Health
from dray.drivers.iommufd import IommufdDriver
from dray.drivers.iommufd.config import IommufdConfig
from dray.hardware.host_root import HostRoot
from dray.testing.host import Host


def test_health_follows_the_node(tmp_path: Path) -> None:
    host, driver = Host(tmp_path), IommufdDriver(IommufdConfig(shares=2))
    (device,) = driver.discover(HostRoot(tmp_path)).devices
    assert (device.resource, device.share_ids) == ("devices.kubevirt.io/iommufd", ("iommufd0", "iommufd1"))
    assert (device.health, device.reason) == (Health.UNHEALTHY, "/dev/iommu does not exist")
    host.char_device("/dev/iommu", 10, 125)
    (device,) = driver.discover(HostRoot(tmp_path)).devices
    assert device.health is Health.HEALTHY
