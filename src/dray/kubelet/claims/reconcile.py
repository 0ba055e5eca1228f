"""Which pods still stand in the record of claims although they are gone: deleted by force, or while we were down. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dray.kubelet.claims.claim_info import ClaimInfo

PERIOD = 60.0
"""Seconds between two looks."""
NOBODY = ""
"""Stands for the pod of a claim that no pod uses: such a record gives its devices back too."""


def departed(claims: Iterable[ClaimInfo], active: Collection[str]) -> tuple[str, ...]:
    """The uids of pods to unprepare for, in a fixed order."""
    gone: set[str] = set()
    for claim in claims:
        gone |= {uid for uid in claim.pods if uid not in active}
        if not claim.pods:
            gone.add(NOBODY)
    return tuple(sorted(gone))
