"""Divide an NVIDIA card: MIG mode, and MIG devices at a given placement. All of it goes through NVML.

A MIG device is named by where it is, not by its ids: those are known only once it exists, and the next one gets them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from dray.errors import ConflictError, DeniedError, Error, HardwareError, NotFoundError
from dray.hardware.change.access import Access
from dray.hardware.change.nvidia_nodes import make_nodes
from dray.hardware.change.value import Capability, Effect, HostChange, check_address, check_range
from dray.hardware.nvml.capabilities import NODES
from dray.hardware.nvml.codes import Code, NvmlError
from dray.hardware.nvml.facts import Placement
from dray.hardware.nvml.protocol import PROFILES, Handle, NvmlChanges
from dray.hardware.parse import pci_address

_PERSISTENCED = "/run/nvidia-persistenced/socket"
_MOST_MINOR = 2**20 - 1
_MOST_SLICES = 64


class _CardChange(HostChange, frozen=True):
    needs: ClassVar[tuple[Capability, ...]] = (Capability.NVIDIA,)

    address: str

    def __post_init__(self) -> None:
        check_address(self.address)

    @property
    def device(self) -> str:
        """The card's address."""
        return self.address


class SetMigMode(_CardChange, frozen=True):
    """Let a card be divided, or not. It is switched off only once the last instance is gone: until then nothing is done."""

    files: ClassVar[tuple[str, ...]] = ("/dev/nvidia{minor}",)
    undone_by: ClassVar[str] = "SetMigMode"

    minor: int
    on: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.minor, 0, _MOST_MINOR, "minor")

    def describe(self) -> str:
        """One line."""
        return f"switch MIG {'on' if self.on else 'off'} on {self.address}"

    def is_so(self, host: Access) -> bool:
        """The mode is the wanted one, or it may not be switched off yet."""
        with _card(host, self.address) as (nvml, handle):
            return self._suits(nvml, handle)

    def perform(self, host: Access) -> Effect:
        """ConflictError while somebody uses the card; HardwareError where only a reset would make it so."""
        with _card(host, self.address) as (nvml, handle):
            if self._suits(nvml, handle):
                return Effect(changed=False)
            nvml.set_mig_mode(handle, on=self.on)
            if not self._suits(nvml, handle):
                raise HardwareError(
                    f"{self.address}: MIG is {'on' if self.on else 'off'} only after a reset: run `nvidia-smi --gpu-reset` "
                    "while nobody uses the card",
                    device=self.address,
                )
        return Effect(changed=True, undo=SetMigMode(self.address, self.minor, not self.on))

    def _suits(self, nvml: NvmlChanges, handle: Handle) -> bool:
        mode = nvml.mig_mode(handle)
        if mode is None:
            raise HardwareError(f"{self.address}: the card cannot be divided", device=self.address)
        is_on = bool(mode[0])
        return is_on == self.on or (not self.on and bool(nvml.gpu_instances(handle)))


class _MigDeviceChange(_CardChange, frozen=True):
    minor: int
    profile: int
    start: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self.minor, 0, _MOST_MINOR, "minor")
        check_range(self.profile, 0, 2**16 - 1, "profile")
        check_range(self.start, 0, _MOST_SLICES - 1, "start")

    def _find(self, nvml: NvmlChanges, handle: Handle) -> int | None:
        """The GPU instance that is there."""
        for instance, profile, placement in nvml.gpu_instances(handle):
            if (profile, placement.start) == (self.profile, self.start):
                return instance
        return None


class CreateMigDevice(_MigDeviceChange, frozen=True):
    """Make a GPU instance of a profile from slice `start` on, and in it one compute instance that takes all of it."""

    files: ClassVar[tuple[str, ...]] = ("/dev/nvidia{minor}", f"{NODES}/nvidia-cap*")
    needs: ClassVar[tuple[Capability, ...]] = (Capability.NVIDIA, Capability.MKNOD)
    undone_by: ClassVar[str] = "DestroyMigDevice"

    def describe(self) -> str:
        """One line."""
        return f"make a MIG device of profile {self.profile} at {self.start} on {self.address}"

    def is_so(self, host: Access) -> bool:
        """It is there, with its compute instance."""
        with _card(host, self.address) as (nvml, handle):
            found = self._find(nvml, handle)
            return found is not None and bool(nvml.compute_instances(handle, found))

    def perform(self, host: Access) -> Effect:
        """Also finishes one that was half made. ConflictError where other instances have the slices."""
        with _card(host, self.address) as (nvml, handle):
            found = self._find(nvml, handle)
            made = found is None
            instance = self._create(nvml, handle) if found is None else found
            compute = nvml.compute_instances(handle, instance)
            if not compute:
                compute, made = (self._fill(nvml, handle, instance),), True
            make_nodes(host, self.minor, instance, compute[0])
        undo = DestroyMigDevice(self.address, self.minor, self.profile, self.start)
        return Effect(changed=made, undo=undo if made else None)

    def _create(self, nvml: NvmlChanges, handle: Handle) -> int:
        places = nvml.placements(handle, self.profile)
        place = next((one for one in places if one.start == self.start), None)
        if place is None:
            starts = ", ".join(str(one.start) for one in places) or "nowhere"
            message = (
                f"{self.address}: profile {self.profile} cannot be put at {self.start}, only at {starts}"
            )
            raise HardwareError(message, device=self.address)
        try:
            return nvml.create_gpu_instance(handle, self.profile, place)
        except NvmlError as error:
            if error.code is not Code.INSUFFICIENT_RESOURCES:
                raise
            raise ConflictError(f"cannot {self.describe()}: {_occupied(nvml, handle, place)}") from error

    def _fill(self, nvml: NvmlChanges, handle: Handle, instance: int) -> int:
        """The compute instance. Without it the GPU instance is of no use, and is taken away again."""
        try:
            return nvml.create_compute_instance(handle, instance, self._slices(nvml, handle))[0]
        except Error:
            nvml.destroy_gpu_instance(handle, instance)
            raise

    def _slices(self, nvml: NvmlChanges, handle: Handle) -> int:
        for index in range(PROFILES):
            profile = nvml.profile(handle, index)
            if profile is not None and profile.id == self.profile:
                return profile.slices
        raise HardwareError(f"{self.address} has no MIG profile {self.profile}", device=self.address)


class DestroyMigDevice(_MigDeviceChange, frozen=True):
    """Take the MIG device of a profile at slice `start` away: its compute instances, then its GPU instance."""

    files: ClassVar[tuple[str, ...]] = ("/dev/nvidia{minor}",)
    undone_by: ClassVar[str] = "CreateMigDevice"

    def describe(self) -> str:
        """One line."""
        return f"remove the MIG device of profile {self.profile} at {self.start} on {self.address}"

    def is_so(self, host: Access) -> bool:
        """There is no such GPU instance."""
        with _card(host, self.address) as (nvml, handle):
            return self._find(nvml, handle) is None

    def perform(self, host: Access) -> Effect:
        """ConflictError while a process uses it. One without a compute instance is taken away all the same."""
        with _card(host, self.address) as (nvml, handle):
            instance = self._find(nvml, handle)
            if instance is None:
                return Effect(changed=False)
            for compute in nvml.compute_instances(handle, instance):
                nvml.destroy_compute_instance(handle, instance, compute)
            nvml.destroy_gpu_instance(handle, instance)
        return Effect(changed=True, undo=CreateMigDevice(self.address, self.minor, self.profile, self.start))


class SetPersistence(_CardChange, frozen=True):
    """Whether the driver keeps a card that nobody uses. There is nothing to do on hosts without nvidia-persistenced."""

    files: ClassVar[tuple[str, ...]] = ("/dev/nvidiactl",)
    undone_by: ClassVar[str] = "SetPersistence"

    on: bool

    def describe(self) -> str:
        """One line."""
        return f"switch the persistence mode of {self.address} {'on' if self.on else 'off'}"

    def is_so(self, host: Access) -> bool:
        """The mode is the wanted one, nobody keeps it, or another driver has the card."""
        if host.link_name(f"/sys/bus/pci/devices/{self.address}/driver") != "nvidia":
            return True
        if not host.reading.exists(_PERSISTENCED):
            return True
        with _card(host, self.address) as (nvml, handle):
            return nvml.persistence_mode(handle) in (None, self.on)

    def perform(self, host: Access) -> Effect:
        """Switch it."""
        if self.is_so(host):
            return Effect(changed=False)
        with _card(host, self.address) as (nvml, handle):
            nvml.set_persistence_mode(handle, on=self.on)
        return Effect(changed=True, undo=SetPersistence(self.address, not self.on))


@contextmanager
def _card(host: Access, address: str) -> Iterator[tuple[NvmlChanges, Handle]]:
    """An open session and the card's handle; NVML's refusals become errors that say what to do."""
    try:
        with host.nvml(host.reading) as nvml:
            yield nvml, _handle(nvml, address)
    except NvmlError as error:
        raise _refused(error, address) from error


def _handle(nvml: NvmlChanges, address: str) -> Handle:
    for index in range(nvml.count()):
        try:
            handle = nvml.handle(index)
            if pci_address(nvml.bus_id(handle)) == address:
                return handle
        except NvmlError:  # another card, which fell off the bus
            continue
    message = f"NVIDIA's driver has no card {address}: look at `nvidia-smi -L`"
    raise NotFoundError(message, kind="device", name=address)


def _occupied(nvml: NvmlChanges, handle: Handle, place: Placement) -> str:
    """Who is in the way, in words."""
    wanted = set(place.slices)
    others = [
        f"GPU instance {instance} (profile {profile} at {placement.start})"
        for instance, profile, placement in nvml.gpu_instances(handle)
        if wanted & set(placement.slices)
    ]
    return f"its slices are taken by {', '.join(others)}" if others else "no room is left for it on the card"


def _refused(error: NvmlError, address: str) -> Error:
    message = f"{address}: {error}"
    if error.code is Code.IN_USE:
        return ConflictError(f"{message}: stop the workload first")
    if error.code is Code.NO_PERMISSION:
        return DeniedError(message, what=address)
    if error.code is Code.INSUFFICIENT_RESOURCES:
        return ConflictError(message)
    return HardwareError(message, device=address)
