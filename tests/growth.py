"""How cost grows with size: tells linear from quadratic without asserting a time."""

from __future__ import annotations

import time
from collections.abc import Callable


def growth(small: Callable[[], object], large: Callable[[], object], *, rounds: int = 5) -> float:
    """CPU time of `large` as a multiple of `small`'s, the least of several rounds each."""
    return min(_cost(large) for _ in range(rounds)) / min(_cost(small) for _ in range(rounds))


def _cost(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return max(time.process_time() - started, 1e-6)
