"""What the real library is asked. An answer that is an error becomes NvmlError, or None where the fact is absent."""

from __future__ import annotations

import ctypes
from types import ModuleType
from typing import Any

from dray.hardware.nvml.codes import ABSENT, Code, NvmlError
from dray.hardware.nvml.event_queue import EventQueue
from dray.hardware.nvml.facts import Placement
from dray.hardware.nvml.protocol import Handle, InstanceInfo, ProfileInfo

_RECOVERY_ACTION = 230


class Calls:
    """NVML, opened. Handles by UUID are remembered as long as it is open."""

    def __init__(self, bindings: ModuleType) -> None:
        self._nv = bindings
        self._handles: dict[str, Handle] = {}
        self._is_open = True

    def close(self) -> None:
        """End it. An error is no matter then: the process has no use for it any more."""
        if self._is_open:
            self._is_open = False
            self._handles.clear()
            try:
                self._nv.nvmlShutdown()
            except self._nv.NVMLError:
                return

    def _ask(self, doing: str, name: str, *args: Any) -> Any:
        try:
            return getattr(self._nv, name)(*args)
        except self._nv.NVMLError as error:
            raise NvmlError(doing, error.value) from error

    def _maybe(self, doing: str, name: str, *args: Any) -> Any:
        try:
            return self._ask(doing, name, *args)
        except NvmlError as error:
            if error.code in ABSENT:
                return None
            raise

    # The system and its cards.

    def driver_version(self) -> str:
        """As the kernel module says."""
        return _text(self._ask("ask for the driver's version", "nvmlSystemGetDriverVersion"))

    def cuda_version(self) -> int:
        """As the driver says, not what a container has."""
        return int(self._ask("ask for CUDA's version", "nvmlSystemGetCudaDriverVersion_v2"))

    def count(self) -> int:
        """Lost cards count too."""
        return int(self._ask("count the GPUs", "nvmlDeviceGetCount"))

    def handle(self, index: int) -> Handle:
        """By number."""
        return self._ask(f"reach GPU {index}", "nvmlDeviceGetHandleByIndex", index)

    def handle_of(self, uuid: str) -> Handle:
        """By UUID, remembered."""
        if uuid not in self._handles:
            self._handles[uuid] = self._ask(f"reach {uuid}", "nvmlDeviceGetHandleByUUID", uuid)
        return self._handles[uuid]

    def uuid(self, handle: Handle) -> str:
        """Of a card or a MIG device."""
        return _text(self._ask("ask for a GPU's UUID", "nvmlDeviceGetUUID", handle))

    def name(self, handle: Handle) -> str:
        """The product."""
        return _text(self._ask("ask for a GPU's name", "nvmlDeviceGetName", handle))

    def minor(self, handle: Handle) -> int:
        """Of its node."""
        return int(self._ask("ask for a GPU's minor number", "nvmlDeviceGetMinorNumber", handle))

    def bus_id(self, handle: Handle) -> str:
        """With eight digits of domain."""
        return _text(self._ask("ask for a GPU's bus id", "nvmlDeviceGetPciInfo_v3", handle).busId)

    def brand(self, handle: Handle) -> int:
        """A number."""
        return int(self._ask("ask for a GPU's brand", "nvmlDeviceGetBrand", handle))

    def architecture(self, handle: Handle) -> int:
        """A number."""
        return int(self._ask("ask for a GPU's architecture", "nvmlDeviceGetArchitecture", handle))

    def compute_capability(self, handle: Handle) -> tuple[int, int]:
        """Major, minor."""
        major, minor = self._ask(
            "ask for a GPU's compute capability", "nvmlDeviceGetCudaComputeCapability", handle
        )
        return (int(major), int(minor))

    def memory(self, handle: Handle) -> int | None:
        """Bytes."""
        found = self._maybe("ask for a GPU's memory", "nvmlDeviceGetMemoryInfo", handle)
        return None if found is None else int(found.total)

    def addressing_mode(self, handle: Handle) -> int | None:
        """A number."""
        return _number(self._maybe("ask for the addressing mode", "nvmlDeviceGetAddressingMode", handle))

    def virtualization_mode(self, handle: Handle) -> int | None:
        """A number."""
        return _number(
            self._maybe("ask for the virtualization mode", "nvmlDeviceGetVirtualizationMode", handle)
        )

    # MIG.

    def mig_mode(self, handle: Handle) -> tuple[int, int] | None:
        """Current and pending."""
        found = self._maybe("ask for the MIG mode", "nvmlDeviceGetMigMode", handle)
        return None if found is None else (int(found[0]), int(found[1]))

    def profile(self, handle: Handle, index: int) -> ProfileInfo | None:
        """With its name where the driver is new enough."""
        doing, name = f"ask for MIG profile {index}", "nvmlDeviceGetGpuInstanceProfileInfo"
        found = self._maybe(doing, name, handle, index) or self._maybe(doing, name, handle, index, 1)
        if found is None:
            return None
        return ProfileInfo(
            id=found.id,
            slices=found.sliceCount,
            count=found.instanceCount,
            multiprocessors=found.multiprocessorCount,
            copy_engines=found.copyEngineCount,
            decoders=found.decoderCount,
            encoders=found.encoderCount,
            jpeg_engines=found.jpegCount,
            ofa_engines=found.ofaCount,
            memory_mib=found.memorySizeMB,
            name=_text(getattr(found, "name", "")),
        )

    def placements(self, handle: Handle, profile_id: int) -> tuple[Placement, ...]:
        """None where the card has no such profile now."""
        name = "nvmlDeviceGetGpuInstancePossiblePlacements"
        doing = f"ask for the placements of MIG profile {profile_id}"
        count = ctypes.c_uint(0)
        if self._maybe(doing, name, handle, profile_id, None, ctypes.byref(count)) is None or not count.value:
            return ()
        room = (self._nv.c_nvmlGpuInstancePlacement_t * count.value)()
        self._ask(doing, name, handle, profile_id, room, ctypes.byref(count))
        return tuple(Placement(one.start, one.size) for one in room[: count.value])

    def mig_handles(self, handle: Handle) -> tuple[Handle, ...]:
        """By number; numbers have gaps."""
        doing = "list the MIG devices"
        count = self._maybe(doing, "nvmlDeviceGetMaxMigDeviceCount", handle) or 0
        found = []
        for index in range(count):
            try:
                found.append(self._ask(doing, "nvmlDeviceGetMigDeviceHandleByIndex", handle, index))
            except NvmlError as error:
                if error.code is not Code.NOT_FOUND and error.code not in ABSENT:
                    raise
        return tuple(found)

    def instance(self, handle: Handle, mig_handle: Handle) -> InstanceInfo:
        """Out of the device's ids and the GPU instance's own word."""
        doing = "look at a MIG device"
        gpu_instance = int(self._ask(doing, "nvmlDeviceGetGpuInstanceId", mig_handle))
        attributes = self._ask(doing, "nvmlDeviceGetAttributes_v2", mig_handle)
        info = self._ask(doing, "nvmlGpuInstanceGetInfo", self._gpu_instance(handle, gpu_instance))
        return InstanceInfo(
            gpu_instance=gpu_instance,
            compute_instance=int(self._ask(doing, "nvmlDeviceGetComputeInstanceId", mig_handle)),
            profile_id=info.profileId,
            placement=Placement(info.placement.start, info.placement.size),
            slices=attributes.gpuInstanceSliceCount,
            compute_slices=attributes.computeInstanceSliceCount,
        )

    # Health.

    def supported_events(self, handle: Handle) -> int:
        """0 where it reports nothing."""
        return int(self._maybe("ask for events", "nvmlDeviceGetSupportedEventTypes", handle) or 0)

    def recovery_action(self, handle: Handle) -> int | None:
        """A field that drivers before 570 do not have."""
        values = self._maybe(
            "ask for the recovery action", "nvmlDeviceGetFieldValues", handle, [_RECOVERY_ACTION]
        )
        return None if values is None or values[0].nvmlReturn else int(values[0].value.uiVal)

    def events(self) -> EventQueue:
        """A new set."""
        return EventQueue(self.uuid, self._nv, self._ask("listen for errors", "nvmlEventSetCreate"))

    def _gpu_instance(self, handle: Handle, gpu_instance: int) -> Any:
        return self._ask(
            f"reach GPU instance {gpu_instance}", "nvmlDeviceGetGpuInstanceById", handle, gpu_instance
        )


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
