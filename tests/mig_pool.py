"""The slices of the hollow node of profile h200x8-mig, as an API server has them, and claims on its devices."""

from __future__ import annotations

from dray.api.codec import view
from dray.api.meta import ObjectMeta
from dray.api.resource import ResourceClaim, ResourceSlice
from dray.api.resource.slice import ResourcePool, ResourceSliceSpec
from dray.dra.slices.layout import COUNTERS_APART
from dray.up.fleet.objects import HollowNode, pool_slices
from dray.up.fleet.profile_file import load_profile

DRIVER = "gpu.nvidia.com"
NODE = "h200-0"


def mig_slices() -> list[ResourceSlice]:
    """Eight cards and their partitions; the counters are in a slice of their own."""
    (pool,) = pool_slices(HollowNode(load_profile("h200x8-mig").groups[0], 0), COUNTERS_APART)
    place = ResourcePool(name=NODE, generation=1, resource_slice_count=len(pool.slices))
    return [
        ResourceSlice(
            metadata=ObjectMeta(name=f"{NODE}-{number}"),
            spec=ResourceSliceSpec(
                driver=DRIVER,
                node_name=NODE,
                pool=place,
                devices=one.devices or None,
                shared_counters=one.counters or None,
            ),
        )
        for number, one in enumerate(pool.slices)
    ]


def mig_claim(name: str, *devices: str, admin: bool = False) -> ResourceClaim:
    """One that has these devices."""
    results = [
        {"request": "r", "driver": DRIVER, "pool": NODE, "device": one, "adminAccess": admin}
        for one in devices
    ]
    status = {"allocation": {"devices": {"results": results}}}
    return view({"metadata": {"name": name, "namespace": "ns"}, "status": status}, ResourceClaim)
