"""Opaque parameters of claims and classes, `resource.nvidia.com/v1beta1`: read strictly, checked, and chosen for a device.

The kinds and fields are those of NVIDIA's driver, so that claims written for it work unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import zip_longest
from typing import Any, Final, NoReturn

import msgspec

from dray.api.codec import view
from dray.api.codec.unknown_fields import unknown_fields
from dray.api.field_errors import Path
from dray.api.meta import Int64, Model
from dray.api.quantity import Quantity
from dray.errors import InvalidError

API_VERSION: Final = "resource.nvidia.com/v1beta1"
_DEEPEST: Final = 8
_MOST_VALUES: Final = 1000
_LONGEST: Final = 10 * 1024
_LEAST_MEMORY: Final = Quantity("1Mi")
_GPU: Final = re.compile(r"(?:0|[1-9][0-9]{0,3}|GPU-[0-9a-fA-F-]{36})", re.ASCII)


class DeviceType(StrEnum):
    """Attribute `type` of a device."""

    GPU = "gpu"
    MIG = "mig"
    VFIO = "vfio"


class Strategy(StrEnum):
    """How several containers use one GPU."""

    TIME_SLICING = "TimeSlicing"
    MPS = "MPS"


class Interval(StrEnum):
    """How long one process computes before it is the next one's turn."""

    DEFAULT = "Default"
    SHORT = "Short"
    MEDIUM = "Medium"
    LONG = "Long"


class Backend(StrEnum):
    """By which node a VM gets a function."""

    LEGACY = "LegacyOnly"
    IOMMUFD = "PreferIommuFD"


class TimeSlicing(Model, frozen=True, kw_only=True):
    """`timeSlicingConfig`."""

    interval: str = Interval.DEFAULT.value


class Mps(Model, frozen=True, kw_only=True):
    """`mpsConfig`: limits for each process."""

    default_active_thread_percentage: Int64 | None = None
    default_pinned_device_memory_limit: Quantity | None = None
    default_per_device_pinned_memory_limit: dict[str, Quantity] = msgspec.field(default_factory=dict)


class GpuSharing(Model, frozen=True, kw_only=True):
    """`sharing` of a whole GPU."""

    strategy: str = ""
    time_slicing_config: TimeSlicing | None = None
    mps_config: Mps | None = None


class MigSharing(Model, frozen=True, kw_only=True):
    """`sharing` of a part of a GPU, whose time slices cannot be set."""

    strategy: str = ""
    mps_config: Mps | None = None


class Iommu(Model, frozen=True, kw_only=True):
    """`iommu`. `enable_api_device` gives the container /dev/vfio/vfio or /dev/iommu too."""

    backend_policy: str = Backend.LEGACY.value
    enable_api_device: bool = msgspec.field(default=False, name="enableAPIDevice")


class GpuConfig(Model, frozen=True, kw_only=True):
    """For devices of type gpu."""

    api_version: str = API_VERSION
    kind: str = "GpuConfig"
    sharing: GpuSharing | None = None

    @property
    def interval(self) -> Interval | None:
        """The time slice that is asked for; None where nothing is to be set."""
        if self.sharing is None or self.sharing.strategy != Strategy.TIME_SLICING:
            return None
        return Interval((self.sharing.time_slicing_config or TimeSlicing()).interval)


class MigDeviceConfig(Model, frozen=True, kw_only=True):
    """For devices of type mig."""

    api_version: str = API_VERSION
    kind: str = "MigDeviceConfig"
    sharing: MigSharing | None = None


class VfioDeviceConfig(Model, frozen=True, kw_only=True):
    """For devices of type vfio."""

    api_version: str = API_VERSION
    kind: str = "VfioDeviceConfig"
    iommu: Iommu = Iommu()

    @property
    def prefers_iommufd(self) -> bool:
        """Whether the function's own node is wanted, where the host has it."""
        return self.iommu.backend_policy == Backend.IOMMUFD


Config = GpuConfig | MigDeviceConfig | VfioDeviceConfig
KINDS: Final[Mapping[DeviceType, type[Config]]] = {
    DeviceType.GPU: GpuConfig,
    DeviceType.MIG: MigDeviceConfig,
    DeviceType.VFIO: VfioDeviceConfig,
}
_BY_NAME: Final = {kind.__name__: kind for kind in KINDS.values()}


def read_config(parameters: Mapping[str, Any]) -> Config:
    """The parameters as a value; InvalidError names the field that is wrong, unknown or missing."""
    _check_size(parameters)
    raw = dict(parameters)
    api_version, name = raw.get("apiVersion"), raw.get("kind")
    if api_version != API_VERSION:
        _refuse("apiVersion", f"{_shown(api_version)} must be {API_VERSION}")
    if not isinstance(name, str) or name not in _BY_NAME:
        _refuse("kind", f"{_shown(name)} must be one of {', '.join(sorted(_BY_NAME))}")
    kind = _BY_NAME[name]
    if errors := unknown_fields(raw, kind, Path()):
        raise InvalidError(f"{name}: {errors[0]}", field=errors[0].field, causes=tuple(errors))
    config: Config = view(raw, kind)
    _check(config)
    return config


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """InvalidError where `read_config` would raise it."""
    read_config(parameters)


def config_for(
    device_type: DeviceType, parameters: Sequence[Mapping[str, Any]], named: Sequence[bool] = ()
) -> Config:
    """The config that counts for a device: the last one that fits, else the default.

    `named` tells which of the parameters name the request, as far as it goes: one that does and is for another type is
    an InvalidError; one for all requests is passed over where it is for another type.
    """
    wanted = KINDS[device_type]
    together = list(zip_longest(parameters, named[: len(parameters)], fillvalue=False))
    for raw, names_request in reversed(together):
        assert not isinstance(raw, bool)
        config = read_config(raw)
        if isinstance(config, wanted):
            return config
        if names_request:
            _refuse(
                "kind",
                f"{config.kind} is given for a request whose device is a {device_type}: it needs {wanted.__name__}",
            )
    return wanted()


def uses_mps(config: Config) -> bool:
    """Whether it asks for MPS."""
    return not isinstance(config, VfioDeviceConfig) and (
        config.sharing is not None and config.sharing.strategy == Strategy.MPS
    )


def _check(config: Config) -> None:
    if isinstance(config, VfioDeviceConfig):
        _among(config.iommu.backend_policy, Backend, "iommu.backendPolicy")
    elif config.sharing is not None:
        _check_sharing(config.sharing)


def _check_sharing(sharing: GpuSharing | MigSharing) -> None:
    _among(sharing.strategy, Strategy, "sharing.strategy")
    slicing = sharing.time_slicing_config if isinstance(sharing, GpuSharing) else None
    if sharing.strategy == Strategy.MPS and slicing is not None:
        _refuse("sharing.timeSlicingConfig", "may not be there with the strategy MPS")
    if sharing.strategy == Strategy.TIME_SLICING and sharing.mps_config is not None:
        _refuse("sharing.mpsConfig", "may not be there with the strategy TimeSlicing")
    if slicing is not None:
        _among(slicing.interval, Interval, "sharing.timeSlicingConfig.interval")
    if sharing.mps_config is not None:
        _check_mps(sharing.mps_config)


def _check_mps(mps: Mps) -> None:
    path = Path("sharing.mpsConfig")
    threads = mps.default_active_thread_percentage
    if threads is not None and not 0 <= threads <= 100:
        _refuse(path.child("defaultActiveThreadPercentage").text, f"{threads} must be between 0 and 100")
    limits = {path.child("defaultPinnedDeviceMemoryLimit").text: mps.default_pinned_device_memory_limit}
    each = path.child("defaultPerDevicePinnedMemoryLimit")
    for device, limit in sorted(mps.default_per_device_pinned_memory_limit.items()):
        if not _GPU.fullmatch(device):
            _refuse(
                each.key(device).text,
                "the key must be the UUID of a GPU or its place in the claim, from 0 on",
            )
        limits[each.key(device).text] = limit
    for field, amount in limits.items():
        if amount is not None and amount < _LEAST_MEMORY:
            _refuse(field, f"{amount} must be {_LEAST_MEMORY} or more")


def _check_size(parameters: Mapping[str, Any]) -> None:
    """Before anything else looks at them: they come from whoever may write a claim."""
    values, characters = 0, 0
    waiting: list[tuple[Any, int]] = [(parameters, 1)]
    while waiting:
        value, depth = waiting.pop()
        values += 1
        inner: list[Any] = []
        if isinstance(value, Mapping):
            inner = [*value.keys(), *value.values()]
        elif isinstance(value, Sequence) and not isinstance(value, str):
            inner = list(value)
        elif isinstance(value, str):
            characters += len(value)
        if depth > _DEEPEST or values + len(inner) > _MOST_VALUES or characters > _LONGEST:
            raise InvalidError(
                f"the parameters are larger than any that {API_VERSION} has: at most {_DEEPEST} levels, {_MOST_VALUES} "
                f"values and {_LONGEST} characters",
                field="parameters",
            )
        waiting += [(one, depth + 1) for one in inner]


def _among(value: str, allowed: type[StrEnum], field: str) -> None:
    if value not in tuple(allowed):
        _refuse(field, f"{_shown(value)} must be one of {', '.join(allowed)}")


def _shown(value: object) -> str:
    if value in (None, ""):
        return "it is missing and"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _refuse(field: str, message: str) -> NoReturn:
    raise InvalidError(f"{field}: {message}", field=field)
