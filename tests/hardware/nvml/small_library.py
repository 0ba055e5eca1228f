"""libnvidia-ml.so.1 in Python: the C functions that the bindings call, answered out of a recording.

The bindings are the real ones: they fill structures and pointers as if the library had been loaded.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pynvml

from dray.hardware.nvml.codes import Code, NvmlError
from dray.hardware.nvml.facts import Placement
from dray.hardware.nvml.protocol import XID
from dray.hardware.nvml.recorded import Recorded
from dray.hardware.nvml.recorded_session import RecordedEvents, RecordedSession


class SmallLibrary:
    """Handles are numbers of things in `things`; the first is never used, since it would be a null pointer."""

    def __init__(self, cards: Recorded) -> None:
        self.cards = cards
        self.session = RecordedSession(cards)
        self.things: list[Any] = [None]
        self.sessions = 0
        self.missing: set[str] = set()
        """Functions that an older library does not have."""
        self.fails: dict[str, int] = {}
        """Functions that answer an error whatever they are asked."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        function = getattr(type(self), f"c_{name}", None)
        if function is None or name in self.missing:
            raise AttributeError(name)
        return partial(self._call, name, function)

    def _call(self, name: str, function: Callable[..., None], *args: Any) -> int:
        if name in self.fails:
            return self.fails[name]
        try:
            function(self, *args)
        except NvmlError as error:
            return error.number
        return 0

    def give(self, reference: Any, thing: Any) -> None:
        """Make the caller's pointer point to a thing."""
        if thing not in self.things:
            self.things.append(thing)
        number = ctypes.c_void_p(self.things.index(thing))
        ctypes.memmove(ctypes.byref(reference._obj), ctypes.byref(number), ctypes.sizeof(number))

    def of(self, pointer: Any) -> Any:
        """The thing behind a pointer."""
        return self.things[ctypes.cast(pointer, ctypes.c_void_p).value or 0]

    # Sessions and the system.

    def c_nvmlInitWithFlags(self, flags: int) -> None:
        assert flags == 1  # no GPUs are no error
        self.sessions += 1

    def c_nvmlShutdown(self) -> None:
        self.sessions -= 1

    def c_nvmlSystemGetDriverVersion(self, text: Any, _: Any) -> None:
        text.value = self.session.driver_version().encode()

    def c_nvmlSystemGetCudaDriverVersion_v2(self, number: Any) -> None:
        number._obj.value = self.session.cuda_version()

    # Cards.

    def c_nvmlDeviceGetCount_v2(self, number: Any) -> None:
        number._obj.value = self.session.count()

    def c_nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> None:
        self.give(handle, self.session.handle(index.value))

    def c_nvmlDeviceGetHandleByUUID(self, uuid: Any, handle: Any) -> None:
        self.give(handle, self.session.handle_of(uuid.value.decode()))

    def c_nvmlDeviceGetUUID(self, handle: Any, text: Any, _: Any) -> None:
        text.value = self.session.uuid(self.of(handle)).encode()

    def c_nvmlDeviceGetName(self, handle: Any, text: Any, _: Any) -> None:
        text.value = self.session.name(self.of(handle)).encode()

    def c_nvmlDeviceGetMinorNumber(self, handle: Any, number: Any) -> None:
        number._obj.value = self.session.minor(self.of(handle))

    def c_nvmlDeviceGetBrand(self, handle: Any, number: Any) -> None:
        number._obj.value = self.session.brand(self.of(handle))

    def c_nvmlDeviceGetArchitecture(self, handle: Any, number: Any) -> None:
        number._obj.value = self.session.architecture(self.of(handle))

    def c_nvmlDeviceGetCudaComputeCapability(self, handle: Any, major: Any, minor: Any) -> None:
        major._obj.value, minor._obj.value = self.session.compute_capability(self.of(handle))

    def c_nvmlDeviceGetMemoryInfo(self, handle: Any, info: Any) -> None:
        info._obj.total = _there(self.session.memory(self.of(handle)))

    def c_nvmlDeviceGetPciInfo_v3(self, handle: Any, info: Any) -> None:
        info._obj.busId = self.session.bus_id(self.of(handle)).encode()

    def c_nvmlDeviceGetAddressingMode(self, handle: Any, info: Any) -> None:
        info._obj.value = _there(self.session.addressing_mode(self.of(handle)))

    def c_nvmlDeviceGetVirtualizationMode(self, handle: Any, number: Any) -> None:
        number._obj.value = _there(self.session.virtualization_mode(self.of(handle)))

    def c_nvmlDeviceGetPersistenceMode(self, handle: Any, number: Any) -> None:
        number._obj.value = _there(self.session.persistence_mode(self.of(handle)))

    def c_nvmlDeviceSetPersistenceMode(self, handle: Any, mode: Any) -> None:
        self.session.set_persistence_mode(self.of(handle), on=bool(mode.value))

    def c_nvmlDeviceGetFieldValues(self, handle: Any, count: Any, values: Any) -> None:
        value = values._obj[0]
        assert (count.value, value.fieldId) == (1, 230)
        found = self.session.recovery_action(self.of(handle))
        value.nvmlReturn = Code.NOT_SUPPORTED if found is None else 0
        value.value.uiVal = found or 0

    # MIG.

    def c_nvmlDeviceGetMigMode(self, handle: Any, current: Any, pending: Any) -> None:
        found = self.session.mig_mode(self.of(handle))
        if found is None:
            raise NvmlError("ask for the MIG mode", Code.NOT_SUPPORTED)
        current._obj.value, pending._obj.value = found

    def c_nvmlDeviceSetMigMode(self, handle: Any, mode: int, status: Any) -> None:
        status._obj.value = 0
        self.session.set_mig_mode(self.of(handle), on=bool(mode))

    def _profile(self, handle: Any, index: int, info: Any, *, named: bool) -> None:
        found = self.session.profile(self.of(handle), index)
        if found is None:
            raise NvmlError("ask for a profile", Code.NOT_SUPPORTED)
        for name, value in (
            ("id", found.id),
            ("sliceCount", found.slices),
            ("instanceCount", found.count),
            ("multiprocessorCount", found.multiprocessors),
            ("copyEngineCount", found.copy_engines),
            ("decoderCount", found.decoders),
            ("encoderCount", found.encoders),
            ("jpegCount", found.jpeg_engines),
            ("ofaCount", found.ofa_engines),
            ("memorySizeMB", found.memory_mib),
        ):
            setattr(info._obj, name, value)
        if named:
            info._obj.name = found.name.encode()

    def c_nvmlDeviceGetGpuInstanceProfileInfo(self, handle: Any, index: int, info: Any) -> None:
        self._profile(handle, index, info, named=False)

    def c_nvmlDeviceGetGpuInstanceProfileInfoV(self, handle: Any, index: int, info: Any) -> None:
        self._profile(handle, index, info, named=True)

    def c_nvmlDeviceGetGpuInstancePossiblePlacements_v2(
        self, handle: Any, profile: int, room: Any, count: Any
    ) -> None:
        found = self.session.placements(self.of(handle), profile)
        for index, placement in enumerate(found if room is not None else ()):
            room[index].start, room[index].size = placement.start, placement.size
        count._obj.value = len(found)

    def c_nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, number: Any) -> None:
        number._obj.value = 7 if self.of(handle).instances else 0

    def c_nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: Any, mig: Any) -> None:
        found = self.session.mig_handles(self.of(handle))
        if index.value >= len(found):
            raise NvmlError("reach a MIG device", Code.NOT_FOUND)
        self.give(mig, found[index.value])

    def c_nvmlDeviceGetGpuInstanceId(self, mig: Any, number: Any) -> None:
        number._obj.value = self.of(mig).gpu_instance

    def c_nvmlDeviceGetComputeInstanceId(self, mig: Any, number: Any) -> None:
        number._obj.value = self.of(mig).compute_instance

    def c_nvmlDeviceGetAttributes_v2(self, mig: Any, info: Any) -> None:
        info._obj.gpuInstanceSliceCount = self.of(mig).slices
        info._obj.computeInstanceSliceCount = self.of(mig).compute_slices

    def c_nvmlDeviceGetGpuInstanceById(self, handle: Any, number: int, instance: Any) -> None:
        self.give(instance, self.of(handle).find("reach a GPU instance", number))

    def c_nvmlGpuInstanceGetInfo(self, instance: Any, info: Any) -> None:
        found = self.of(instance)
        info._obj.id, info._obj.profileId = found.gpu_instance, found.profile_id
        info._obj.placement.start, info._obj.placement.size = found.placement.start, found.placement.size

    def c_nvmlDeviceGetGpuInstances(self, handle: Any, profile: int, room: Any, count: Any) -> None:
        found = [one for one in self.of(handle).instances if one.profile_id == profile]
        for index, instance in enumerate(found):
            self.give(ctypes.byref(room[index]), instance)
            room[index] = ctypes.cast(self.things.index(instance), pynvml.c_nvmlGpuInstance_t)
        count._obj.value = len(found)

    def c_nvmlDeviceCreateGpuInstanceWithPlacement(
        self, handle: Any, profile: int, place: Any, instance: Any
    ) -> None:
        wanted = Placement(place._obj.start, place._obj.size)
        number = self.session.create_gpu_instance(self.of(handle), profile, wanted)
        self.give(instance, self.of(handle).find("", number))

    def c_nvmlGpuInstanceDestroy(self, instance: Any) -> None:
        found = self.of(instance)
        self.session.destroy_gpu_instance(self._owner(found), found.gpu_instance)

    def c_nvmlGpuInstanceGetComputeInstanceProfileInfo(
        self, instance: Any, index: int, engine: int, info: Any
    ) -> None:
        assert engine == 0
        slices = {0: 1, 1: 2, 2: 3, 3: 4, 4: 7}.get(index, 0)
        if not slices or slices > self.of(instance).slices:
            raise NvmlError("ask for a compute profile", Code.NOT_SUPPORTED)
        info._obj.id, info._obj.sliceCount, info._obj.instanceCount = 100 + index, slices, 1

    def c_nvmlGpuInstanceCreateComputeInstance(self, instance: Any, profile: int, made: Any) -> None:
        found = self.of(instance)
        slices = {100: 1, 101: 2, 102: 3, 103: 4, 104: 7}[profile]
        self.session.create_compute_instance(self._owner(found), found.gpu_instance, slices)
        self.give(made, ("compute", found.gpu_instance, self._owner(found)))

    def c_nvmlGpuInstanceGetComputeInstances(
        self, instance: Any, profile: int, room: Any, count: Any
    ) -> None:
        found = self.of(instance)
        is_there = found.uuid and {100: 1, 101: 2, 102: 3, 103: 4, 104: 7}[profile] == found.compute_slices
        if is_there:
            thing = ("compute", found.gpu_instance, self._owner(found))
            if thing not in self.things:
                self.things.append(thing)
            room[0] = ctypes.cast(self.things.index(thing), pynvml.c_nvmlComputeInstance_t)
        count._obj.value = int(bool(is_there))

    def c_nvmlGpuInstanceGetComputeInstanceById(self, instance: Any, number: int, compute: Any) -> None:
        found = self.of(instance)
        if not found.uuid or found.compute_instance != number:
            raise NvmlError("reach a compute instance", Code.NOT_FOUND)
        self.give(compute, ("compute", found.gpu_instance, self._owner(found)))

    def c_nvmlComputeInstanceGetInfo_v2(self, compute: Any, info: Any) -> None:
        _, number, card = self.of(compute)
        found = card.find("", number)
        info._obj.id = found.compute_instance
        if found not in self.things:
            self.things.append(found)
        info._obj.device = ctypes.cast(self.things.index(found), pynvml.c_nvmlDevice_t)

    def c_nvmlComputeInstanceDestroy(self, compute: Any) -> None:
        _, number, card = self.of(compute)
        found = card.find("", number)
        self.session.destroy_compute_instance(card, number, found.compute_instance)

    def _owner(self, instance: Any) -> Any:
        return next(card for card in self.cards.cards if any(one is instance for one in card.instances))

    # Events.

    def c_nvmlDeviceGetSupportedEventTypes(self, handle: Any, number: Any) -> None:
        number._obj.value = self.session.supported_events(self.of(handle))

    def c_nvmlEventSetCreate(self, events: Any) -> None:
        self.give(events, self.session.events())

    def c_nvmlDeviceRegisterEvents(self, handle: Any, types: Any, events: Any) -> None:
        self.of(events).add(self.of(handle), types.value)

    def c_nvmlEventSetWait_v2(self, events: Any, data: Any, milliseconds: Any) -> None:
        queue: RecordedEvents = self.of(events)
        event = queue.next(milliseconds.value / 1000)
        if event is None:
            raise NvmlError("wait", Code.TIMEOUT)
        card = self.cards.card(event.uuid)
        if card not in self.things:
            self.things.append(card)
        data._obj.device = ctypes.cast(self.things.index(card), pynvml.c_nvmlDevice_t)
        data._obj.eventType = XID if event.xid else 0x1  # 0 stands for an error of one bit
        data._obj.eventData = event.xid
        data._obj.gpuInstanceId, data._obj.computeInstanceId = event.gpu_instance, event.compute_instance

    def c_nvmlEventSetFree(self, events: Any) -> None:
        self.of(events).close()


def _there(value: Any) -> int:
    if value is None:
        raise NvmlError("ask", Code.NOT_SUPPORTED)
    return int(value)


@contextmanager
def loaded(library: SmallLibrary) -> Iterator[None]:
    """The bindings have this library."""
    before = pynvml.nvmlLib
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()
    try:
        yield
    finally:
        pynvml.nvmlLib = before
        pynvml._nvmlGetFunctionPointer_cache.clear()
