"""The last lines of our parts, wherever they write: a file of `dray up`, pods on this node, the journal."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

from dray.doctor.places import Places, State, Text, look_at, read_bytes, read_text
from dray.up.place import UpPlace

POD_LOGS: Final = "var/log/pods"
_PODS: Final = 10
_POD_BYTES: Final = 256 << 10
_JOURNAL: Final = ("journalctl", "--no-pager", "-q", "-o", "short-iso", "-n", "2000", "-u", "dray*")
_JOURNAL_SECONDS: Final = 5.0


async def read_logs(places: Places) -> AsyncIterator[tuple[str, str, str]]:
    """Name, text and source of each; secrets are still in them."""
    log = read_text(UpPlace(places.data_dir).log, from_end=True)
    if log.state is State.THERE:
        yield "dray.log", log.text, log.path
    for path in pod_logs(Path(places.host_root) / POD_LOGS):
        content = read_bytes(path, _POD_BYTES, from_end=True)
        if not isinstance(content, Text):
            name = "_".join(path.parts[-3:])
            yield name, content.decode(errors="replace"), str(path)
    if places.host_root == "/" and not places.is_laptop and (text := await _journal()):
        yield "journal.txt", text, " ".join(_JOURNAL)


def pod_logs(directory: Path) -> Iterator[Path]:
    """The newest log of each container of our pods: NAMESPACE_NAME_UID/CONTAINER/N.log."""
    ours = [
        name for name in look_at(directory, lists=True).names if "_dray-" in name or name.startswith("dray-")
    ]
    for pod in (directory / name for name in ours[:_PODS]):
        for container in (pod / name for name in look_at(pod, lists=True).names):
            numbers = [
                name for name in look_at(container, lists=True).names if name.removesuffix(".log").isdigit()
            ]
            if numbers:
                yield container / max(numbers, key=lambda name: int(name.removesuffix(".log")))


async def _journal() -> str:
    """Empty where there is no journal, or it takes too long."""
    if shutil.which(_JOURNAL[0]) is None:
        return ""
    process = await asyncio.create_subprocess_exec(
        *_JOURNAL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(_JOURNAL_SECONDS):
            told, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return ""
    return told.decode(errors="replace")
