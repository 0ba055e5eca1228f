"""What is asked of NVML, call by call: `session.py` asks the library, `recorded.py` a recording.

A call raises NvmlError where NVML does; one that answers None does so where the card or the driver has no such thing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from dray.hardware.host_root import Place
from dray.hardware.nvml.facts import Placement, XidEvent

Handle = Any
"""A card or a MIG device, good for one session."""

XID: Final = 0x8
DOUBLE_BIT_ECC: Final = 0x2
SINGLE_BIT_ECC: Final = 0x1
EVENTS: Final = XID | DOUBLE_BIT_ECC | SINGLE_BIT_ECC
"""What is registered for; only XIDs say that something is broken."""


@dataclass(frozen=True, slots=True)
class ProfileInfo:
    """A GPU instance profile, as NVML describes it."""

    id: int
    slices: int
    count: int
    multiprocessors: int
    copy_engines: int
    decoders: int
    encoders: int
    jpeg_engines: int
    ofa_engines: int
    memory_mib: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class InstanceInfo:
    """A MIG device's GPU instance and compute instance; `slices` and `compute_slices` tell whether one fills the other."""

    gpu_instance: int
    compute_instance: int
    profile_id: int
    placement: Placement
    slices: int
    compute_slices: int


class Events(Protocol):
    """A queue of what the driver reports, from the moment a card is added."""

    def add(self, handle: Handle, types: int) -> None:
        """Hear about this card too. NvmlError NOT_SUPPORTED where it reports nothing."""
        ...

    def next(self, seconds: float) -> XidEvent | None:
        """The next XID, waiting for it at most that long; None where none came. Other events are passed over."""
        ...

    def close(self) -> None:
        """Hear nothing more; may be called twice."""
        ...


class Nvml(Protocol):
    """One open session, used by one thread at a time."""

    def close(self) -> None:
        """End it; may be called twice."""
        ...

    def driver_version(self) -> str:
        """`580.159.04`."""
        ...

    def cuda_version(self) -> int:
        """13000 for 13.0."""
        ...

    def count(self) -> int:
        """How many cards the driver has, lost ones too."""
        ...

    def handle(self, index: int) -> Handle:
        """A card by its number; NvmlError GPU_IS_LOST where it fell off the bus."""
        ...

    def handle_of(self, uuid: str) -> Handle:
        """A card by its UUID; remembered, since NVML walks all cards for it."""
        ...

    def uuid(self, handle: Handle) -> str:
        """Of a card or a MIG device."""
        ...

    def name(self, handle: Handle) -> str:
        """`NVIDIA H200`."""
        ...

    def minor(self, handle: Handle) -> int:
        """The N of /dev/nvidiaN."""
        ...

    def bus_id(self, handle: Handle) -> str:
        """`00000000:00:06.0`."""
        ...

    def brand(self, handle: Handle) -> int:
        """NVML's number for it."""
        ...

    def architecture(self, handle: Handle) -> int:
        """NVML's number for it."""
        ...

    def compute_capability(self, handle: Handle) -> tuple[int, int]:
        """Major and minor."""
        ...

    def memory(self, handle: Handle) -> int | None:
        """Bytes; None where it is the host's."""
        ...

    def addressing_mode(self, handle: Handle) -> int | None:
        """NVML's number for it."""
        ...

    def virtualization_mode(self, handle: Handle) -> int | None:
        """NVML's number for it; 2 is a vGPU in a VM."""
        ...

    def mig_mode(self, handle: Handle) -> tuple[int, int] | None:
        """Current and pending, 1 is on."""
        ...

    def profile(self, handle: Handle, index: int) -> ProfileInfo | None:
        """One of the profiles 0, 1, … of `PROFILES`."""
        ...

    def placements(self, handle: Handle, profile_id: int) -> tuple[Placement, ...]:
        """Where a GPU instance of a profile may be put on an empty card."""
        ...

    def mig_handles(self, handle: Handle) -> tuple[Handle, ...]:
        """The MIG devices that exist on a card."""
        ...

    def instance(self, handle: Handle, mig_handle: Handle) -> InstanceInfo:
        """What a MIG device of a card is made of."""
        ...

    def supported_events(self, handle: Handle) -> int:
        """A mask of what can be registered for."""
        ...

    def recovery_action(self, handle: Handle) -> int | None:
        """What the driver wants done: 0 nothing, 1 a reset, 2 a restart of the machine, …; None where it does not say."""
        ...

    def events(self) -> Events:
        """A new queue, with no card in it."""
        ...


class NvmlChanges(Nvml, Protocol):
    """A session that changes cards too. Only changes of `hardware/change` call these."""

    def set_mig_mode(self, handle: Handle, *, on: bool) -> None:
        """NvmlError IN_USE while somebody uses the card, RESET_REQUIRED where only a reset would make it so."""
        ...

    def create_gpu_instance(self, handle: Handle, profile_id: int, placement: Placement) -> int:
        """The id of the new one. An occupied placement is NvmlError INSUFFICIENT_RESOURCES."""
        ...

    def create_compute_instance(self, handle: Handle, gpu_instance: int, slices: int) -> tuple[int, str]:
        """One that takes all of a GPU instance of `slices` compute slices: its id, and the MIG device's UUID."""
        ...

    def destroy_compute_instance(self, handle: Handle, gpu_instance: int, compute_instance: int) -> None:
        """NvmlError IN_USE while somebody uses it, NOT_FOUND where there is none."""
        ...

    def destroy_gpu_instance(self, handle: Handle, gpu_instance: int) -> None:
        """NvmlError IN_USE while it has compute instances, NOT_FOUND where there is none."""
        ...

    def gpu_instances(self, handle: Handle) -> tuple[tuple[int, int, Placement], ...]:
        """Id, profile id and placement of each, also of those without a compute instance."""
        ...

    def compute_instances(self, handle: Handle, gpu_instance: int) -> tuple[int, ...]:
        """Ids of the compute instances of one."""
        ...

    def persistence_mode(self, handle: Handle) -> bool | None:
        """Whether the driver stays loaded while nobody uses the card."""
        ...

    def set_persistence_mode(self, handle: Handle, *, on: bool) -> None:
        """Needed off before a card leaves the driver."""
        ...


PROFILES: Final = 32
"""Numbers to ask profiles by: more than any driver has, so that those of newer cards are found too."""

OpenNvml = Callable[[Place], AbstractContextManager[NvmlChanges]]
"""Opens a session over a host's library: `session.open_nvml`, or a recording's `open`."""
