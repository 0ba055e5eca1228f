"""NVML's event set: the errors that the driver reports, as they come."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from dray.hardware.nvml.codes import Code, NvmlError
from dray.hardware.nvml.facts import WHOLE, XidEvent
from dray.hardware.nvml.protocol import XID, Handle

_NO_ID = frozenset({WHOLE, 0xFFFF})


class EventQueue:
    """NVML's event set."""

    def __init__(self, uuid_of: Callable[[Handle], str], bindings: ModuleType, events: Any) -> None:
        self._uuid_of = uuid_of
        self._nv = bindings
        self._events = events

    def add(self, handle: Handle, types: int) -> None:
        """From now on."""
        try:
            self._nv.nvmlDeviceRegisterEvents(handle, types, self._events)
        except self._nv.NVMLError as error:
            raise NvmlError("register for the errors of a GPU", error.value) from error

    def next(self, seconds: float) -> XidEvent | None:
        """None when the time is up or what came is no XID."""
        try:
            event = self._nv.nvmlEventSetWait_v2(self._events, int(seconds * 1000))
        except self._nv.NVMLError as error:
            if Code.of(error.value) is Code.TIMEOUT:
                return None
            raise NvmlError("wait for errors of GPUs", error.value) from error
        if event.eventType != XID:
            return self.next(0.0)
        return XidEvent(
            self._uuid_of(event.device),
            int(event.eventData),
            WHOLE if event.gpuInstanceId in _NO_ID else event.gpuInstanceId,
            WHOLE if event.computeInstanceId in _NO_ID else event.computeInstanceId,
        )

    def close(self) -> None:
        """Free it, once."""
        events, self._events = self._events, None
        if events is not None:
            try:
                self._nv.nvmlEventSetFree(events)
            except self._nv.NVMLError:
                return
