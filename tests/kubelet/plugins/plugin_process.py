"""A device plugin as a process of its own: `python -m tests.kubelet.plugins.plugin_process SOCKET`. It serves until killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.kubelet.plugins.real_plugin import Plugin


async def main(path: Path) -> None:
    async with Plugin().serving(path):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
