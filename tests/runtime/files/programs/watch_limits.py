"""Use up the inotify limits of a user namespace of its own. Arguments: directory. Prints one JSON object."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from dray.errors import UnavailableError
from dray.runtime.files.filewatch import FileWatch

LIMITS = Path("/proc/sys/user")


async def attempt(path: Path) -> str:
    try:
        async with FileWatch([path]):
            return ""
    except UnavailableError as error:
        return str(error)


async def poll(path: Path) -> dict[str, object]:
    """The same with polling allowed."""
    async with FileWatch([path], poll_interval=0.05) as watch:
        path.touch()
        snapshot = await asyncio.wait_for(watch.wait_changed(), 60)
        path.unlink()
        return {"because": watch.polling_because, "seen": snapshot.paths[path] is not None}


async def run_out_later(directory: Path) -> str:
    """Watches are used up while it already watches: a parent appears that cannot be watched any more."""
    path = directory / "p" / "q" / "r" / "s" / "x"
    async with FileWatch([path]) as watch:
        path.parent.mkdir(parents=True)
        path.touch()
        try:
            await asyncio.wait_for(watch.wait_changed(), 60)
        except UnavailableError as error:
            return str(error)
    return ""


async def main() -> None:
    directory = Path(sys.argv[1])
    path = directory / "x"
    used = len(directory.parts) + 1
    try:
        (LIMITS / "max_inotify_watches").write_text(str(used))
    except OSError as error:
        print(json.dumps({"skip": f"the inotify limits of a user namespace cannot be set here: {error}"}))
        return
    result: dict[str, object] = {"later": await run_out_later(directory)}
    (LIMITS / "max_inotify_watches").write_text("2")
    result |= {"watches": await attempt(path), "polled": await poll(path)}
    (LIMITS / "max_inotify_instances").write_text("0")
    result |= {"instances": await attempt(path), "polled_without": await poll(path)}
    print(json.dumps(result))


if __name__ == "__main__":
    asyncio.run(main())
