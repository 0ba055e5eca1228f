"""Random allocator cases: `generate_case(seed)`. The same seed gives the same case for as long as this file stays as it is.

Domains are small so that requests meet in conflicts, and the number of devices is, so that an exhaustive search ends. Each
case has a few themes; a theme turns some kinds of things on, so that they occur together often enough.
"""

from __future__ import annotations

from tests.allocation.dice import Dice, Thing
from tests.allocation.generate_claims import claims, classes
from tests.allocation.generate_slices import allocated, slices


def generate_case(seed: int, *, tier: str = "experimental") -> Thing:
    """One case. For the stable tier all devices are in one pool: it walks pools in random order."""
    dice = Dice(seed, tier)
    labels = {"zone": dice.pick(("a", "b")), "kind": "gpu"}
    made, asked = slices(dice), claims(dice)
    case: Thing = {
        "name": f"{tier}-{seed}",
        "tier": tier,
        "features": dice.features,
        "node": {"metadata": {"name": "node-1", "labels": labels}},
        "classes": classes(dice, asked),
        "slices": made,
        "claims": asked,
    }
    return case | allocated(dice, made)


def themes_of(seed: int, *, tier: str = "experimental") -> frozenset[str]:
    return Dice(seed, tier).themes
