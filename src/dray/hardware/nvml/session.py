"""A session over the real library, which changes cards too."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from dray.errors import UnavailableError
from dray.hardware.host_root import Place
from dray.hardware.nvml.calls import Calls
from dray.hardware.nvml.codes import Code, NvmlError
from dray.hardware.nvml.facts import Placement
from dray.hardware.nvml.library import load
from dray.hardware.nvml.protocol import PROFILES, Handle

_COMPUTE_PROFILES = 9


@contextmanager
def open_nvml(root: Place) -> Iterator[Session]:
    """A session over the host's library, closed at the end. UnavailableError where there is no library or no driver."""
    bindings = load(root)
    try:
        bindings.nvmlInitWithFlags(bindings.NVML_INIT_FLAG_NO_GPUS)
    except bindings.NVMLError as error:
        raise UnavailableError(str(NvmlError("open NVML", error.value))) from error
    session = Session(bindings)
    try:
        yield session
    finally:
        session.close()


class Session(Calls):
    """Reading and changing. Only changes of `hardware/change` call the latter."""

    def set_mig_mode(self, handle: Handle, *, on: bool) -> None:
        """The answer tells whether the mode was activated: not all cards do without a reset."""
        doing = f"switch MIG {'on' if on else 'off'}"
        status = self._ask(doing, "nvmlDeviceSetMigMode", handle, int(on))
        if status:
            raise NvmlError(doing, int(status))

    def create_gpu_instance(self, handle: Handle, profile_id: int, placement: Placement) -> int:
        """Its id."""
        doing = f"make a GPU instance of profile {profile_id} at {placement.start}"
        place = ctypes.byref(self._nv.c_nvmlGpuInstancePlacement_t(placement.start, placement.size))
        made = self._ask(doing, "nvmlDeviceCreateGpuInstanceWithPlacement", handle, profile_id, place)
        return int(self._ask(doing, "nvmlGpuInstanceGetInfo", made).id)

    def create_compute_instance(self, handle: Handle, gpu_instance: int, slices: int) -> tuple[int, str]:
        """By the profile that has as many slices: profiles are numbered anew for each kind of card."""
        doing = f"make a compute instance in GPU instance {gpu_instance}"
        instance = self._gpu_instance(handle, gpu_instance)
        for index in range(_COMPUTE_PROFILES):
            profile = self._maybe(
                doing, "nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, index, 0, 1
            )
            if profile is not None and profile.sliceCount == slices:
                made = self._ask(doing, "nvmlGpuInstanceCreateComputeInstance", instance, profile.id)
                info = self._ask(doing, "nvmlComputeInstanceGetInfo_v2", made)
                return int(info.id), self.uuid(info.device)
        raise NvmlError(doing, Code.NOT_SUPPORTED)

    def destroy_compute_instance(self, handle: Handle, gpu_instance: int, compute_instance: int) -> None:
        """By its ids."""
        doing = f"remove compute instance {compute_instance} of GPU instance {gpu_instance}"
        instance = self._gpu_instance(handle, gpu_instance)
        found = self._ask(doing, "nvmlGpuInstanceGetComputeInstanceById", instance, compute_instance)
        self._ask(doing, "nvmlComputeInstanceDestroy", found)

    def destroy_gpu_instance(self, handle: Handle, gpu_instance: int) -> None:
        """By its id."""
        instance = self._gpu_instance(handle, gpu_instance)
        self._ask(f"remove GPU instance {gpu_instance}", "nvmlGpuInstanceDestroy", instance)

    def gpu_instances(self, handle: Handle) -> tuple[tuple[int, int, Placement], ...]:
        """Asked profile by profile: NVML has no other way."""
        doing, found = "list the GPU instances", []
        for index in range(PROFILES):
            profile = self.profile(handle, index)
            if profile is None:
                continue
            room = (self._nv.c_nvmlGpuInstance_t * max(1, profile.count))()
            count = ctypes.c_uint(0)
            args = (handle, profile.id, room, ctypes.byref(count))
            if self._maybe(doing, "nvmlDeviceGetGpuInstances", *args) is None:
                continue
            infos = [self._ask(doing, "nvmlGpuInstanceGetInfo", one) for one in room[: count.value]]
            found += [
                (info.id, info.profileId, Placement(info.placement.start, info.placement.size))
                for info in infos
            ]
        return tuple(sorted(set(found)))

    def compute_instances(self, handle: Handle, gpu_instance: int) -> tuple[int, ...]:
        """Asked profile by profile."""
        doing = f"list the compute instances of GPU instance {gpu_instance}"
        found: set[int] = set()
        instance = self._gpu_instance(handle, gpu_instance)
        for index in range(_COMPUTE_PROFILES):
            profile = self._maybe(
                doing, "nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, index, 0, 1
            )
            if profile is None:
                continue
            room = (self._nv.c_nvmlComputeInstance_t * max(1, profile.instanceCount))()
            count = ctypes.c_uint(0)
            args = (instance, profile.id, room, ctypes.byref(count))
            if self._maybe(doing, "nvmlGpuInstanceGetComputeInstances", *args) is not None:
                infos = [
                    self._ask(doing, "nvmlComputeInstanceGetInfo_v2", one) for one in room[: count.value]
                ]
                found.update(int(info.id) for info in infos)
        return tuple(sorted(found))

    def persistence_mode(self, handle: Handle) -> bool | None:
        """On or off."""
        found = self._maybe("ask for the persistence mode", "nvmlDeviceGetPersistenceMode", handle)
        return None if found is None else bool(found)

    def set_persistence_mode(self, handle: Handle, *, on: bool) -> None:
        """Deprecated by NVIDIA in favour of its daemon, and still the only call."""
        doing = f"switch the persistence mode {'on' if on else 'off'}"
        self._ask(doing, "nvmlDeviceSetPersistenceMode", handle, int(on))
