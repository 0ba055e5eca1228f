"""Which object was being handled when the process ended, so that one that ends it again and again is set aside.

A handler that fails is nothing for this room: its object comes again after a pause. This is about handlers that never came
back: the process crashed, met a bug of ours, was killed by the kernel for its memory, or hung until somebody killed it.
Whoever is handled is noted in a mapped file, which outlives the process and costs no call to the kernel. The next process
counts a death for each object that it finds there; after `DEATHS` of them the object is left alone for a day, or until
another version of Dray runs, and everything else goes on. Who is created again under its name goes on counting, and all
objects of one owner (a ReplicaSet's pods) count together, up to `OWNER_DEATHS`: each of them has a new name and UID.

Each part has a quarantine of its own (`PLACE` in its state directory): what a pod does to the scheduler says nothing of
what it does to the kubelet. Work on an object that waits in between is noted step by step (`steps`).
"""

from __future__ import annotations

import asyncio
import mmap
import os
import re
import types
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

import dray
from dray.errors import Error, InvariantError
from dray.runtime.clock import Clock
from dray.runtime.files.checkpoint import Checkpoint
from dray.runtime.files.checkpoint_format import Format
from dray.runtime.files.durable import make_directory
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log
from dray.runtime.metrics import Metrics

_log = get_log("runtime.quarantine")

PLACE: Final = "quarantine"
"""The name of its directory, in the state directory of the part whose it is."""
SET_ASIDE: Final = "SetAside"
"""The reason of Events and conditions of objects that are left alone."""
DEATHS_FILE: Final = "deaths.json"
DEATHS: Final = 3
OWNER_DEATHS: Final = 6
"""Of objects that have one owner, all together. More than for one object: a busy owner's are often there by chance."""
AT_ONCE: Final = (
    "to have it tried at once, create it under another name, and with another owner if it has one"
)
REST: Final = timedelta(days=1)
"""After its last death; then it is tried again."""
_SLOTS: Final = 64
_SLOT: Final = 512
_KEPT: Final = 1000
"""Objects whose deaths are remembered, those of the newest ones."""

T = TypeVar("T")


_KEY: Final = re.compile(r"(.*?)([^/ ]+)/([^/ ]*)/([^/ ]+)/([^/ ]*)(?:/([^/ ]+))?(.*)", re.DOTALL)


def object_key(collection: str, namespace: str, name: str, uid: str, owner: str = "") -> str:
    """An object as a quarantine names it: `pods/default/a/UID`, with the UID of the owner that controls it if there is one.
    Words before and after it, with a space between, say what is done for the object."""
    key = f"{collection}/{namespace}/{name}/{uid}"
    return f"{key}/{owner}" if owner else key


def groups_of(key: str) -> dict[str, int]:
    """What an object counts for beside itself, with the number of deaths after which that is left alone: its name, its owner."""
    found = _KEY.fullmatch(key)
    if found is None:
        return {}
    before, collection, namespace, name, _, owner, after = found.groups()
    groups = {f"{before}{collection}/{namespace}/{name}{after}": DEATHS}
    if owner:
        groups[f"{before}{collection}/{namespace}//{owner}{after}"] = OWNER_DEATHS
    return groups


class Deaths(msgspec.Struct, frozen=True):
    """Of one object: how often the process ended while it was handled, and when it did last."""

    count: int
    last: datetime
    version: str

    def is_aside(self, now: datetime, most: int = DEATHS) -> bool:
        """Whether the object is left alone."""
        return self.count >= most and now - self.last < REST


class Content(msgspec.Struct, frozen=True):
    """Of the file that remembers them, by object, and by name and owner of objects."""

    deaths: dict[str, Deaths]
    groups: dict[str, Deaths] = {}

    def why(self, key: str, now: datetime) -> Deaths | None:
        """The deaths for which an object is left alone, None where it is not."""
        own = self.deaths.get(key)
        if own is not None and own.is_aside(now):
            return own
        for group, most in groups_of(key).items():
            deaths = self.groups.get(group)
            if deaths is not None and deaths.is_aside(now, most):
                return deaths
        return None

    def set_aside(self, now: datetime) -> dict[str, Deaths]:
        """The objects that ended the process and are left alone, for others of their name or owner, too."""
        found = ((key, self.why(key, now)) for key in sorted(self.deaths))
        return {key: deaths for key, deaths in found if deaths is not None}


class Quarantine:
    """For one part and its event loop. Keys name objects (`object_key`).

    Entered: the deaths of the process before are counted. Without a `directory` nothing is noted; where the disk takes
    nothing, or another process uses the directory, neither, and that is logged.
    """

    def __init__(self, directory: Path | None, clock: Clock, *, version: str = dray.__version__) -> None:
        self._directory = directory
        self._clock = clock
        self._version = version
        self._file: Checkpoint[Content] | None = None
        self._content = Content({})
        self._slots: mmap.mmap | None = None
        self._free: list[int] = []

    def __enter__(self) -> Quarantine:
        if self._directory is None:
            return self
        file = Checkpoint(self._directory / DEATHS_FILE, Format(Content), clock=self._clock)
        try:
            loaded = file.open()
            self._file = file
            if loaded.set_aside is not None:
                _log.warning(str(loaded.set_aside))
            self._slots = _mapped(self._directory / "handled")
            self._count(loaded.data or Content({}))
        except Error as error:
            _log.warning("objects that end the process are not noted", error=str(error))
        self._free = list(range(_SLOTS))
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._slots is not None:
            self._slots.close()
            self._slots = None
        if self._file is not None:
            self._file.__exit__()

    @property
    def deaths(self) -> Mapping[str, Deaths]:
        """Of all objects that are remembered."""
        return self._content.deaths

    @property
    def set_aside(self) -> Mapping[str, Deaths]:
        """The objects that are left alone."""
        return self._content.set_aside(self._clock.now())

    def why(self, key: str) -> str:
        """Why the object is left alone, for its condition and Event; "" where it is not."""
        if not self._content.deaths:
            return ""
        key = _short(key)
        one = self._content.why(key, self._clock.now())
        if one is None:
            return ""
        what = "this object" if one is self._content.deaths.get(key) else "objects of this name or owner"
        return (
            f"set aside until {one.last + REST:%Y-%m-%d %H:%M} UTC: Dray ended {one.count} times while it handled {what}. "
            f"Report it with `dray doctor --bundle`; {AT_ONCE}"
        )

    async def steps(self, key: str, work: Awaitable[T]) -> T:
        """Await `work` on an object that is noted while a step of it runs, and not while it waits: whoever is killed then
        was not ended by this object."""
        return await self._driven(key, work)

    @types.coroutine
    def _driven(self, key: str, work: Awaitable[T]) -> Generator[Any, Any, T]:
        steps = work.__await__()
        thrown: BaseException | None = None
        while True:
            slot = self.note(key)
            try:
                waited_for = steps.send(None) if thrown is None else steps.throw(thrown)
            except InvariantError:
                raise
            except StopIteration as end:
                self.clear(slot)
                return end.value  # type: ignore[no-any-return]  # what the work returns
            except BaseException:  # a failure, which its queue deals with, or the end of the task
                self.clear(slot)
                raise
            self.clear(slot)
            thrown = None
            try:
                yield waited_for
            except BaseException as error:  # noqa: BLE001 - for the work: what it waited for failed, or it is cancelled
                thrown = error

    @contextmanager
    def handling(self, key: str) -> Iterator[None]:
        """Around what is done for the object at once. What leaves it by a bug of ours stays noted: the process ends."""
        slot = self.note(key)
        try:
            yield
        except (Error, asyncio.CancelledError):
            self.clear(slot)
            raise
        self.clear(slot)

    def note(self, key: str) -> int:
        """Note an object until what this returns is given to `clear`. For who ends the process with every exception."""
        if self._slots is None or not self._free:
            return -1
        slot = self._free.pop()
        text = _short(key).encode()
        start = slot * _SLOT
        # The length last: who is killed in between leaves no half a name.
        self._slots[start + 2 : start + 2 + len(text)] = text
        self._slots[start : start + 2] = len(text).to_bytes(2, "big")
        return slot

    def clear(self, slot: int) -> None:
        """What was noted came back."""
        if slot < 0 or self._slots is None:
            return
        self._slots[slot * _SLOT : slot * _SLOT + 2] = b"\0\0"
        self._free.append(slot)

    def _count(self, before: Content) -> None:
        handled = self.handled()
        deaths = self._one_more(before.deaths, handled)
        groups = self._one_more(before.groups, sorted({group for key in handled for group in groups_of(key)}))
        for key in handled:
            _log.warning("the process ended while it handled an object", object=key, deaths=deaths[key].count)
        self._content = Content(deaths, groups)
        if self._content != before and self._file is not None:
            self._file.save(self._content)
        # Not before they are counted on the disk: who is killed here counts once more, which is better than not at all.
        if handled and self._slots is not None:
            for slot in range(_SLOTS):
                self._slots[slot * _SLOT : slot * _SLOT + 2] = b"\0\0"

    def _one_more(self, before: Mapping[str, Deaths], handled: Iterable[str]) -> dict[str, Deaths]:
        """The deaths that still count, and these; of too many the newest."""
        now, version = self._clock.now(), self._version
        known = {key: one for key, one in before.items() if one.version == version and now - one.last < REST}
        for key in handled:
            known[key] = Deaths(known[key].count + 1 if key in known else 1, now, version)
        return dict(sorted(known.items(), key=lambda item: item[1].last)[-_KEPT:])

    def handled(self) -> list[str]:
        """The objects that are noted now."""
        if self._slots is None:
            return []
        found = set()
        for start in range(0, _SLOTS * _SLOT, _SLOT):
            length = int.from_bytes(self._slots[start : start + 2], "big")
            if 0 < length <= _SLOT - 2:
                found.add(self._slots[start + 2 : start + 2 + length].decode(errors="ignore"))
        return sorted(found)


def show_set_aside(metrics: Metrics, of_parts: Callable[[], Mapping[str, Quarantine]]) -> None:
    """Count the objects that each part leaves alone at each scrape."""
    metrics.series(
        "dray_objects_set_aside",
        "Objects that are left alone, because the process ended again and again while it handled them.",
        lambda: [({"part": part}, float(len(one.set_aside))) for part, one in sorted(of_parts().items())],
    )


def _short(key: str) -> str:
    """As much of it as a slot holds."""
    return key if len(key) < _SLOT // 4 else key.encode()[: _SLOT - 2].decode(errors="ignore")


def _mapped(path: Path) -> mmap.mmap:
    """The file as memory. A new one, or one of another size, is all zeros."""
    try:
        make_directory(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, _SLOTS * _SLOT)
            return mmap.mmap(descriptor, _SLOTS * _SLOT)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise from_os_error(error, "map", str(path)) from error
