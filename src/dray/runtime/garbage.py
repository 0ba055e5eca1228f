"""The garbage collector, told what stays."""

from __future__ import annotations

import gc


def settle() -> None:
    """Call once, when a process is ready: what is there by then is not looked at again.

    A whole collection stops everything, for tens of milliseconds with modules, caches and stores that never go.
    """
    gc.collect()
    gc.freeze()
