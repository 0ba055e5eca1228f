"""Facts out of NVML's answers. One card that does not answer is a problem; the others are told all the same."""

from __future__ import annotations

from typing import Final

from dray.hardware.facts import Problem, showable
from dray.hardware.nvml.codes import GONE, Code, NvmlError
from dray.hardware.nvml.facts import Gpu, Gpus, MigDevice, MigMode, MigProfile, NvmlSystem
from dray.hardware.nvml.profiles import profile_name
from dray.hardware.nvml.protocol import PROFILES, Handle, Nvml
from dray.hardware.parse import pci_address

_BRANDS: Final = (
    "Unknown",
    "Quadro",
    "Tesla",
    "NVS",
    "Grid",
    "GeForce",
    "Titan",
    "NvidiaVApps",
    "NvidiaVPC",
    "NvidiaVCS",
    "NvidiaVWS",
    "NvidiaCloudGaming",
    "QuadroRTX",
    "NvidiaRTX",
    "Nvidia",
    "GeForceRTX",
    "TitanRTX",
)
_ARCHITECTURES: Final = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
_ADDRESSING: Final = {0: "None", 1: "HMM", 2: "ATS"}
_VGPU: Final = 2


def read_system(nvml: Nvml) -> NvmlSystem:
    """The driver's versions; 13000 is CUDA 13.0."""
    cuda = nvml.cuda_version()
    return NvmlSystem(nvml.driver_version(), f"{cuda // 1000}.{cuda % 1000 // 10}")


def read_gpus(nvml: Nvml, profiles: dict[str, tuple[MigProfile, ...]] | None = None) -> Gpus:
    """All cards, by bus id. Needs root for MIG devices; a card whose facts cannot be had is left out and told.

    `profiles` remembers by UUID what never changes and takes NVML long: pass the same one to the next look.
    """
    profiles = {} if profiles is None else profiles
    found: list[Gpu] = []
    lost = 0
    problems: list[Problem] = []
    for index in range(nvml.count()):
        try:
            found.append(_read_gpu(nvml, index, profiles, problems))
        except NvmlError as error:
            lost += error.code in GONE
            problems.append(Problem(f"GPU {index}", showable(str(error))))
    items = tuple(sorted(found, key=lambda gpu: gpu.bus_id))
    return Gpus(read_system(nvml), items, lost, tuple(problems))


def _read_gpu(
    nvml: Nvml, index: int, remembered: dict[str, tuple[MigProfile, ...]], problems: list[Problem]
) -> Gpu:
    handle = nvml.handle(index)
    memory, mode, uuid = nvml.memory(handle), nvml.mig_mode(handle), nvml.uuid(handle)
    mig = None if mode is None else MigMode(bool(mode[0]), bool(mode[1]))
    if uuid not in remembered:
        remembered[uuid] = () if mig is None else _read_profiles(nvml, handle, memory)
    profiles = remembered[uuid]
    addressing = nvml.addressing_mode(handle)
    brand = nvml.brand(handle)
    return Gpu(
        index=index,
        minor=nvml.minor(handle),
        uuid=uuid,
        name=showable(nvml.name(handle)),
        brand=_BRANDS[brand] if 0 <= brand < len(_BRANDS) else _BRANDS[0],
        architecture=_ARCHITECTURES.get(nvml.architecture(handle), "Unknown"),
        compute_capability=nvml.compute_capability(handle),
        bus_id=_bus_id(nvml, handle),
        memory=memory,
        addressing_mode=None if addressing is None else _ADDRESSING.get(addressing),
        is_guest=nvml.virtualization_mode(handle) == _VGPU,
        mig=mig,
        profiles=profiles,
        mig_devices=_read_mig_devices(nvml, handle, uuid, profiles, problems) if mig and mig.current else (),
        supported_events=nvml.supported_events(handle),
    )


def _bus_id(nvml: Nvml, handle: Handle) -> str:
    text = nvml.bus_id(handle)
    found = pci_address(text)
    if found is None:
        raise NvmlError(f"understand the bus id {text!r}", Code.UNKNOWN)
    return found


def _read_profiles(nvml: Nvml, handle: Handle, memory: int | None) -> tuple[MigProfile, ...]:
    """Those that the card offers, by number. One without a placement cannot be made."""
    found = []
    for index in range(PROFILES):
        info = nvml.profile(handle, index)
        placements = nvml.placements(handle, info.id) if info else ()
        if info and placements:
            found.append(
                MigProfile(
                    id=info.id,
                    index=index,
                    name=profile_name(index, info, memory),
                    slices=info.slices,
                    count=info.count,
                    multiprocessors=info.multiprocessors,
                    copy_engines=info.copy_engines,
                    decoders=info.decoders,
                    encoders=info.encoders,
                    jpeg_engines=info.jpeg_engines,
                    ofa_engines=info.ofa_engines,
                    memory_mib=info.memory_mib,
                    placements=tuple(sorted(placements)),
                )
            )
    return tuple(found)


def _read_mig_devices(
    nvml: Nvml, handle: Handle, uuid: str, profiles: tuple[MigProfile, ...], problems: list[Problem]
) -> tuple[MigDevice, ...]:
    """Those that exist, by placement. One that goes while we look is passed over."""
    found = []
    names = {profile.id: profile.name for profile in profiles}
    for index, mig_handle in enumerate(nvml.mig_handles(handle)):
        try:
            info = nvml.instance(handle, mig_handle)
            own = nvml.uuid(mig_handle)
        except NvmlError as error:
            if error.code not in (Code.NOT_FOUND, Code.INVALID_ARGUMENT):
                problems.append(Problem(uuid, showable(f"a MIG device of {uuid} is not known: {error}")))
            continue
        found.append(
            MigDevice(
                uuid=own,
                parent_uuid=uuid,
                gpu_instance=info.gpu_instance,
                compute_instance=info.compute_instance,
                profile_id=info.profile_id,
                profile=names.get(info.profile_id, ""),
                placement=info.placement,
                fills=info.slices == info.compute_slices,
                index=index,
            )
        )
    return tuple(sorted(found, key=lambda device: (device.placement, device.compute_instance)))
