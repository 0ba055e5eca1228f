"""How a figure is taken: CPU time, the least of several runs, so that a busy machine disturbs little."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured thing. With a peer, `ratio` says how many times better Dray is (above 1) or worse (below 1)."""

    name: str
    unit: str
    dray: float
    peer_name: str = ""
    peer: float | None = None
    higher_is_better: bool = False

    @property
    def ratio(self) -> float | None:
        """Dray against its peer; None without one."""
        if self.peer is None or not self.peer or not self.dray:
            return None
        return self.dray / self.peer if self.higher_is_better else self.peer / self.dray


def seconds_per_call(function: Callable[[], object], *, budget: float = 0.4, rounds: int = 5) -> float:
    """CPU seconds of one call: as many calls a round as fit `budget` / `rounds`, the fastest round counts."""
    function()
    calls = 1
    while (spent := _spent(function, calls)) < budget / rounds / 4:
        calls *= 2 if spent <= 0 else max(2, min(100, round(budget / rounds / 2 / spent)))
    return min(_spent(function, calls) for _ in range(rounds)) / calls


def _spent(function: Callable[[], object], calls: int) -> float:
    started = time.process_time()
    for _ in range(calls):
        function()
    return time.process_time() - started


def output(*words: str) -> str:
    """What a fresh interpreter prints."""
    return subprocess.run([sys.executable, *words], stdout=subprocess.PIPE, text=True, check=True).stdout


def fastest_process(*words: str, runs: int = 7) -> float:
    """Wall seconds of a whole process, the least of several."""

    def once() -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, *words], capture_output=True, check=True)
        return time.perf_counter() - started

    return min(once() for _ in range(runs))
