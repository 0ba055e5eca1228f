from __future__ import annotations

from typing import Any

import pytest

from dray.api.codec import view
from dray.api.kubevirt.mdev_types import desired_mdev_types, external_mdev_types, normalize_type_name
from dray.api.kubevirt.types import Configuration

NODES: list[dict[str, Any]] = [
    {"nodeSelector": {"gpu": "t4"}, "mediatedDeviceTypes": ["nvidia-223", "nvidia-224"]},
    {"nodeSelector": {"gpu": "t4", "zone": "a"}, "mediatedDeviceTypes": ["nvidia-224", "i915-4"]},
]


@pytest.mark.parametrize(
    ("section", "labels", "types"),
    [
        (None, {}, ()),
        ({}, {}, ()),
        ({"mediatedDeviceTypes": ["nvidia-222"]}, {}, ("nvidia-222",)),
        ({"mediatedDevicesTypes": ["nvidia-222"]}, {}, ("nvidia-222",)),
        ({"mediatedDeviceTypes": ["new"], "mediatedDevicesTypes": ["old"]}, {}, ("new",)),
        ({"mediatedDeviceTypes": ["b", "a", "b"]}, {}, ("b", "a")),
        ({"mediatedDeviceTypes": ["GRID T4-1Q"]}, {}, ("GRID_T4-1Q",)),
        ({"mediatedDeviceTypes": ["d"], "nodeMediatedDeviceTypes": NODES}, {}, ("d",)),
        ({"mediatedDeviceTypes": ["d"], "nodeMediatedDeviceTypes": NODES}, {"gpu": "t"}, ("d",)),
        ({"mediatedDeviceTypes": ["d"], "nodeMediatedDeviceTypes": NODES}, {"zone": "a"}, ("d",)),
        ({"mediatedDeviceTypes": ["d"], "nodeMediatedDeviceTypes": NODES}, {"gpu": "t4"}, ("nvidia-223", "nvidia-224")),
        ({"nodeMediatedDeviceTypes": NODES}, {"gpu": "t4", "zone": "a"}, ("nvidia-223", "nvidia-224", "i915-4")),
        ({"mediatedDeviceTypes": ["d"], "nodeMediatedDeviceTypes": [{"mediatedDeviceTypes": ["all"]}]}, {}, ("all",)),
        ({"mediatedDeviceTypes": ["d"], "nodeMediatedDeviceTypes": [{"nodeSelector": {}, "mediatedDevicesTypes": ["old"]}]}, {"x": "y"}, ("old",)),
        ({"mediatedDeviceTypes": ["d"], "nodeMediatedDeviceTypes": [{"nodeSelector": {}}]}, {}, ("d",)),
    ],
)  # fmt: skip
def test_desired_types(section: Any, labels: dict[str, str], types: tuple[str, ...]) -> None:
    configuration = view({"mediatedDevicesConfiguration": section}, Configuration)
    assert desired_mdev_types(configuration, labels) == types


def test_external_types_are_normalised() -> None:
    mdevs = [
        {"mdevNameSelector": "GRID T4-1Q", "externalResourceProvider": True},
        {"mdevNameSelector": "GRID_T4-1Q", "externalResourceProvider": True},
        {"mdevNameSelector": "GRID T4-2Q"},
    ]
    configuration = view({"permittedHostDevices": {"mediatedDevices": mdevs}}, Configuration)
    assert external_mdev_types(configuration) == ("GRID_T4-1Q",)
    assert external_mdev_types(Configuration()) == ()


def test_normalising_keeps_what_has_no_space() -> None:
    assert normalize_type_name("i915-GVTg_V5_4") == "i915-GVTg_V5_4"
    assert normalize_type_name(" FAKE 1") == "_FAKE_1"
