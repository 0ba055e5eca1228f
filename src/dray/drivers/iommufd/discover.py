"""Find /dev/iommu."""

from __future__ import annotations

from dray.drivers.contract import Device, Discovery, Problem
from dray.drivers.health import health_for, why_missing
from dray.drivers.iommufd.config import IommufdConfig
from dray.drivers.naming import KUBEVIRT_PREFIX
from dray.hardware.host_root import Place
from dray.hardware.vfio import IOMMUFD

KIND = "iommufd"


def discover(config: IommufdConfig, root: Place) -> Discovery:
    """One device, unhealthy where the kernel has no iommufd."""
    problems: list[Problem] = []
    reason = why_missing(root, (IOMMUFD,), problems)
    device = Device(
        id=KIND,
        kind=KIND,
        resource=KUBEVIRT_PREFIX + KIND,
        health=health_for(reason),
        reason=reason,
        label=IOMMUFD,
        paths=(IOMMUFD,),
        watch=(IOMMUFD,),
        shares=config.shares,
        name=KIND,
        hardware=(f"node:{IOMMUFD}",),
    )
    return Discovery((device,), tuple(problems), (IOMMUFD,), ("/dev",))
