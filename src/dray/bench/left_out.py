"""What a benchmark did not measure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Shown below the figures: `why` says what to do to have them."""

    name: str
    why: str
