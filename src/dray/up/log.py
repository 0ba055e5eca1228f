"""The log file of a `dray up` in the background: kept short, and read when something went wrong."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final, NoReturn

from dray.runtime.clock import Clock
from dray.runtime.logs import get_log

_log = get_log("supervisor")

LIMIT: Final = 10 * 1024 * 1024
OLDER: Final = 3
_SECONDS: Final = 5.0
_TAIL_BYTES: Final = 64 * 1024


def rotate(path: Path, limit: int = LIMIT, older: int = OLDER) -> bool:
    """Move the content to `.1`, that of `.1` to `.2` and so on, once it is longer than `limit`; whether it was.

    The file itself stays, because those who write it hold it open (for appending). Where there is no room for a copy, the
    content is lost: a log must not fill the disk. What is written in between the two steps is lost, too.
    """
    try:
        if path.stat().st_size <= limit:
            return False
        for number in range(older, 1, -1):
            earlier = _older(path, number - 1)
            if earlier.exists():
                earlier.replace(_older(path, number))
        try:
            shutil.copyfile(path, _older(path, 1))
        except OSError as error:
            _older(path, 1).unlink(missing_ok=True)
            _log.warning("the log could not be kept", path=str(path), error=str(error))
        os.truncate(path, 0)
    except FileNotFoundError:
        return False
    except OSError as error:
        _log.warning("the log could not be rotated", path=str(path), error=str(error))
        return False
    return True


async def keep_short(path: Path, clock: Clock) -> NoReturn:
    """Look again every few seconds, until cancelled."""
    while True:
        rotate(path)
        await clock.sleep(_SECONDS)


def tail(path: Path, lines: int = 15, *, since: int = 0) -> list[str]:
    """The last lines after the first `since` bytes; none where there is no such file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(since if since <= size else 0, size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return text.splitlines()[-lines:]


def _older(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
