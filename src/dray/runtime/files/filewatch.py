"""Notice when files, sockets, device nodes or directory entries come, go or are replaced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from dray.errors import DeniedError, Error, InvalidError, InvariantError, UnavailableError
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.files.filelook import Found, Interests, Key, Kind, Look
from dray.runtime.files.inotify import Event, Inotify
from dray.runtime.files.oserrors import from_os_error

__all__ = ["Entry", "FileWatch", "Kind", "Snapshot"]

# Seconds between two looks at least, so that a storm of events costs no more than 100 looks a second.
_SHORTEST_PAUSE = 0.01
# A look during which more events come is repeated before anyone is told, but not for ever.
_LOOKS_A_ROUND = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """What is under a name. Another `generation` under the same name means that it may be another file.

    The kernel gives a freed inode number to the next file, so the number alone does not tell two files apart.
    """

    kind: Kind
    device: int
    inode: int
    birth_ns: int
    target: str
    generation: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that is watched, as of one look. None: not there (or, for a directory, not a directory)."""

    paths: Mapping[Path, Entry | None]
    directories: Mapping[Path, Mapping[str, Entry] | None]


class FileWatch:
    """Watch `paths`, and all entries of `directories`; neither they nor their parents need to exist.

    Entered = watching and looked once. Level-triggered: `wait_changed` returns when the disk differs from what was told
    last, however many changes lie between; a file that was replaced by another is a change, a create and delete between
    two looks is none. Mode and owner are not watched, and content only with `contents`: then a file that somebody wrote
    and closed is a change. Symbolic links among the parents are followed and watched themselves; a link as the last part
    is told as a link, unless `follow`. One task uses it. With `root` all paths are those of another root directory, as
    in a chroot: no link leads out of it. The root itself must stay.

    The kernel gives no events for what it adds or removes in sysfs and procfs, and none when something is mounted over
    a parent: for those set `poll_interval`. With it, the watch goes on by polling alone where inotify cannot be had
    (`polling_because` says why); without it that is an UnavailableError or DeniedError, also later from `wait_changed`.
    Each watch is one inotify instance of the 128 a user has by default: one watch for many paths is better than many.
    """

    def __init__(
        self,
        paths: Iterable[Path] = (),
        *,
        directories: Iterable[Path] = (),
        follow: bool = False,
        contents: bool = False,
        root: Path = Path("/"),
        poll_interval: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._paths = sorted(set(paths))
        self._directories = sorted(set(directories))
        for path in (*self._paths, *self._directories):
            if not path.is_absolute() or "\0" in str(path):
                raise InvalidError(f"only absolute paths can be watched, not {str(path)!r}", field=str(path))
        self._follow = follow
        self._contents = contents
        self._root = root
        self._poll = _Poll(poll_interval, clock or SystemClock()) if poll_interval is not None else None
        self._inotify: Inotify | None = None
        self._memory = _Memory()
        self._told: Snapshot | None = None
        self._last_look = 0.0
        self.polling_because = ""

    @property
    def snapshot(self) -> Snapshot:
        """What was told last; right after entering, the first look."""
        if self._told is None:
            raise InvariantError("a file watch must be entered before it is read")
        return self._told

    async def __aenter__(self) -> FileWatch:
        try:
            self._inotify = Inotify(writes=self._contents)
        except UnavailableError as error:
            self._poll_only(error)
        try:
            self._collect()
        except BaseException:
            self._close()
            raise
        self._told = self._memory.snapshot
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._close()

    async def __aiter__(self) -> AsyncIterator[Snapshot]:
        yield self.snapshot
        while True:
            yield await self.wait_changed()

    async def wait_changed(self) -> Snapshot:
        """The newest snapshot, as soon as it differs from the one told last. May be cancelled and called again."""
        told = self.snapshot
        while True:
            await self._pause()
            self._collect()
            if self._memory.snapshot != told:
                self._told = self._memory.snapshot
                return self._told
            if not self._memory.stale:  # else events came faster than we looked: look again after the pause
                await self._wait_for_news()

    async def _pause(self) -> None:
        # Real time even under a fake clock: it paces the kernel's events, which are real too.
        rest = self._last_look + _SHORTEST_PAUSE - asyncio.get_running_loop().time()
        if rest > 0:
            await asyncio.sleep(rest)

    async def _wait_for_news(self) -> None:
        loop = asyncio.get_running_loop()
        news = loop.create_future()

        def wake(*_: object) -> None:
            if not news.done():
                news.set_result(None)

        timer = asyncio.create_task(self._poll.wait_due()) if self._poll else None
        if timer:
            timer.add_done_callback(wake)
        if self._inotify:
            loop.add_reader(self._inotify, wake)
        try:
            await news
        finally:
            if self._inotify:
                loop.remove_reader(self._inotify)
            if timer:
                timer.cancel()

    def _collect(self) -> None:
        """Take in what happened, and look at the disk if something did."""
        self._last_look = asyncio.get_running_loop().time()
        if self._poll and self._poll.is_due():
            self._memory.doubt_all()
        self._drain()
        for _ in range(_LOOKS_A_ROUND):
            if not self._memory.stale:
                return
            try:
                self._look()
            except UnavailableError as error:  # a new directory cannot be watched
                self._poll_only(error)
                self._look()
            except OSError as error:
                raise from_os_error(error, "look at", str(error.filename or "watched paths")) from error
            if self._poll:
                self._poll.restart()
            self._drain()

    def _drain(self) -> None:
        for event in self._inotify.drain() if self._inotify else ():
            self._memory.note(event)

    def _look(self) -> None:
        """One look; when it fails half-way, the memory stays stale and the next call looks again."""
        look = Look(self._watch_directory, follow=self._follow, root=self._root)
        touched = self._memory.touched
        paths = {path: look.at_path(path) for path in self._paths if touched is None or path in touched}
        listed = [path for path in self._directories if touched is None or path in touched]
        directories = {path: look.in_directory(path) for path in listed}
        interests = self._memory.renew(paths, directories, look.interests)
        if self._inotify:
            self._inotify.keep_only(set(interests.by_watch))

    def _watch_directory(self, descriptor: int) -> int:
        """-1 where it is not watched. One that we may not read does not cost the others their events."""
        if self._inotify is None:
            return -1
        try:
            return self._inotify.watch_directory(descriptor)
        except DeniedError as error:
            if self._poll is None:
                raise
            self.polling_because = str(error)
            return -1

    def _poll_only(self, error: Error) -> None:
        if self._poll is None:
            raise error
        self.polling_because = str(error)
        self._close()

    def _close(self) -> None:
        inotify, self._inotify = self._inotify, None
        if inotify:
            inotify.close()


class _Poll:
    """When the next look is due even without an event."""

    def __init__(self, interval: float, clock: Clock) -> None:
        self._interval = interval
        self._clock = clock
        self._due = clock.monotonic() + interval

    def is_due(self) -> bool:
        return self._clock.monotonic() >= self._due

    def restart(self) -> None:
        self._due = self._clock.monotonic() + self._interval

    async def wait_due(self) -> None:
        await self._clock.sleep(self._due - self._clock.monotonic())


class _Memory:
    """What the last look found, and what the events since then say about it. Touches no file."""

    def __init__(self) -> None:
        self.snapshot = Snapshot({}, {})
        self.stale = True
        self.touched: set[Path] | None = None
        """What events since the last look concern; None: that may be anything."""
        self._interests = Interests()
        self._replaced: set[Key] = set()
        self._all_replaced = False
        self._generation = 0

    def doubt_all(self) -> None:
        """The next look is at everything."""
        self.stale, self.touched = True, None

    def note(self, event: Event) -> None:
        """Take in one event."""
        if event.is_overflow:
            self._all_replaced = True
            self.doubt_all()
            return
        if event.is_end:
            # Also the echo of watches that we ended ourselves: those are no longer in the interests.
            if event.watch in self._interests.by_watch:
                self.doubt_all()
            return
        concerned = self._interests.concerned(event.watch, event.name)
        self.stale |= bool(concerned)
        if self.touched is not None:
            self.touched |= {path for path, _ in concerned}
        if event.is_arrival:
            self._replaced |= concerned

    def renew(
        self,
        paths: dict[Path, Found | None],
        directories: dict[Path, dict[str, Found] | None],
        interests: Interests,
    ) -> Interests:
        """Take in one look, at all or at what was touched; gives what is of interest now."""
        before, listed = self.snapshot.paths, self.snapshot.directories
        now = {path: self._entry(found, before.get(path), (path, "")) for path, found in paths.items()}
        listings = {
            path: self._listing(path, found, listed.get(path) or {}) if found is not None else None
            for path, found in directories.items()
        }
        if self.touched is not None:
            now, listings = {**before, **now}, {**listed, **listings}
            interests = self._interests.renewed(self.touched, interests)
        self.snapshot = Snapshot(MappingProxyType(now), MappingProxyType(listings))
        self._interests = interests
        self._replaced, self._all_replaced, self.stale, self.touched = set(), False, False, set()
        return interests

    def _listing(
        self, path: Path, found: dict[str, Found], before: Mapping[str, Entry]
    ) -> Mapping[str, Entry]:
        entries = ((name, self._entry(each, before.get(name), (path, name))) for name, each in found.items())
        return MappingProxyType({name: entry for name, entry in entries if entry is not None})

    def _entry(self, found: Found | None, before: Entry | None, key: Key) -> Entry | None:
        if found is None:
            return None
        generation = before.generation if before else 0
        # (path, "") covers the whole path: a parent that was replaced concerns every entry below it.
        replaced = self._all_replaced or key in self._replaced or (key[0], "") in self._replaced
        if replaced or before is None or _identity(before) != _identity(found):
            self._generation += 1
            generation = self._generation
        return Entry(found.kind, found.device, found.inode, found.birth_ns, found.target, generation)


def _identity(entry: Entry | Found) -> tuple[object, ...]:
    return (entry.kind, entry.device, entry.inode, entry.birth_ns, entry.target)
