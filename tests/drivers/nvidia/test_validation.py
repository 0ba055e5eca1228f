from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dray.api.field_errors import Path
from dray.drivers.nvidia import nvidia_driver
from dray.drivers.nvidia.config import NvidiaConfig
from dray.drivers.nvidia.validation import validate_nvidia
from dray.errors import InvalidError
from dray.runtime.clock import FakeClock

GOOD: dict[str, Any] = {
    "enabled": True,
    "resourceName": "nvidia.com/gpu",
    "migStrategy": "mixed",
    "timeSlicing": {
        "renameByDefault": True,
        "failRequestsGreaterThanOne": True,
        "resources": [
            {"name": "nvidia.com/gpu", "replicas": 4},
            {"name": "nvidia.com/mig-1g.5gb.me", "replicas": 2},
        ],
    },
    "deviceListStrategy": ["envvar", "cdi"],
    "deviceIDStrategy": "index",
    "driverRoot": "/run/nvidia/driver",
    "graphics": True,
    "health": {"ignoredXids": [92], "pollSeconds": 1, "recoverySeconds": 0},
}


def faults(**changes: Any) -> list[str]:
    config = msgspec.convert({**GOOD, **changes}, NvidiaConfig)
    return [str(error) for error in validate_nvidia(config, Path("nvidia"))]


def test_the_default_and_a_full_config_are_good() -> None:
    assert validate_nvidia(NvidiaConfig(), Path()) == []
    assert faults() == []


def resources(*entries: tuple[str, int]) -> dict[str, Any]:
    return {"timeSlicing": {"resources": [{"name": name, "replicas": count} for name, count in entries]}}


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"resourceName": ""}, "nvidia.resourceName"),
        ({"resourceName": "gpu"}, "nvidia.resourceName"),
        ({"migStrategy": "all"}, "nvidia.migStrategy"),
        ({"dynamicMig": True}, "nvidia.migStrategy"),
        ({"deviceIDStrategy": "serial"}, "nvidia.deviceIDStrategy"),
        ({"deviceListStrategy": []}, "nvidia.deviceListStrategy"),
        ({"deviceListStrategy": ["hook"]}, "nvidia.deviceListStrategy[0]"),
        ({"deviceListStrategy": ["cdi", "cdi"]}, "nvidia.deviceListStrategy[1]"),
        ({"deviceListStrategy": ["envvar", "volume-mounts"]}, "nvidia.deviceListStrategy"),
        ({"driverRoot": "run/nvidia"}, "nvidia.driverRoot"),
        (resources(("nvidia.com/gpu", 1)), "nvidia.timeSlicing.resources[0].replicas"),
        (resources(("nvidia.com/gpu", 1001)), "nvidia.timeSlicing.resources[0].replicas"),
        (resources(("", 2)), "nvidia.timeSlicing.resources[0].name"),
        (resources(("nvidia.com/vgpu", 2)), "nvidia.timeSlicing.resources[0].name"),
        (resources(("nvidia.com/gpu", 2), ("nvidia.com/gpu", 3)), "nvidia.timeSlicing.resources[1]"),
        (resources(*(("nvidia.com/gpu", 2) for _ in range(65))), "nvidia.timeSlicing.resources"),
        ({"health": {"ignoredXids": [0]}}, "nvidia.health.ignoredXids[0]"),
        ({"health": {"ignoredXids": list(range(1, 300))}}, "nvidia.health.ignoredXids"),
        ({"health": {"pollSeconds": 0.1}}, "nvidia.health.pollSeconds"),
        ({"health": {"recoverySeconds": -1}}, "nvidia.health.recoverySeconds"),
        ({"health": {"recoverySeconds": 1e9}}, "nvidia.health.recoverySeconds"),
    ],
)
def test_a_fault_is_told_at_its_field(changes: dict[str, Any], place: str) -> None:
    (fault,) = faults(**changes)
    assert fault.startswith(f"{place}: ")


def test_a_driver_is_not_made_of_a_faulty_config() -> None:
    with pytest.raises(InvalidError) as caught:
        nvidia_driver(NvidiaConfig(mig_strategy="x", device_list_strategy=()), FakeClock())
    assert len(caught.value.causes) == 2
    assert "\n" not in str(caught.value)
