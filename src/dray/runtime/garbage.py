"""The garbage collector, told what stays and how often to look."""

from __future__ import annotations

import gc
from typing import Final

_YOUNG: Final = 20_000
"""Containers more than before until the young are looked at; Python's own number is 700.

Nearly all that a request makes is gone with it, without the collector. At 700 it stops the work in the middle of every
second request to find what is only in use; a seventh of the time of a process under load was seen to go there.
"""
_YOUNG_ROUNDS: Final = 5
_MIDDLE_ROUNDS: Final = 10


def settle() -> None:
    """Call once, when a process is ready: what is there by then is not looked at again, and the rest less often.

    A whole collection stops everything, for tens of milliseconds with modules, caches and stores that never go.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _YOUNG_ROUNDS, _MIDDLE_ROUNDS)
