"""The agent's configuration as files that may be edited at any time: the newest good content counts."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dray.api import names
from dray.errors import Error, InvalidError, InvariantError
from dray.processes.agent_config import Served, load_agent_config, served
from dray.runtime.clock import Clock
from dray.runtime.files.filewatch import FileWatch
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log
from dray.runtime.tasks import wait_first

_log = get_log("config")

_POLL_SECONDS = 60.0
"""Some file systems, such as NFS, tell nobody of a change."""
_BLIND_SECONDS = 2.0
"""Where no file system can tell, for want of inotify."""
_SETTLE_SECONDS = 0.2
"""One who makes the file anew has not written all of it when its name appears."""
_LIMIT = 4 << 20


@dataclass
class ConfigFile:
    """A file, and the labels of the node: `labels` given once, `labels_path` a file of `key=value` lines that goes before.

    `load` reads both; `follow` gives what is to be served whenever that changed. A bad edit is told, counted in
    `refusals`, and changes nothing.
    """

    path: Path
    labels: Mapping[str, str] = field(default_factory=dict)
    labels_path: Path | None = None
    loads: int = 0
    refusals: int = 0
    _texts: tuple[str, ...] = ()
    _unreadable: str = ""
    _notes: tuple[str, ...] = ()

    def load(self) -> Served:
        """What is to be served now. InvalidError with every fault; NotFoundError, DeniedError where it cannot be read."""
        self._texts = self._read()
        return self._parse()

    async def follow(self, clock: Clock, current: Served) -> AsyncIterator[Served]:
        """Each new value, as long as it is iterated. `current` is what is in force."""
        paths = [path.absolute() for path in (self.path, self.labels_path) if path is not None]
        async with FileWatch(
            paths, follow=True, contents=True, poll_interval=_POLL_SECONDS, clock=clock
        ) as watch:
            while True:
                wanted = self._newer()
                if wanted is not None and wanted != current:
                    current = wanted
                    yield wanted
                before = watch.snapshot
                pause = _BLIND_SECONDS if watch.polling_because else _POLL_SECONDS
                await wait_first(watch.wait_changed(), clock.sleep(pause))
                if watch.snapshot is not before:
                    await clock.sleep(_SETTLE_SECONDS)

    def _newer(self) -> Served | None:
        """What is to be served now; None where nothing new is written, or nothing good, which is told once."""
        try:
            texts = self._read()
            if texts == self._texts:
                self._unreadable = ""
                return None
            self._texts, self._unreadable = texts, ""
            wanted = self._parse()
        except InvariantError:
            raise
        except Error as error:
            if str(error) != self._unreadable:
                self._unreadable = str(error)
                self.refusals += 1
                _tell(error)
            return None
        _log.info("configuration in force", path=self.path)
        return wanted

    def _parse(self) -> Served:
        config = load_agent_config(self._texts[0], str(self.path))
        labels = {**self.labels, **parse_labels("".join(self._texts[1:]), str(self.labels_path))}
        for note in config.notes if config.notes != self._notes else ():
            _log.warning("note on the configuration", note=note)
        self._notes = config.notes
        self.loads += 1
        return served(config, labels)

    def _read(self) -> tuple[str, ...]:
        texts = (_read(self.path, "--config"),)
        return texts if self.labels_path is None else (*texts, _read(self.labels_path, "--node-labels-file"))


def parse_labels(text: str, source: str) -> dict[str, str]:
    """Labels as lines of `key=value`; values may be in double quotes. InvalidError names the line."""
    labels: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, value = parse_label(line.strip(), f"{source}:{number}")
        labels[key] = value
    return labels


def parse_label(text: str, source: str) -> tuple[str, str]:
    """One label; InvalidError where it is none."""
    key, separator, value = text.partition("=")
    value = value.removeprefix('"').removesuffix('"')
    if not separator:
        raise InvalidError(f"{source}: {text!r} must be key=value", field=source)
    faults = [*names.label_key(key), *names.label_value(value)]
    if faults:
        raise InvalidError(f"{source}: {text!r}: {faults[0]}", field=source)
    return key, value


def _tell(error: Error) -> None:
    faults = error.causes if isinstance(error, InvalidError) else ()
    _log.error(
        "configuration refused, the last good one stays in force", faults=len(faults) or 1, error=str(error)
    )


def _open(path: str, flags: int) -> int:
    """Without waiting for the writer of a FIFO."""
    return os.open(path, flags | os.O_NONBLOCK)


def _read(path: Path, flag: str) -> str:
    try:
        with open(path, "rb", opener=_open) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidError(f"{path}: is no plain file", field=flag)
            content = file.read(_LIMIT + 1)
    except OSError as error:
        raise from_os_error(error, f"read {flag}", os.fspath(path)) from error
    if len(content) > _LIMIT:
        raise InvalidError(f"{path}: has more than {_LIMIT >> 20} MiB; is it the right file?", field=flag)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InvalidError(f"{path}: is not UTF-8 text (byte {error.start})", field=flag) from error
