"""How much a fuzz, crash or soak test does: little in `make test`, a lot in `make campaign`."""

from __future__ import annotations

import os

LONG = os.environ.get("DRAY_CAMPAIGN") == "1"


def campaign(short: int, long: int) -> int:
    """The number of cases to run here."""
    return long if LONG else short
