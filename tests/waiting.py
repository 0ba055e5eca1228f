"""Waiting for what other tasks, threads and processes do: for a condition, never for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

PATIENCE: Final = 60.0
"""Seconds after which a wait is given up. It only ends a test that hangs, so it is long: no test measures with it."""


async def wait_until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Return as soon as the condition holds; TimeoutError when it never does."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)
