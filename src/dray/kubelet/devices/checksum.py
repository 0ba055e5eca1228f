"""The 32-bit FNV-1a checksum of a text made of segments, of which few change from one time to the next.

One step is h' = (h ^ byte) * prime. The xor touches the lowest 8 bits, and those of h' come from those of h alone, so a
whole segment of n bytes is h' = h * prime**n + f(h mod 256). Each f is worked out where it is met, and kept. The text of a
kubelet's checkpoint is plain ASCII as a rule; then bit 7 is never touched, and h mod 128 is enough.
"""

from __future__ import annotations

OFFSET = 0x811C9DC5
PRIME = 0x01000193
_MASK = 0xFFFFFFFF
_LONG = 4096
_MISSES = 4
"""A long segment that was met after so many different starts is worked out for all of them at once: that costs about as
much as eight of them, one by one."""
_LANE = 64
"""Bits apart; a step needs 57 of them."""


def fnv(data: bytes, start: int = OFFSET) -> int:
    """Byte by byte."""
    value = start
    for byte in data:
        value = (value ^ byte) * PRIME & _MASK
    return value


def fnv_from_all(data: bytes, starts: int) -> list[int]:
    """The checksums for all starts below `starts`, side by side in the lanes of one very long integer."""
    ones = sum(1 << lane * _LANE for lane in range(starts))
    masks = ones * _MASK
    spread = [ones * byte for byte in range(256)]
    value = sum(lane << lane * _LANE for lane in range(starts))
    for byte in data:
        value = (value ^ spread[byte]) * PRIME & masks
    return [value >> lane * _LANE & _MASK for lane in range(starts)]


class Segment:
    """A piece of the text that is used again and again."""

    __slots__ = ("_added", "_data", "_factor", "_low")

    def __init__(self, text: str) -> None:
        self._data = text.encode()
        self._factor = pow(PRIME, len(self._data), 1 << 32)
        self._low = 0x7F if text.isascii() else 0xFF
        self._added: dict[int, int] = {}

    def after(self, value: int) -> int:
        """The checksum with this segment behind what `value` stands for."""
        added = self._added.get(value & self._low)
        if added is None:
            added = self._learn(value & self._low)
        return value * self._factor + added & _MASK

    def _learn(self, low: int) -> int:
        if len(self._data) < _LONG or len(self._added) < _MISSES:
            self._added[low] = fnv(self._data, low) - low * self._factor & _MASK
        else:
            ends = fnv_from_all(self._data, self._low + 1)
            self._added = {start: end - start * self._factor & _MASK for start, end in enumerate(ends)}
        return self._added[low]
