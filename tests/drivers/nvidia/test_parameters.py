from __future__ import annotations

from typing import Any

import pytest

from dray.drivers.nvidia.parameters import (
    API_VERSION,
    DeviceType,
    GpuConfig,
    Interval,
    MigDeviceConfig,
    VfioDeviceConfig,
    config_for,
    read_config,
    uses_mps,
)
from dray.errors import InvalidError
from tests.campaign import campaign, seeded


def gpu(**sharing: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "GpuConfig", **({"sharing": sharing} if sharing else {})}


def mig(**sharing: Any) -> dict[str, Any]:
    return {**gpu(**sharing), "kind": "MigDeviceConfig"}


def vfio(**iommu: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "VfioDeviceConfig", **({"iommu": iommu} if iommu else {})}


def slices(interval: str) -> dict[str, Any]:
    return gpu(strategy="TimeSlicing", timeSlicingConfig={"interval": interval})


def test_what_is_not_said_has_its_default() -> None:
    assert read_config(gpu()) == GpuConfig() and GpuConfig().interval is None
    plain = read_config(gpu(strategy="TimeSlicing"))
    assert isinstance(plain, GpuConfig) and plain.interval is Interval.DEFAULT
    card = read_config(vfio())
    assert isinstance(card, VfioDeviceConfig)
    assert not card.prefers_iommufd and not card.iommu.enable_api_device


@pytest.mark.parametrize("interval", list(Interval))
def test_time_slices(interval: Interval) -> None:
    config = read_config(slices(interval.value))
    assert isinstance(config, GpuConfig) and config.interval is interval and not uses_mps(config)


def test_iommu() -> None:
    config = read_config(vfio(backendPolicy="PreferIommuFD", enableAPIDevice=True))
    assert isinstance(config, VfioDeviceConfig)
    assert config.prefers_iommufd and config.iommu.enable_api_device


@pytest.mark.parametrize("make", [gpu, mig])
def test_mps_is_understood(make: Any) -> None:
    limits = {
        "defaultActiveThreadPercentage": 50,
        "defaultPinnedDeviceMemoryLimit": "10Gi",
        "defaultPerDevicePinnedMemoryLimit": {"0": "5Gi", "GPU-94e20850-17a3-0faa-294e-e57b84a9d254": "6Gi"},
    }
    config = read_config(make(strategy="MPS", mpsConfig=limits))
    assert uses_mps(config) and not uses_mps(read_config(make()))


@pytest.mark.parametrize(
    ("parameters", "field", "told"),
    [
        ({}, "apiVersion", "missing"),
        ({"apiVersion": "gpu.nvidia.com/v1alpha1", "kind": "GpuConfig"}, "apiVersion", API_VERSION),
        ({"apiVersion": API_VERSION}, "kind", "GpuConfig, MigDeviceConfig, VfioDeviceConfig"),
        ({"apiVersion": API_VERSION, "kind": ["GpuConfig"]}, "kind", "must be one of"),
        ({"apiVersion": API_VERSION, "kind": "ComputeDomainChannelConfig"}, "kind", "must be one of"),
        ({**gpu(), "sharin": {}}, "sharin", 'did you mean "sharing"'),
        (
            gpu(strategy="TimeSlicing", timeSlicingConfig={"intervall": "Long"}),
            "sharing.timeSlicingConfig.intervall",
            "unknown field",
        ),
        (
            mig(strategy="TimeSlicing", timeSlicingConfig={"interval": "Long"}),
            "sharing.timeSlicingConfig",
            "unknown field",
        ),
        (gpu(strategy="Time"), "sharing.strategy", "TimeSlicing, MPS"),
        (gpu(timeSlicingConfig={}), "sharing.strategy", "missing"),
        (gpu(strategy=7), "sharing.strategy", "expected"),
        (slices("Forever"), "sharing.timeSlicingConfig.interval", "Default, Short, Medium, Long"),
        (gpu(strategy="MPS", timeSlicingConfig={}), "sharing.timeSlicingConfig", "strategy MPS"),
        (gpu(strategy="TimeSlicing", mpsConfig={}), "sharing.mpsConfig", "strategy TimeSlicing"),
        (
            gpu(strategy="MPS", mpsConfig={"defaultActiveThreadPercentage": 101}),
            "sharing.mpsConfig.defaultActiveThreadPercentage",
            "between 0 and 100",
        ),
        (
            gpu(strategy="MPS", mpsConfig={"defaultPinnedDeviceMemoryLimit": "1Ki"}),
            "sharing.mpsConfig.defaultPinnedDeviceMemoryLimit",
            "1Mi or more",
        ),
        (
            gpu(strategy="MPS", mpsConfig={"defaultPerDevicePinnedMemoryLimit": {"first": "1Gi"}}),
            "sharing.mpsConfig.defaultPerDevicePinnedMemoryLimit[first]",
            "the UUID of a GPU",
        ),
        (vfio(backendPolicy="Any"), "iommu.backendPolicy", "LegacyOnly, PreferIommuFD"),
        (vfio(enableAPIDevice="yes"), "iommu.enableAPIDevice", "expected"),
    ],
)
def test_what_is_wrong_is_named(parameters: dict[str, Any], field: str, told: str) -> None:
    with pytest.raises(InvalidError) as caught:
        read_config(parameters)
    assert caught.value.field == field
    assert field in str(caught.value) and told in str(caught.value) and len(str(caught.value)) < 400


def test_huge_and_deep_parameters_are_refused_before_anything_looks_at_them() -> None:
    deep: Any = "x"
    for _ in range(50_000):
        deep = {"sharing": deep}
    wide = {str(number): "x" for number in range(10_000)}
    for parameters in (
        {**gpu(), **deep},
        {**gpu(), "sharing": wide},
        {**gpu(), "kind": "x" * 100_000},
        gpu(a=[[[1] * 5000]]),
    ):
        with pytest.raises(InvalidError, match="larger than any") as caught:
            read_config(parameters)
        assert len(str(caught.value)) < 300
    while isinstance(deep, dict):  # or Python frees it by recursion
        deep = deep.popitem()[1]


def test_random_parameters_raise_nothing_else() -> None:
    chance = seeded(11)
    words: list[Any] = [
        None,
        True,
        0,
        -1,
        2**70,
        1.5,
        "",
        "MPS",
        "TimeSlicing",
        "Default",
        "1Gi",
        [],
        {},
        "x" * 300,
        "\0",
        "\ud800",
    ]
    names = [
        "sharing",
        "strategy",
        "timeSlicingConfig",
        "interval",
        "mpsConfig",
        "iommu",
        "backendPolicy",
        "kind",
        "z",
        "",
    ]

    def some(depth: int) -> Any:
        if depth and chance.random() < 0.6:
            return {chance.choice(names): some(depth - 1) for _ in range(3)}
        return chance.choice(words)

    for _ in range(campaign(400, 100_000)):
        parameters = {
            **chance.choice([gpu(), mig(), vfio()]),
            **{chance.choice(names): some(4) for _ in range(2)},
        }
        try:
            config = read_config(parameters)
        except InvalidError as error:
            assert "\n" not in str(error)
        else:
            assert isinstance(config, GpuConfig | MigDeviceConfig | VfioDeviceConfig)


def test_the_last_that_fits_counts() -> None:
    """Class first, claim last."""
    both = [slices("Short"), slices("Long")]
    config = config_for(DeviceType.GPU, both)
    assert isinstance(config, GpuConfig) and config.interval is Interval.LONG
    assert config_for(DeviceType.GPU, [slices("Short"), mig(strategy="MPS"), vfio()]) == read_config(
        slices("Short")
    )
    assert config_for(DeviceType.MIG, both) == MigDeviceConfig()
    assert config_for(DeviceType.VFIO, []) == VfioDeviceConfig()


def test_one_that_names_the_request_must_be_for_its_device() -> None:
    with pytest.raises(
        InvalidError, match="MigDeviceConfig is given for a request whose device is a gpu: it needs GpuConfig"
    ):
        config_for(DeviceType.GPU, [slices("Short"), mig()], [False, True])
    assert config_for(DeviceType.GPU, [mig(), slices("Short")], [True, False]) == read_config(slices("Short"))
    assert config_for(DeviceType.GPU, [slices("Short"), mig()], [True, False]) == read_config(slices("Short"))
