"""Hand out GPUs, parts of GPUs, and GPUs for VMs: through the device plugin's door and through claims.

What NVIDIA's own runtime would do beside Dray is switched off (`NVIDIA_VISIBLE_DEVICES=void`), unless it is meant to do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dray.cdi.edits import ContainerEdits, DeviceNode, Mount, merge
from dray.cdi.names import qualified
from dray.drivers.contract import Asked, Device, Prepared
from dray.drivers.nvidia import mig, vfio
from dray.drivers.nvidia.config import ListStrategy, NvidiaConfig
from dray.drivers.nvidia.libraries import find_driver_files
from dray.drivers.nvidia.names import bus_id_of
from dray.drivers.nvidia.nodes import capability_minor, control_nodes, drm_nodes, gpu_minor, gpu_node
from dray.drivers.nvidia.parameters import (
    Config,
    DeviceType,
    GpuConfig,
    Interval,
    VfioDeviceConfig,
    config_for,
    uses_mps,
)
from dray.errors import HardwareError, InvalidError
from dray.hardware.change import HostChange, MakeCapabilityNode, SetComputeMode, SetMigMode, SetTimeSlice
from dray.hardware.host_root import HostRoot
from dray.hardware.nvml.protocol import OpenNvml

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
CDI_KIND = "nvidia.com/gpu"
"""The kind that NVIDIA's toolkit describes GPUs under."""
_VOID = ContainerEdits(env=((VISIBLE, "void"),))
_VOLUMES = "/var/run/nvidia-container-devices"
_PERMISSIONS = "rw"


@dataclass(frozen=True, slots=True)
class Finish:
    """What is known only on the host and only then: nodes of the driver and of new MIG devices, and the driver's files."""

    driver_root: str
    cards: tuple[str, ...] = ()
    """Bus ids whose nodes for graphics are wanted."""
    parts: tuple[Device, ...] = ()
    """MIG devices that were made for the claim."""
    open_nvml: OpenNvml | None = None
    passed: tuple[tuple[Device, VfioDeviceConfig], ...] = ()
    """Cards that vfio-pci has by now."""
    needs_driver: bool = True

    def __call__(self, root: HostRoot) -> ContainerEdits:
        """Look. HardwareError where something is missing that no program can do without."""
        with root.sweep() as sweep:
            nodes = [
                path for device, config in self.passed for path in vfio.read_nodes(sweep, device, config)
            ]
            if self.open_nvml is not None:
                nodes += [
                    path for device in self.parts for path in mig.read_nodes(sweep, self.open_nvml, device)
                ]
            if not self.needs_driver:
                return _nodes(nodes)
            nodes += [
                *control_nodes(sweep),
                *(path for card in self.cards for path in drm_nodes(sweep, card)),
            ]
            return merge([_nodes(nodes), find_driver_files(sweep, self.driver_root).edits()])


def prepare(config: NvidiaConfig, resource: str, devices: Sequence[Device]) -> Prepared:
    """For a container of a device plugin, by the strategies of the config. Without devices it is a HardwareError."""
    if not devices:
        raise HardwareError(f"{resource}: the GPUs are gone: ask for others", device=resource)
    strategies = tuple(ListStrategy(name) for name in config.device_list_strategy)
    edits = [_by_strategy(strategy, devices) for strategy in strategies]
    if not {ListStrategy.ENVVAR, ListStrategy.VOLUME_MOUNTS} & set(strategies):
        edits.append(_VOID)
    if ListStrategy.DEVICE_SPECS not in strategies:
        return Prepared(merge(edits))
    return Prepared(
        merge([*edits, *map(_own_nodes, devices)]),
        changes=tuple(_to_see_parts(devices)),
        finish=Finish(config.driver_root, _graphics(config, devices)),
    )


def prepare_claim(config: NvidiaConfig, asked: Asked, open_nvml: OpenNvml) -> Prepared:
    """For one request of a claim. Who has admin access looks on: for them no card is divided, rebound or set."""
    chosen = [(device, config_for(_type(device), asked.parameters, asked.named)) for device in asked.devices]
    for device, wanted in chosen:
        _refuse_mps(device, wanted)
    made = [] if asked.admin_access else chosen
    parts = tuple(device for device, _ in made if mig.is_made_for_claims(device))
    passed = tuple((device, wanted) for device, wanted in made if isinstance(wanted, VfioDeviceConfig))
    changes = [change for device, wanted in made for change in _to_prepare(config, device, wanted)]
    return Prepared(
        merge([_VOID, *(_own_nodes(device) for device, _ in chosen)]),
        changes=(*changes, *_to_see_parts(asked.devices)),
        finish=Finish(
            config.driver_root,
            _graphics(config, asked.devices),
            parts,
            open_nvml,
            passed,
            needs_driver=len(passed) < len(chosen),
        ),
    )


def release_claim(asked: Asked) -> tuple[HostChange, ...]:
    """What undoes the changes of `prepare_claim`, whatever of them was made."""
    changes: list[HostChange] = []
    for device in () if asked.admin_access else asked.devices:
        if _type(device) is DeviceType.VFIO:
            changes += vfio.to_return(device)
        elif mig.is_made_for_claims(device):
            changes += mig.to_take_away(device)
        elif _slices_time(device, asked):
            changes.append(SetTimeSlice(bus_id_of(device), _minor(device)))
    return tuple(changes)


def _slices_time(device: Device, asked: Asked) -> bool:
    """Whether a time slice was set that is not the usual one. Parameters that nobody can read set nothing."""
    try:
        wanted = config_for(_type(device), asked.parameters, asked.named)
    except InvalidError:
        return False
    return isinstance(wanted, GpuConfig) and wanted.interval not in (None, Interval.DEFAULT)


def _to_prepare(config: NvidiaConfig, device: Device, wanted: Config) -> tuple[HostChange, ...]:
    if isinstance(wanted, VfioDeviceConfig):
        return vfio.to_pass(device)
    if mig.is_made_for_claims(device):
        return mig.to_make(device)
    if not isinstance(wanted, GpuConfig):
        return ()
    card = (bus_id_of(device), _minor(device))
    changes: list[HostChange] = []
    if config.dynamic_mig and mig.changes_mode(device):
        changes.append(SetMigMode(*card, on=False))  # a process that was killed may have left it on
    if wanted.interval is not None:
        changes += [SetComputeMode(*card), SetTimeSlice(*card, wanted.interval.value)]
    return tuple(changes)


def _by_strategy(strategy: ListStrategy, devices: Sequence[Device]) -> ContainerEdits:
    ids = tuple(dict.fromkeys(name for device in devices for name in device.addresses))
    if strategy is ListStrategy.ENVVAR:
        return ContainerEdits(env=((VISIBLE, ",".join(ids)),))
    if strategy is ListStrategy.VOLUME_MOUNTS:
        mounts = tuple(Mount("/dev/null", f"{_VOLUMES}/{name}") for name in ids)
        return ContainerEdits(env=((VISIBLE, _VOLUMES),), mounts=mounts)
    if strategy is ListStrategy.CDI:
        return ContainerEdits(cdi_devices=tuple(qualified(CDI_KIND, name) for name in ids))
    return ContainerEdits()


def _own_nodes(device: Device) -> ContainerEdits:
    return _nodes(device.paths)


def _nodes(paths: Sequence[str]) -> ContainerEdits:
    return ContainerEdits(
        device_nodes=tuple(DeviceNode(path, path, _PERMISSIONS) for path in dict.fromkeys(paths))
    )


def _to_see_parts(devices: Sequence[Device]) -> list[HostChange]:
    """The nodes of MIG devices that exist, which nobody may have made yet."""
    minors = (capability_minor(path) for device in devices for path in device.paths)
    return [MakeCapabilityNode(minor) for minor in dict.fromkeys(minors) if minor is not None]


def _graphics(config: NvidiaConfig, devices: Sequence[Device]) -> tuple[str, ...]:
    if not config.graphics:
        return ()
    return tuple(dict.fromkeys(bus_id_of(device) for device in devices if _type(device) is DeviceType.GPU))


def _type(device: Device) -> DeviceType:
    try:
        return DeviceType(str(device.attributes.get("type")))
    except ValueError as error:
        raise InvalidError(f"{device.id} is neither a GPU nor a part of one", field="device") from error


def _minor(device: Device) -> int:
    for path in device.paths:
        if (minor := gpu_minor(path)) is not None:
            return minor
    raise HardwareError(f"{device.id} has no node like {gpu_node(0)}", device=device.id)


def _refuse_mps(device: Device, wanted: Config) -> None:
    if uses_mps(wanted):
        raise HardwareError(
            f"{device.name or device.id}: MPS is not possible here: it needs a control daemon that runs for as long as the "
            "claim is used, and Dray starts none; use the strategy TimeSlicing",
            device=device.id,
        )
