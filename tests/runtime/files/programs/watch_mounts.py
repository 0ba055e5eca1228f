"""Watch a file on a file system that is mounted and unmounted. Arguments: directory. Prints one JSON object."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from dray.runtime.files.filewatch import FileWatch
from tests.runtime.files.programs.checkpoint_full_disk import mount


async def main() -> None:
    directory = Path(sys.argv[1])
    path = directory / "x"
    seen: list[bool] = []
    mount(directory, "size=64k")
    path.touch()
    async with FileWatch([path]) as watch:
        seen.append(watch.snapshot.paths[path] is not None)
        subprocess.run(["umount", str(directory)], check=True)
        seen.append((await asyncio.wait_for(watch.wait_changed(), 60)).paths[path] is not None)
        path.touch()
        seen.append((await asyncio.wait_for(watch.wait_changed(), 60)).paths[path] is not None)
    async with FileWatch([path], poll_interval=0.05) as watch:  # nobody tells of a mount over a parent
        mount(directory, "size=64k")
        seen.append((await asyncio.wait_for(watch.wait_changed(), 60)).paths[path] is not None)
    print(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(main())
