"""The machine, as a driver looks at it: its files below one root, which is another one in tests and in containers."""

from __future__ import annotations

import stat
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from dray.errors import InvalidError, NotFoundError
from dray.hardware.host_root import HostRoot, Place

_WILDCARDS: Final = frozenset("*?[")


class Host:
    """Paths are given as the host has them (`/dev/lamp0`). No link leads out of the root. Every call looks anew.

    Directories that were listed here are watched: when a name in one comes or goes, the driver looks again. Errors are
    those of `dray.errors` and name the path.
    """

    def __init__(self, root: Path | str | Place) -> None:
        self._place: Place = HostRoot(Path(root).absolute()) if isinstance(root, Path | str) else root
        self._listed: set[str] = set()

    @property
    def listed(self) -> tuple[str, ...]:
        """The directories that were looked into so far."""
        return tuple(sorted(self._listed))

    def path(self, path: str) -> Path:
        """Where this process finds it, to open it by other means. A link on the way is followed as this process sees it."""
        return self._place.path / path.lstrip("/")

    def exists(self, path: str) -> bool:
        """Whether something is there; a link that leads nowhere is nothing."""
        self._listed.add(path.rstrip("/").rpartition("/")[0] or "/")
        return self._place.exists(path)

    def names(self, directory: str) -> list[str]:
        """What a directory holds, sorted; nothing where there is none."""
        self._listed.add(directory.rstrip("/") or "/")
        try:
            return self._place.names(directory)
        except NotFoundError:
            return []

    def glob(self, pattern: str) -> list[str]:
        """The paths that match, sorted: `/dev/lamp*`, `/sys/bus/*/devices/*`. `*` does not match a slash."""
        found = [""]
        for part in pattern.strip("/").split("/"):
            if _WILDCARDS.isdisjoint(part):
                found = [f"{above}/{part}" for above in found]
                continue
            found = [
                f"{above}/{name}"
                for above in found
                for name in self._below(above or "/")
                if fnmatchcase(name, part) and (part.startswith(".") or not name.startswith("."))
            ]
        return sorted(filter(self._is_there, found))

    def _below(self, directory: str) -> list[str]:
        """Nothing below what is no directory, and no need to watch it."""
        try:
            is_directory = stat.S_ISDIR(self._place.stat(directory).st_mode)
        except NotFoundError:
            is_directory = True  # some day
        except InvalidError:  # a file is on the way
            is_directory = False
        return self.names(directory) if is_directory else []

    def _is_there(self, path: str) -> bool:
        try:
            return self._place.exists(path)
        except InvalidError:
            return False

    def read_text(self, path: str) -> str:
        """A small file's text, without the newline at its end. NotFoundError; HardwareError where it is no text."""
        return self._place.read_text(path)

    def read_link(self, path: str) -> str:
        """The text of a link, as it stands."""
        return self._place.read_link(path)
