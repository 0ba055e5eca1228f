"""The agent's configuration as files that may be edited at any time: the newest good content counts."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dray.api import names
from dray.errors import Error, InvalidError, InvariantError
from dray.processes.agent_config import Served, load_agent_config, served
from dray.runtime.clock import Clock
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log

_log = get_log("config")

_PACE = 1.0
_LIMIT = 4 << 20
_FRESH_NS = 2 * 10**9


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
    _identity: object = None
    _notes: tuple[str, ...] = ()

    def load(self) -> Served:
        """What is to be served now. InvalidError with every fault; NotFoundError, DeniedError where it cannot be read."""
        self._identity = self._look()
        self._texts = self._read()
        return self._parse()

    async def follow(self, clock: Clock, current: Served) -> AsyncIterator[Served]:
        """Each new value, as long as it is iterated. `current` is what is in force."""
        while True:
            await clock.sleep(_PACE)
            identity = self._look()
            if identity == self._identity:
                continue
            self._identity = identity
            try:
                texts = self._read()
                if texts == self._texts:
                    continue
                self._texts = texts
                wanted = self._parse()
            except InvariantError:
                raise
            except Error as error:
                self.refusals += 1
                _tell(error)
                continue
            _log.info("configuration in force", path=self.path, changed=wanted != current)
            if wanted != current:
                current = wanted
                yield wanted

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

    def _look(self) -> object:
        """Differs when a file may have changed. One that was written a moment ago may be so again at the same time stamp."""
        statuses = [_status(path) for path in (self.path, self.labels_path) if path is not None]
        is_fresh = any(status and time.time_ns() - status.st_mtime_ns < _FRESH_NS for status in statuses)
        return object() if is_fresh else [_facts(status) for status in statuses]


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


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _facts(status: os.stat_result | None) -> tuple[int, ...]:
    if status is None:
        return ()
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)


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
