"""The order of device names as people read them: `gpu-2` before `gpu-10`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

NaturalOrder = tuple[tuple[tuple[int, str], ...], str]

_DIGITS: Final = re.compile("([0-9]+)")


@lru_cache(maxsize=8192)  # a kubelet asks with all its free ids each time, and there may be thousands
def natural_order(name: str) -> NaturalOrder:
    """A key to sort names by: every run of digits counts as a number, before letters; `gpu-07` comes before `gpu-7`.

    Two different names are never equal, so the order of a list does not depend on how it was given.
    """
    return tuple([_part(part) for part in _DIGITS.split(name)]), name


def _part(part: str) -> tuple[int, str]:
    """Numbers by their length, then digit by digit: `int` refuses thousands of digits, and anybody may send them."""
    if not (part.isascii() and part.isdecimal()):
        return -1, part
    digits = part.lstrip("0")
    return len(digits), digits
