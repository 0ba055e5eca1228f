"""The claims of one call wait for each other before they are prepared, so that they share the writes of the checkpoint."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import Final

from dray.dra.parcels import ClaimRef

PATIENCE: Final = 0.05
"""Seconds. The call is answered when its last claim is done, so nobody loses anything by waiting for a slow one."""


class Meeting:
    """For those that are under way at the same time. Each comes or leaves; twice is fine."""

    def __init__(self, expected: Iterable[ClaimRef], patience: float = PATIENCE) -> None:
        self._expected = set(expected)
        self._patience = patience
        self._all_here = asyncio.Event()

    async def come(self, ref: ClaimRef) -> None:
        """Return when all others have come or left, or after `patience` seconds."""
        self.leave(ref)
        if not self._all_here.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await self._all_here.wait()

    def leave(self, ref: ClaimRef) -> None:
        """It is not waited for any more."""
        self._expected.discard(ref)
        if not self._expected:
            self._all_here.set()
