"""Names of MIG profiles, as nvidia-smi and NVIDIA's own software write them: `1g.18gb`, `1g.18gb+me`."""

from __future__ import annotations

import math
import re
from typing import Final

from dray.hardware.nvml.facts import MIB
from dray.hardware.nvml.protocol import ProfileInfo

_GIB: Final = 1 << 30
_EIGHTHS: Final = 8
_ATTRIBUTES: Final = {
    0x7: "+me",
    0x8: "+me",
    0xA: "+gfx",
    0xB: "+gfx",
    0xC: "+gfx",
    0xD: "-me",
    0xE: "-me",
    0xF: "+me.all",
    0x10: "+me.all",
    0x11: "+gfx",
}
"""By the number that a profile is asked for by: media engines, graphics, none of the first, all of them."""
_PLAIN: Final = frozenset({0, 1, 2, 3, 4, 5, 6, 9})
_NAME: Final = re.compile(r"(?:MIG )?([0-9]{1,2}g\.[0-9]{1,4}gb(?:[+-][a-z.]{1,16})?)", re.ASCII)


def profile_name(index: int, info: ProfileInfo, memory: int | None) -> str:
    """The name of a profile on a card with `memory` bytes.

    NVML's own name is taken only for profiles that are newer than this table: others must be called as everyone does,
    whatever a driver says.
    """
    if index in _PLAIN or index in _ATTRIBUTES:
        size = _gigabytes(info.memory_mib, memory or info.memory_mib * MIB)
        return f"{info.slices}g.{size}gb{_ATTRIBUTES.get(index, '')}"
    found = _NAME.fullmatch(info.name.strip())
    return found[1] if found else f"{info.slices}g.{max(1, info.memory_mib // 1024)}gb-p{info.id}"


def _gigabytes(memory_mib: int, total: int) -> int:
    """Its memory in eighths of the card, rounded up, of the card's in whole gigabytes, rounded up; half is rounded up."""
    share = math.ceil(memory_mib * MIB * _EIGHTHS / total) / _EIGHTHS
    return math.floor(share * math.ceil(total / _GIB) + 0.5)
