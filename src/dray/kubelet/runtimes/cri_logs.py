"""Puts aside the full logs of a CRI runtime's containers: it writes them, but leaves their size to the kubelet."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

from dray.errors import Error
from dray.kubelet.runtimes.contract import LogLimits
from dray.kubelet.runtimes.cri_view import CriView
from dray.kubelet.runtimes.shim_log import make_room, open_directory, put_aside_as
from dray.runtime.clock import Clock
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log
from dray.wire.cri import RuntimeClient
from dray.wire.gen import cri_v1_pb2 as pb

_log = get_log("kubelet.runtimes.cri")
_LOOK_SECONDS: Final = 10.0


class LogKeeper:
    """One task runs `run`. Between two looks a log may grow over its limit."""

    def __init__(self, runtime: RuntimeClient, view: CriView, limits: LogLimits, clock: Clock) -> None:
        self._runtime = runtime
        self._view = view
        self._limits = limits
        self._clock = clock
        self._paths: dict[str, Path] = {}
        self._told: set[str] = set()

    async def run(self) -> NoReturn:
        """Until cancelled."""
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            try:
                await self.look()
            except Error as error:
                _log.debug("sizes of logs are not known", error=str(error))

    async def look(self) -> None:
        """At every running container once; trouble with one is told once, and does not disturb the others."""
        found = [one.id for one in await self._view.list_containers() if one.state == pb.CONTAINER_RUNNING]
        self._told &= set(found)
        self._paths = {item: path for item, path in self._paths.items() if item in found}
        for item in found:
            try:
                await self._keep_small(item)
                self._told.discard(item)
            except Error as error:
                if item not in self._told:
                    _log.warning("a full log is not put aside", container=item, error=str(error))
                self._told.add(item)

    async def _keep_small(self, item: str) -> None:
        if item not in self._paths:
            self._paths[item] = Path((await self._view.status(item)).log_path)
        path = self._paths[item]
        if not path.is_absolute():  # the runtime does not say where it is
            return
        with self._opened(path) as found:
            try:
                size = found.lstat().st_size
            except FileNotFoundError:
                await self._reopen(item)  # we were killed between the two steps, or somebody removed it
                return
            except OSError as error:
                raise from_os_error(error, "look at", str(path)) from error
            if size >= self._limits.size:
                await self._put_aside(item, found)

    @contextlib.contextmanager
    def _opened(self, path: Path) -> Iterator[Path]:
        """The file by a path through its open directory, which stays the same if the directory is replaced."""
        try:
            descriptor = open_directory(str(path.parent), str(self._limits.root or ""))
        except OSError as error:
            raise from_os_error(error, "look at", str(path)) from error
        try:
            yield Path(f"/proc/self/fd/{descriptor}", path.name)
        finally:
            os.close(descriptor)

    async def _put_aside(self, item: str, path: Path) -> None:
        old = _rename(path, self._limits.files)
        try:
            await self._reopen(item)
        except Error:
            _back(old, path)
            raise

    async def _reopen(self, item: str) -> None:
        await self._runtime.reopen_container_log(pb.ReopenContainerLogRequest(container_id=item))


def _rename(path: Path, files: int) -> Path:
    old = Path(put_aside_as(str(path)))
    try:
        make_room(str(path), files)
        path.rename(old)
    except OSError as error:
        raise from_os_error(error, "rename", str(path)) from error
    return old


def _back(old: Path, path: Path) -> None:
    """The runtime goes on in the old file: its name again, unless there is a new one after all."""
    try:
        if not path.exists():
            old.rename(path)
    except OSError as error:
        raise from_os_error(error, "rename", str(old)) from error
