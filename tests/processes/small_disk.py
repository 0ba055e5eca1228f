"""A disk of a few MiB that anyone may mount: a tmpfs in a mount namespace that a sleeping process holds."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

_BLOCK = b"\0" * 4096


@dataclass(frozen=True, slots=True)
class SmallDisk:
    """`enter` are the words before a command that is to see it; from here it is seen under `root`."""

    enter: tuple[str, ...]
    root: str
    place: Path

    @property
    def _filler(self) -> Path:
        return Path(f"{self.root}{self.place}/filler")

    def fill(self) -> None:
        """Until not one block is left."""
        with self._filler.open("ab", buffering=0) as file:
            try:
                while file.write(_BLOCK) == len(_BLOCK):
                    pass
            except OSError:
                return

    def free(self) -> None:
        self._filler.unlink()


@asynccontextmanager
async def small_disk(place: Path, *, megabytes: int) -> AsyncIterator[SmallDisk]:
    """Mounted at `place`, for those who enter. It must hold what the test stores: the store of 1,000 pods has 30 MB."""
    place.mkdir(parents=True)
    script = 'mount -t tmpfs -o mode=0700,size="$1" tmpfs "$2" && echo ready && exec sleep 3600'
    own = _own_mounts()
    holder = await asyncio.create_subprocess_exec(
        *own, "sh", "-c", script, "sh", f"{megabytes}m", str(place), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert await asyncio.wait_for(holder.stdout.readline(), 60) == b"ready\n"
        user = ("-U", "--preserve-credentials") if "-Urm" in own else ()
        yield SmallDisk(("nsenter", "-t", str(holder.pid), *user, "-m"), f"/proc/{holder.pid}/root", place)
    finally:
        holder.kill()
        await asyncio.wait_for(holder.communicate(), 60)


def _own_mounts() -> tuple[str, ...]:
    for words in (("unshare", "-Urm"), ("unshare", "-m")):
        if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
            return words
    raise AssertionError("neither user namespaces nor root: a small tmpfs cannot be mounted here")
