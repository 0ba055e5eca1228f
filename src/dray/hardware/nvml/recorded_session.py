"""A session over a recording: the calls of `protocol.py`, answered as the library answered or would."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

from dray.hardware.nvml.codes import ABSENT, Code, NvmlError
from dray.hardware.nvml.facts import Placement, XidEvent
from dray.hardware.nvml.protocol import XID, Handle, InstanceInfo, ProfileInfo
from dray.hardware.nvml.recorded_cards import Card, Instance

if TYPE_CHECKING:
    from dray.hardware.nvml.recorded import Recorded


class RecordedSession:
    """Cards are their own handles, MIG devices are their `Instance`s."""

    def __init__(self, machine: Recorded) -> None:
        self._machine = machine
        self._queues: list[RecordedEvents] = []

    def close(self) -> None:
        """Its event queues hear nothing more."""
        for events in self._queues:
            events.close()

    def driver_version(self) -> str:
        """As recorded."""
        return str(self._machine.system["driverVersion"])

    def cuda_version(self) -> int:
        """As recorded."""
        return int(self._machine.system["cudaDriverVersion"])

    def count(self) -> int:
        """Those the driver has now."""
        return len(self._machine.cards)

    def handle(self, index: int) -> Handle:
        """By number."""
        card = self._machine.cards[index]
        if card.is_lost:
            raise NvmlError(f"reach GPU {index}", Code.GPU_IS_LOST, device=card.uuid)
        return card

    def handle_of(self, uuid: str) -> Handle:
        """By UUID."""
        card = self._machine.card(uuid)
        if card.is_lost:
            raise NvmlError(f"reach {uuid}", Code.GPU_IS_LOST, device=uuid)
        return card

    def uuid(self, handle: Handle) -> str:
        """Of either."""
        if isinstance(handle, Instance):
            return handle.uuid
        return str(handle.answer("ask for a GPU's UUID", "uuid"))

    def name(self, handle: Card) -> str:
        """As recorded."""
        return str(handle.answer("ask for a GPU's name", "name"))

    def minor(self, handle: Card) -> int:
        """As recorded."""
        return int(handle.answer("ask for a GPU's minor number", "minor"))

    def bus_id(self, handle: Card) -> str:
        """As recorded."""
        return str(handle.answer("ask for a GPU's bus id", "pci")["busId"])

    def brand(self, handle: Card) -> int:
        """As recorded."""
        return int(handle.answer("ask for a GPU's brand", "brand"))

    def architecture(self, handle: Card) -> int:
        """As recorded."""
        return int(handle.answer("ask for a GPU's architecture", "architecture"))

    def compute_capability(self, handle: Card) -> tuple[int, int]:
        """As recorded."""
        major, minor = handle.answer("ask for a GPU's compute capability", "computeCapability")
        return (int(major), int(minor))

    def memory(self, handle: Card) -> int | None:
        """As recorded."""
        return _number(handle.maybe("ask for a GPU's memory", "memory"))

    def addressing_mode(self, handle: Card) -> int | None:
        """As recorded."""
        return _number(handle.maybe("ask for the addressing mode", "addressingMode"))

    def virtualization_mode(self, handle: Card) -> int | None:
        """As recorded."""
        return _number(handle.maybe("ask for the virtualization mode", "virtualizationMode"))

    def mig_mode(self, handle: Card) -> tuple[int, int] | None:
        """As it is now."""
        found = handle.maybe("ask for the MIG mode", "migMode")
        return None if found is None else (int(found[0]), int(found[1]))

    def profile(self, handle: Card, index: int) -> ProfileInfo | None:
        """As recorded."""
        doing = f"ask for MIG profile {index}"
        entries = handle.maybe(doing, "profiles") or ()
        nothing: dict[str, Any] = {"error": Code.NOT_SUPPORTED}
        found = next((entry for entry in entries if entry["index"] == index), nothing)
        if "error" in found:
            if Code.of(found["error"]) in ABSENT:
                return None
            raise NvmlError(doing, found["error"], device=handle.uuid)
        return ProfileInfo(
            id=found["id"],
            slices=found["sliceCount"],
            count=found["instanceCount"],
            multiprocessors=found["multiprocessorCount"],
            copy_engines=found["copyEngineCount"],
            decoders=found["decoderCount"],
            encoders=found["encoderCount"],
            jpeg_engines=found["jpegCount"],
            ofa_engines=found["ofaCount"],
            memory_mib=found["memorySizeMB"],
            name=found.get("name", ""),
        )

    def placements(self, handle: Card, profile_id: int) -> tuple[Placement, ...]:
        """As recorded."""
        profile = handle.profile(profile_id)
        found = profile["placements"] if profile else ()
        return () if isinstance(found, dict) else tuple(Placement(start, size) for start, size in found)

    def mig_handles(self, handle: Card) -> tuple[Handle, ...]:
        """As they are now."""
        handle.answer("list the MIG devices", "uuid")
        return tuple(instance for instance in handle.instances if instance.uuid)

    def instance(self, handle: Card, mig_handle: Handle) -> InstanceInfo:
        """As it is now."""
        if mig_handle not in handle.instances:
            raise NvmlError("look at a MIG device", Code.NOT_FOUND)
        return InstanceInfo(
            mig_handle.gpu_instance,
            mig_handle.compute_instance,
            mig_handle.profile_id,
            mig_handle.placement,
            mig_handle.slices,
            mig_handle.compute_slices,
        )

    def supported_events(self, handle: Card) -> int:
        """As recorded."""
        return _number(handle.maybe("ask for events", "supportedEvents")) or 0

    def recovery_action(self, handle: Card) -> int | None:
        """As it is now."""
        return _number(handle.maybe("ask for the recovery action", "recoveryAction"))

    def events(self) -> RecordedEvents:
        """A new queue."""
        events = RecordedEvents(self._machine)
        self._queues.append(events)
        return events

    # Changes.

    def set_mig_mode(self, handle: Card, *, on: bool) -> None:
        """Off only while nothing is on the card; nothing changes while somebody uses it."""
        doing = f"switch MIG {'on' if on else 'off'}"
        handle.answer(doing, "migMode")
        if handle.is_used or (handle.instances and not on):
            raise NvmlError(doing, Code.IN_USE, device=handle.uuid)
        self._machine.set_mig(handle.uuid, on=on)

    def create_gpu_instance(self, handle: Card, profile_id: int, placement: Placement) -> int:
        """Its id."""
        made = handle.make(
            f"make a GPU instance of profile {profile_id} at {placement.start}", profile_id, placement
        )
        self._machine.changed()
        return made.gpu_instance

    def create_compute_instance(self, handle: Card, gpu_instance: int, slices: int) -> tuple[int, str]:
        """Its id and the MIG device's UUID."""
        doing = f"make a compute instance in GPU instance {gpu_instance}"
        instance = handle.find(doing, gpu_instance)
        if instance.uuid or slices != instance.slices:
            code = Code.INSUFFICIENT_RESOURCES if instance.uuid else Code.NOT_SUPPORTED
            raise NvmlError(doing, code, device=handle.uuid)
        instance.compute_instance, instance.compute_slices = 0, slices
        instance.uuid = handle.new_uuid(gpu_instance, 0)
        self._machine.changed()
        return 0, instance.uuid

    def destroy_compute_instance(self, handle: Card, gpu_instance: int, compute_instance: int) -> None:
        """By its ids."""
        doing = f"remove compute instance {compute_instance} of GPU instance {gpu_instance}"
        instance = handle.find(doing, gpu_instance)
        if instance.compute_instance != compute_instance or not instance.uuid:
            raise NvmlError(doing, Code.NOT_FOUND, device=handle.uuid)
        if instance.is_used:
            raise NvmlError(doing, Code.IN_USE, device=handle.uuid)
        instance.compute_instance, instance.compute_slices, instance.uuid = None, 0, ""
        self._machine.changed()

    def destroy_gpu_instance(self, handle: Card, gpu_instance: int) -> None:
        """By its id."""
        doing = f"remove GPU instance {gpu_instance}"
        instance = handle.find(doing, gpu_instance)
        if instance.uuid:
            raise NvmlError(doing, Code.IN_USE, device=handle.uuid)
        handle.instances.remove(instance)
        self._machine.changed()

    def gpu_instances(self, handle: Card) -> tuple[tuple[int, int, Placement], ...]:
        """As they are now."""
        found = {(one.gpu_instance, one.profile_id, one.placement) for one in handle.instances}
        return tuple(sorted(found))

    def compute_instances(self, handle: Card, gpu_instance: int) -> tuple[int, ...]:
        """As they are now."""
        found = (one for one in handle.instances if one.gpu_instance == gpu_instance)
        return tuple(sorted(one.compute_instance for one in found if one.compute_instance is not None))

    def persistence_mode(self, handle: Card) -> bool | None:
        """As it is now."""
        found = _number(handle.maybe("ask for the persistence mode", "persistenceMode"))
        return None if found is None else bool(found)

    def set_persistence_mode(self, handle: Card, *, on: bool) -> None:
        """From now on."""
        handle.answers["persistenceMode"] = int(on)


class RecordedEvents:
    """A queue that `Recorded.report` fills."""

    def __init__(self, machine: Recorded) -> None:
        self._machine = machine
        self._cards: set[str] = set()
        self._events: queue.SimpleQueue[XidEvent] = queue.SimpleQueue()
        machine.queues.append(self)

    def add(self, handle: Card, types: int) -> None:
        """From now on."""
        supported = handle.maybe("register for the errors of a GPU", "supportedEvents") or 0
        if not supported & types & XID:
            raise NvmlError("register for the errors of a GPU", Code.NOT_SUPPORTED, device=handle.uuid)
        self._cards.add(handle.uuid)

    def take(self, event: XidEvent) -> None:
        """For the recording."""
        if event.uuid in self._cards:
            self._events.put(event)

    def next(self, seconds: float) -> XidEvent | None:
        """In the order of the reports."""
        try:
            return self._events.get(timeout=seconds) if seconds > 0 else self._events.get_nowait()
        except queue.Empty:
            return None

    def close(self) -> None:
        """Once or more."""
        if self in self._machine.queues:
            self._machine.queues.remove(self)


def _number(value: Any) -> int | None:
    return None if value is None else int(value)
