"""NVIDIA GPUs as NVML tells of them: cards, the MIG profiles they offer and the MIG devices they are divided into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dray.hardware.facts import Problem

WHOLE: Final = 0xFFFFFFFF
"""The id in place of a GPU or compute instance where an event is about the whole card."""
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class NvmlSystem:
    """The driver: `580.159.04`, and the CUDA version it speaks, `13.0`."""

    driver_version: str
    cuda_version: str


@dataclass(frozen=True, slots=True, order=True)
class Placement:
    """Memory slices that a GPU instance takes: `size` of them from `start` on."""

    start: int
    size: int

    @property
    def slices(self) -> range:
        """Their numbers."""
        return range(self.start, self.start + self.size)


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A shape of GPU instance, and where it may be put on this card.

    `id` is what NVML is given to make one and `nvidia-smi mig -lgip` shows (19); `index` is the number it was asked for
    by. `slices` are compute slices, `memory_mib` as NVML counts. `count` is how many fit on an empty card.
    """

    id: int
    index: int
    name: str
    slices: int
    count: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    encoders: int
    jpeg_engines: int
    ofa_engines: int
    memory_mib: int
    placements: tuple[Placement, ...]

    @property
    def memory(self) -> int:
        """Bytes."""
        return self.memory_mib * MIB


@dataclass(frozen=True, slots=True)
class MigDevice:
    """A compute instance that exists, with all of its GPU instance: what a container gets.

    `profile_id` and `placement` are those of the GPU instance. `fills` tells whether it is the GPU instance's only
    possible one; where it is not, others may share the memory.
    """

    uuid: str
    parent_uuid: str
    gpu_instance: int
    compute_instance: int
    profile_id: int
    profile: str
    placement: Placement
    fills: bool = True
    index: int = 0
    """Its number on the card, which NVIDIA's runtime may be given in place of the UUID."""


@dataclass(frozen=True, slots=True)
class MigMode:
    """Whether the card is divided now, and whether it will be after its next reset."""

    current: bool
    pending: bool


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card that the driver has. `bus_id` is as sysfs names it: `0000:00:06.0`; `minor` is of `/dev/nvidia<minor>`.

    `memory` is None where it is shared with the host's. `mig` is None on cards that cannot be divided. `profiles` has
    those that a card offers, also while MIG is off; `mig_devices` those that exist. `is_guest`: a vGPU of a VM.
    """

    index: int
    minor: int
    uuid: str
    name: str
    brand: str
    architecture: str
    compute_capability: tuple[int, int]
    bus_id: str
    memory: int | None = None
    addressing_mode: str | None = None
    is_guest: bool = False
    mig: MigMode | None = None
    profiles: tuple[MigProfile, ...] = ()
    mig_devices: tuple[MigDevice, ...] = ()
    supported_events: int = 0

    @property
    def is_divided(self) -> bool:
        """Whether MIG is on now: then the whole card can run nothing."""
        return self.mig is not None and self.mig.current

    @property
    def memory_slices(self) -> int:
        """Into how many pieces the memory can be divided; 0 where it cannot."""
        return max(
            (placement.size for profile in self.profiles for placement in profile.placements), default=0
        )

    def profile(self, profile_id: int) -> MigProfile | None:
        """The profile with this id, if the card offers it."""
        return next((profile for profile in self.profiles if profile.id == profile_id), None)


@dataclass(frozen=True, slots=True)
class Gpus:
    """One look at all cards, by bus id. `lost` counts those that do not answer any more; `problems` hide one card each."""

    system: NvmlSystem
    items: tuple[Gpu, ...] = ()
    lost: int = 0
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class XidEvent:
    """The driver reported an error `xid` of a card; of a part of it where the instances are not `WHOLE`."""

    uuid: str
    xid: int
    gpu_instance: int = WHOLE
    compute_instance: int = WHOLE
