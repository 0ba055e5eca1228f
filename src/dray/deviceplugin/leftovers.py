"""Sockets of ours that a kill left behind: they go when nobody wants them any more. A wanted one is replaced anyway."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec

from dray.errors import Error
from dray.runtime.clock import Clock
from dray.runtime.files.checkpoint import Checkpoint
from dray.runtime.files.checkpoint_format import Format
from dray.runtime.logs import get_log
from dray.wire.neighbour import who_listens

_log = get_log("deviceplugin")


class _Content(msgspec.Struct, frozen=True):
    sockets: tuple[str, ...] = ()


class SocketLedger:
    """Remembers in a file which sockets were made in `directory`. Entered = loaded, and no other process writes it.

    The names are KubeVirt's, so the name alone does not tell whose a socket is: only what the file has is removed.
    """

    def __init__(
        self, path: Path, directory: Path, *, clock: Clock | None = None, takes_over: bool = False
    ) -> None:
        """With `takes_over` another process may still have the file, which we replace."""
        self._checkpoint = Checkpoint(path, Format(_Content), clock=clock)
        self._takes_over = takes_over
        self._directory = directory
        self._known: frozenset[str] = frozenset()

    def __enter__(self) -> SocketLedger:
        loaded = self._checkpoint.follow() if self._takes_over else self._checkpoint.open()
        if loaded.set_aside:
            _log.warning("own sockets are not known", error=str(loaded.set_aside))
        self._known = frozenset(loaded.data.sockets if loaded.data else ())
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._checkpoint.__exit__(*exc_info)

    async def want(self, sockets: Iterable[str]) -> None:
        """Call before these are made. Ours that are not among them and that nobody listens on are removed.

        A full disk is told, and then a kill may leave one behind.
        """
        wanted = frozenset(sockets)
        kept = wanted | {name for name in self._known - wanted if not await self._remove_dead(name)}
        if kept == self._known:
            return
        try:
            self._checkpoint.save(_Content(tuple(sorted(kept))))
        except Error as error:
            _log.warning("own sockets are not remembered over a kill", error=str(error))
            return
        self._known = kept

    async def _remove_dead(self, name: str) -> bool:
        """Whether it is gone. One that lives is a plugin of ours that has not ended yet, or somebody else's by now."""
        path = self._directory / name
        try:
            if not stat.S_ISSOCK(path.lstat().st_mode):
                return True
            if await who_listens(path) is not None:
                return False
            path.unlink()
        except FileNotFoundError:
            return True
        except OSError as error:
            _log.warning("socket left behind", path=path, error=str(error))
            return False
        _log.info("removed a socket that a kill left behind", path=path)
        return True
