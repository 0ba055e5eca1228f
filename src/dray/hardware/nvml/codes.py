"""NVML's answers that are errors, and the one error they become here."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from dray.errors import HardwareError


class Code(IntEnum):
    """NVML's numbers, those that somebody here decides by; every other is UNKNOWN."""

    UNINITIALIZED = 1
    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    NOT_FOUND = 6
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    LIB_RM_VERSION_MISMATCH = 18
    IN_USE = 19
    INSUFFICIENT_RESOURCES = 23
    UNKNOWN = 999

    @classmethod
    def of(cls, number: int) -> Code:
        """The code for a number that NVML returned."""
        return _KNOWN.get(number, cls.UNKNOWN)


_KNOWN: Final = {code.value: code for code in Code}
_WORDS: Final = {
    Code.UNINITIALIZED: "the library was closed",
    Code.INVALID_ARGUMENT: "it does not know such a thing",
    Code.NOT_SUPPORTED: "the card cannot do it",
    Code.NO_PERMISSION: "this process may not: run it as root",
    Code.NOT_FOUND: "there is none",
    Code.DRIVER_NOT_LOADED: "the kernel module nvidia is not loaded",
    Code.TIMEOUT: "it took too long",
    Code.LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 was not found",
    Code.FUNCTION_NOT_FOUND: "this driver is too old for it",
    Code.GPU_IS_LOST: "the card fell off the bus: reset it or restart the machine",
    Code.RESET_REQUIRED: "the card must be reset first (nvidia-smi --gpu-reset)",
    Code.LIB_RM_VERSION_MISMATCH: "library and kernel module have different versions: restart the machine",
    Code.IN_USE: "somebody is using it",
    Code.INSUFFICIENT_RESOURCES: "no room is left for it on the card",
    Code.UNKNOWN: "it failed",
}
ABSENT: Final = frozenset({Code.NOT_SUPPORTED, Code.INVALID_ARGUMENT, Code.FUNCTION_NOT_FOUND})
"""What a question answers that makes no sense for this card or this driver: the fact is not there, nothing is wrong."""
GONE: Final = frozenset({Code.GPU_IS_LOST, Code.RESET_REQUIRED})


class NvmlError(HardwareError):
    """NVML refused. `code` says why; `number` is what it returned."""

    def __init__(self, doing: str, number: int, *, device: str = "") -> None:
        self.code = Code.of(number)
        self.number = number
        extra = f" (NVML error {number})" if self.code is Code.UNKNOWN else ""
        super().__init__(f"cannot {doing}: {_WORDS[self.code]}{extra}", device=device)
