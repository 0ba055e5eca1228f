"""Where the agent's configuration comes from: what a file and an object of the API server have in common."""

from __future__ import annotations

import dataclasses
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from dray.agent.config import AgentConfig, MdevTypes, Served, load_agent_config, served
from dray.agent.config.label_lines import parse_labels
from dray.api.core import ObjectReference
from dray.errors import Error, InvalidError, UnavailableError
from dray.runtime.clock import Clock
from dray.runtime.files.filewatch import FileWatch
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log
from dray.runtime.tasks import wait_first

_log = get_log("config")

_POLL_SECONDS: Final = 60.0
"""Some file systems, such as NFS, tell nobody of a change."""
_BLIND_SECONDS: Final = 2.0
"""Where no file system can tell, for want of inotify."""
_SETTLE_SECONDS: Final = 0.2
"""One who makes the file anew has not written all of it when its name appears."""
_LIMIT: Final = 4 << 20

OnRefusal = Callable[[Error, tuple[ObjectReference, ...]], None]
"""Told each refusal once, with the objects that it is about: none where it is about a file."""


class NodeLabels(Protocol):
    """The labels of the Node object, as `NodeView` has them."""

    @property
    def labels(self) -> Mapping[str, str] | None:
        """None while they are not known."""
        ...

    @property
    def generation(self) -> int:
        """Grows when they change."""
        ...

    async def wait_newer(self, generation: int) -> None:
        """Return once they changed after `generation`."""
        ...


@dataclass(frozen=True, slots=True)
class Labels:
    """Whence the labels of the node: its object, then `given`, then a file of `key=value` lines; later ones win."""

    given: Mapping[str, str] = field(default_factory=dict)
    path: Path | None = None
    node: NodeLabels | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """A configuration as it is written; `source` is what errors call it."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Given:
    """All that a configuration is made of at one moment. What is equal need not be read again."""

    text: Text
    labels: str = ""
    node: Mapping[str, str] | None = None


class ConfigSource(ABC):
    """`load` once, then `follow` gives what is to be served whenever that changed.

    A bad edit is told, counted in `refusals`, and changes nothing. One task uses it.
    """

    def __init__(self, labels: Labels, on_refusal: OnRefusal | None = None) -> None:
        self.loads = 0
        self.refusals = 0
        self._labels = labels
        self._on_refusal = on_refusal
        self._given: Given | None = None
        self._good: Given | None = None
        self._unreadable = ""
        self._notes: tuple[str, ...] = ()

    def load(self) -> Served:
        """What is to be served now. InvalidError with every fault; NotFoundError, DeniedError where it cannot be read."""
        try:
            return self._first()
        except Error as error:
            self._announce(error)
            raise

    async def follow(self, clock: Clock, current: Served) -> AsyncIterator[Served]:
        """Each new value, as long as it is iterated. `current` is what is in force."""
        paths = [path.absolute() for path in (*self._files(), self._labels.path) if path is not None]
        async with FileWatch(
            paths, follow=True, contents=True, poll_interval=_POLL_SECONDS, clock=clock
        ) as watch:
            while True:
                waits = self._waits()
                wanted = self._newer()
                if wanted is not None and wanted != current:
                    current = wanted
                    yield wanted
                before = watch.snapshot
                pause = _BLIND_SECONDS if watch.polling_because else _POLL_SECONDS
                await wait_first(watch.wait_changed(), clock.sleep(pause), *(wait() for wait in waits))
                if watch.snapshot is not before:
                    await clock.sleep(_SETTLE_SECONDS)

    @abstractmethod
    def _document(self) -> Text:
        """The configuration as it is written now; an Error says why there is none."""

    def _files(self) -> tuple[Path, ...]:
        """What to watch on disk."""
        return ()

    def _waits(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        """For what is not on disk: each returns when something is newer than it is right now."""
        node = self._labels.node
        if node is None:
            return []
        generation = node.generation
        return [lambda: node.wait_newer(generation)]

    def _about(self) -> tuple[ObjectReference, ...]:
        """Whom a refusal is about, for Events."""
        return ()

    def _accepted(self, text: Text) -> None:  # noqa: B027  a file need not be remembered
        """Called with each configuration that has no fault."""

    def _first(self) -> Served:
        self._given = self._read()
        return self._parse(self._given)

    def _newer(self) -> Served | None:
        """What is to be served now; None where nothing new is written, or nothing good, which is told once."""
        try:
            given = self._read()
            if given == self._given:
                self._unreadable = ""
                return None
            self._given, self._unreadable = given, ""
            wanted = self._parse(given)
        except Error as error:
            self._refuse(error)
            return self._relabelled()
        _log.info("configuration in force", source=given.text.source)
        return wanted

    def _relabelled(self) -> Served | None:
        """The last good text for the labels of now; None where it would be what is in force."""
        if self._good is None:
            return None
        try:
            given = self._labelled(self._good.text)
            return None if given == self._good else self._parse(given)
        except Error:  # the labels themselves are not good, which was told
            return None

    def _refuse(self, error: Error) -> None:
        is_away = isinstance(error, UnavailableError)
        said = "away" if is_away else str(error)  # why it is away may differ each time
        if said == self._unreadable:
            return
        self._unreadable = said
        if is_away:
            _log.warning(
                "configuration cannot be read now, the last good one stays in force", error=str(error)
            )
            return
        self.refusals += 1
        _tell(error)
        self._announce(error)

    def _announce(self, error: Error) -> None:
        if self._on_refusal is not None:
            self._on_refusal(error, self._about())

    def _parse(self, given: Given) -> Served:
        config = load_agent_config(given.text.text, given.text.source)
        labels = {
            **(given.node or {}),
            **self._labels.given,
            **parse_labels(given.labels, str(self._labels.path)),
        }
        for note in config.notes if config.notes != self._notes else ():
            _log.warning("note on the configuration", note=note)
        self._notes = config.notes
        wanted = served(config, labels)
        self.loads += 1
        self._good = given
        self._accepted(given.text)
        return self._careful(wanted, config, given)

    def _careful(self, wanted: Served, config: AgentConfig, given: Given) -> Served:
        """While the node's labels are not known, mediated devices that depend on them are left as they are."""
        mdevs = config.configuration.mediated_devices_configuration
        by_label = mdevs is not None and any(one.node_selector for one in mdevs.node_mediated_device_types)
        is_unknown = self._labels.node is not None and given.node is None
        if not (by_label and is_unknown and wanted.mdev_types.managed):
            return wanted
        _log.warning("the node's labels are not known yet: no mediated devices are made or removed")
        return dataclasses.replace(wanted, mdev_types=MdevTypes(managed=False))

    def _read(self) -> Given:
        return self._labelled(self._document())

    def _labelled(self, text: Text) -> Given:
        path, node = self._labels.path, self._labels.node
        return Given(
            text,
            "" if path is None else read_text(path, "--node-labels-file"),
            None if node is None else node.labels,
        )


def _tell(error: Error) -> None:
    faults = error.causes if isinstance(error, InvalidError) else ()
    _log.error(
        "configuration refused, the last good one stays in force", faults=len(faults) or 1, error=str(error)
    )


def _open(path: str, flags: int) -> int:
    """Without waiting for the writer of a FIFO."""
    return os.open(path, flags | os.O_NONBLOCK)


def read_text(path: Path, flag: str) -> str:
    """A configuration file's content; `flag` is who named it."""
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
