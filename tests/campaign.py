"""How many cases a fuzz, crash or soak test tries, and which: few and always the same in `make test`, many in `make campaign`.

`DRAY_CAMPAIGN=1`  all cases, or with `DRAY_SLICE=k/n` the k-th of n shares: together the n shares are all of them
`DRAY_SEED=N`      other cases than usual, as many as usual

A failed run prints the command that repeats it (tests/record.py).
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """What the environment asks for."""

    is_long: bool = False
    seed: int = 0
    share: int = 1
    shares: int = 1

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Plan:
        """Read the three variables; an empty one counts as absent, as `make` passes them."""
        share, _, shares = (environment.get("DRAY_SLICE") or "1/1").partition("/")
        seed = environment.get("DRAY_SEED") or "0"
        if not (share.isdecimal() and shares.isdecimal() and 1 <= int(share) <= int(shares)):
            raise ValueError(f"DRAY_SLICE={share}/{shares}: use k/n with k from 1 to n, for example 1/24")
        if not seed.isdecimal():
            raise ValueError(f"DRAY_SEED={seed}: use a whole number, 0 or more")
        return cls(environment.get("DRAY_CAMPAIGN") == "1", int(seed), int(share), int(shares))

    def count(self, short: int, long: int) -> int:
        """Return the number of cases to run here: at least `short`, however thin the slice.

        Where the long run has the smaller number (a step, a pause), it is no number of cases and is not shared out.
        """
        if not self.is_long:
            return short
        return long if long <= short else max(short, -(-long // self.shares))

    def seeds(self, short: int, long: int, *, first: int = 0) -> range:
        """Return the seeds of the cases to run here. Those of two slices differ."""
        count = self.count(short, long)
        start = first + self.seed + (self.share - 1) * count
        return range(start, start + count)

    def chance(self, name: int | str) -> random.Random:
        """Return the source of chance of one test: always the same one where neither a seed nor a slice is asked for."""
        if self.seed == 0 and self.share == 1:
            return random.Random(name)
        return random.Random(f"{name} {self.seed} {self.share}/{self.shares}")


PLAN = Plan.read(os.environ)
LONG = PLAN.is_long
campaign, seeds, seeded = PLAN.count, PLAN.seeds, PLAN.chance
