"""The driver as a whole: what both doors ask of it, and what an allocator makes of its devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dray.allocation.cases import run_case
from dray.allocation.selector import CompiledSelectors
from dray.api.codec.json_codec import to_raw
from dray.api.meta import ObjectMeta
from dray.api.resource.slice import ResourcePool, ResourceSlice, ResourceSliceSpec
from dray.api.validation.slices import check_slice
from dray.dra.slices.view import pool_devices
from dray.drivers.contract import TakesClaims
from dray.drivers.nvidia.config import NvidiaConfig, NvidiaReplicas, NvidiaTimeSlicing
from dray.errors import InvalidError
from tests.drivers.nvidia.cards import Watched, watched

DRIVER = "gpu.nvidia.com"
SHARING = NvidiaTimeSlicing(
    fail_requests_greater_than_one=True, resources=(NvidiaReplicas(name="nvidia.com/gpu", replicas=2),)
)


def slices_of(host: Watched) -> list[ResourceSlice]:
    """As they are published to a server of 1.35 or newer: counters first, then at most 64 devices each."""
    found = host.look()
    pool = pool_devices(found.devices, DRIVER)
    assert pool.problems == ()
    specs: list[dict[str, Any]] = [
        *({"shared_counters": sets} for sets in _batches(found.counters, 8)),
        *({"devices": devices} for devices in _batches(pool.items, 64)),
    ]
    place = ResourcePool(name="node", generation=1, resource_slice_count=len(specs))
    return [
        ResourceSlice(
            metadata=ObjectMeta(name=f"slice-{index:05}"),
            spec=ResourceSliceSpec(driver=DRIVER, pool=place, node_name="node", **spec),
        )
        for index, spec in enumerate(specs)
    ]


def _batches(items: tuple[Any, ...], size: int) -> list[tuple[Any, ...]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def allocate(host: Watched, *expressions: str, held: tuple[str, ...] = ()) -> list[str] | None:
    """The devices that one claim gets which has a request with each of these selectors; None where it gets none."""
    kinds = {
        name: f"device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == '{kind}'"
        for name, kind in (
            ("gpu.nvidia.com", "gpu"),
            ("mig.nvidia.com", "mig"),
            ("vfio.gpu.nvidia.com", "vfio"),
        )
    }
    requests = [
        {
            "name": f"r{index}",
            "exactly": {
                "deviceClassName": text.partition(" ")[0],
                "allocationMode": "ExactCount",
                "count": 1,
                "selectors": [{"cel": {"expression": text.partition(" ")[2] or "true"}}],
            },
        }
        for index, text in enumerate(expressions)
    ]
    answer = run_case(
        {
            "name": "x",
            "features": ["DRAPartitionableDevices", "DRADeviceTaints", "DRAConsumableCapacity"],
            "node": {"metadata": {"name": "node"}},
            "classes": [
                {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
                for name, expression in kinds.items()
            ],
            "slices": [to_raw(one) for one in slices_of(host)],
            "claims": [{"metadata": {"name": "c", "uid": "u"}, "spec": {"devices": {"requests": requests}}}],
            "allocatedDevices": [f"{DRIVER}/node/{name}" for name in held],
        },
        CompiledSelectors,
    )
    assert answer["error"] == ""
    if not answer["results"]:
        return None
    return [result["device"] for result in answer["results"][0]["devices"]["results"]]


@pytest.mark.parametrize("name", ["h200", "a100-mig", "eight-h100"])
@pytest.mark.parametrize(
    "config",
    [{}, {"dynamic_mig": True}, {"pass_through": True}, {"mig_strategy": "mixed", "time_slicing": SHARING}],
    ids=["plain", "dynamic", "pass-through", "shared"],
)
def test_the_api_takes_every_device(tmp_path: Path, name: str, config: dict[str, Any]) -> None:
    for one in slices_of(watched(tmp_path, name, **config)):
        assert check_slice(one, None, None) == []


def test_claims_written_for_nvidias_driver_fit(tmp_path: Path) -> None:
    host = watched(tmp_path, "a100-mig")
    attributes = "device.attributes['gpu.nvidia.com']"
    capacity = "device.capacity['gpu.nvidia.com']"
    assert allocate(host, "gpu.nvidia.com") == ["gpu-1"]
    assert allocate(host, f"mig.nvidia.com {attributes}.profile == '3g.20gb'") == ["gpu-0-mig-3g20gb-9-4"]
    assert allocate(
        host,
        f"mig.nvidia.com {capacity}.memory.compareTo(quantity('9Gi')) >= 0 && "
        f"{capacity}.multiprocessors.compareTo(quantity('28')) == 0",
    ) == ["gpu-0-mig-2g10gb-14-2"]
    assert allocate(
        host,
        f"gpu.nvidia.com {attributes}.architecture == 'Ampere' && {attributes}.productName.lowerAscii().matches('a100') "
        f"&& {attributes}.driverVersion.isGreaterThan(semver('535.0.0')) "
        f"&& {attributes}.cudaComputeCapability.compareTo(semver('8.0.0')) == 0",
    ) == ["gpu-1"]
    assert allocate(host, f"gpu.nvidia.com {attributes}.brand == 'GeForce'") is None


def test_parts_are_given_until_the_card_is_full(tmp_path: Path) -> None:
    host = watched(tmp_path, "h200", dynamic_mig=True)
    small = "mig.nvidia.com device.attributes['gpu.nvidia.com'].profile == '1g.18gb'"
    half = "mig.nvidia.com device.attributes['gpu.nvidia.com'].profile == '3g.71gb'"
    seven = allocate(host, *[small] * 7)
    assert seven is not None
    assert sorted(seven) == [f"gpu-0-mig-1g18gb-19-{start}" for start in range(7)]
    assert allocate(host, *[small] * 8) is None
    assert allocate(host, half, *[small] * 3) is not None
    assert allocate(host, half, half, small) is None


def test_a_card_is_given_whole_or_in_parts(tmp_path: Path) -> None:
    host = watched(tmp_path, "h200", dynamic_mig=True)
    assert allocate(host, "gpu.nvidia.com") == ["gpu-0"]
    assert allocate(host, "gpu.nvidia.com", held=("gpu-0-mig-1g18gb-19-6",)) is None
    assert allocate(host, "mig.nvidia.com", held=("gpu-0",)) is None
    assert allocate(host, "gpu.nvidia.com", "mig.nvidia.com") is None


def test_a_card_is_given_to_containers_or_to_a_vm(tmp_path: Path) -> None:
    host = watched(tmp_path, "eight-h100", pass_through=True)
    assert allocate(host, *["gpu.nvidia.com"] * 4, *["vfio.gpu.nvidia.com"] * 4) is not None
    assert allocate(host, *["gpu.nvidia.com"] * 8, "vfio.gpu.nvidia.com") is None
    found = allocate(host, "vfio.gpu.nvidia.com", held=("gpu-2",))
    assert found is not None
    assert found != ["gpu-vfio-0"]


def test_a_sick_card_is_not_given(tmp_path: Path) -> None:
    host = watched(tmp_path, "eight-h100")
    for card in host.machine.cards.cards[1:]:
        host.machine.cards.ask_recovery(card.uuid, 1)
    assert allocate(host, "gpu.nvidia.com") == ["gpu-2"]
    assert allocate(host, "gpu.nvidia.com", "gpu.nvidia.com") is None


def test_the_driver_takes_claims(tmp_path: Path) -> None:
    driver = watched(tmp_path, "h200").driver
    assert isinstance(driver, TakesClaims)
    driver.check_parameters({"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig"})
    with pytest.raises(InvalidError):
        driver.check_parameters({"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfigs"})


def test_shares_have_the_names_of_nvidias_plugin_and_the_config_limits_them_to_one(tmp_path: Path) -> None:
    host = watched(tmp_path, "eight-h100", time_slicing=SHARING)
    first = host.devices[0]
    assert first.share_ids == (f"{first.id}::0", f"{first.id}::1")
    assert first.one_share


def test_a_driver_is_wanted_by_config_or_by_what_is_there(tmp_path: Path) -> None:
    host = watched(tmp_path, "h200", enabled=False)
    assert host.devices == ()
    assert host.look().again_in is None
    assert NvidiaConfig().enabled is None
