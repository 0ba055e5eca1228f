"""Whether another process serves a driver of our name on this node, and who it is.

A kubelet takes both: the one that registered last is called, both rewrite each other's slices, and each prepares devices
that the other knows nothing of. The instances of a rolling update share one data directory, and may.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dray.dra.register import DriverSockets
from dray.errors import ConflictError, Error
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.wire.connect import connect
from dray.wire.gen.pluginregistration_v1_pb2 import InfoRequest, PluginInfo
from dray.wire.limits import Limits
from dray.wire.neighbour import who_listens
from dray.wire.registration import DRA_PLUGIN, GET_INFO_TIMEOUT, RegistrationClient

_log = get_log("dra")

AT_ONCE = 16
MOST_SOCKETS = 1000
DEPTH = 3
"""Directories below the registry that are looked into."""
_LIMITS = Limits(receive=2**16)
_FIRST_PAUSE = 0.05


@dataclass(frozen=True, slots=True)
class Owner:
    """A live process that serves our driver's name. `who` is for people."""

    registration: Path
    endpoint: str
    who: str


async def refuse_second(sockets: DriverSockets, clock: Clock, patience: float) -> None:
    """Return if the name is ours to serve; ConflictError where another live process has it.

    One that is just leaving gets `patience` seconds.
    """
    end, pause = clock.monotonic() + patience, _FIRST_PAUSE
    while (owner := await find_owner(sockets)) is not None:
        if clock.monotonic() >= end:
            raise ConflictError(reason(sockets, owner))
        await clock.sleep(pause)
        pause *= 2


def reason(sockets: DriverSockets, owner: Owner) -> str:
    """One line that names the process and what to do."""
    return (
        f"driver {sockets.driver} is served on this node by {owner.who} (registration socket "
        f"{owner.registration}, endpoint {owner.endpoint}): stop that process, or give this driver another name"
    )


async def find_owner(sockets: DriverSockets) -> Owner | None:
    """The first that answers with our driver's name and is no sibling of ours; sockets that do not answer are nobody's."""
    paths = iter(_registration_sockets(sockets.registry))
    found: dict[Path, Owner] = {}

    async def ask() -> None:
        for path in paths:
            if (owner := await _owner_at(path, sockets)) is not None:
                found[path] = owner

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(ask())
    return found[min(found)] if found else None


async def _owner_at(path: Path, sockets: DriverSockets) -> Owner | None:
    info = await _info(path)
    if info is None or (info.type, info.name) != (DRA_PLUGIN, sockets.driver):
        return None
    if sockets.is_sibling(path, Path(info.endpoint)):
        return None
    who = await who_listens(path) or "a process that just ended"
    return Owner(path, info.endpoint or str(path), str(who))


async def _info(path: Path) -> PluginInfo | None:
    try:
        async with (
            asyncio.timeout(GET_INFO_TIMEOUT),
            connect(path, timeout=GET_INFO_TIMEOUT, limits=_LIMITS) as channel,
        ):
            return await RegistrationClient(channel).get_info(InfoRequest())
    except (Error, TimeoutError) as error:
        _log.debug("a registration socket does not answer", path=path, error=str(error))
        return None


def _registration_sockets(directory: Path) -> list[Path]:
    """Those that a kubelet looks at: also in directories below, but no hidden ones, and no endless number."""
    found: list[Path] = []
    for path in _walk(directory, DEPTH):
        if len(found) == MOST_SOCKETS:
            _log.warning("too many sockets to ask each who it is", directory=directory, limit=MOST_SOCKETS)
            break
        found.append(path)
    return found


def _walk(directory: Path, depth: int) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError:
            continue
        if stat.S_ISSOCK(mode):
            yield directory / entry.name
        elif stat.S_ISDIR(mode) and depth:
            yield from _walk(directory / entry.name, depth - 1)
