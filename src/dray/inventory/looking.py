"""Looks at the machine whenever something happens to it, and keeps the feed true.

Three things call for a look: a watched file that comes or goes, a notice of the kernel about a device, and time. A node
that vanished is told before the full look, which takes longer the more devices there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from dray.api.resource.slice import CounterSet
from dray.drivers.contract import Device, Discovery, Driver, Problem
from dray.drivers.health import worsened
from dray.errors import Error, UnavailableError
from dray.hardware.host_root import HostRoot
from dray.hardware.sweep import Sweep
from dray.hardware.uevents import Uevents
from dray.inventory.former import formers, held_back
from dray.inventory.inventory import InventoryFeed
from dray.inventory.remembered import RememberedDevices
from dray.inventory.story import tell_changes, tell_problems
from dray.runtime.clock import Clock
from dray.runtime.files.filewatch import FileWatch
from dray.runtime.logs import get_log
from dray.runtime.tasks import wait_first
from dray.runtime.threads import Threads

_log = get_log("inventory")
_SHORTEST = 0.01
LOOK_SECONDS = 30.0
"""A look takes milliseconds; one that takes longer is stuck in the kernel, and the last one counts."""

FORMER_SECONDS = 5.0
"""How often the kubelet is asked whether a device that has another name now is still held under the old one."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds. `rest`: between looks when nothing happens; `settle`: after an event one more look, since what the kernel
    told first may not be all; `blind`: between looks where no events can be had."""

    rest: float = 300.0
    settle: float = 1.0
    blind: float = 2.0


@dataclass(frozen=True, slots=True)
class _Watched:
    paths: tuple[Path, ...] = ()
    directories: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class _Round:
    """What all drivers found in one look."""

    devices: tuple[Device, ...]
    problems: tuple[Problem, ...]
    watched: _Watched
    again_in: float | None
    counters: Mapping[str, tuple[CounterSet, ...]] = field(default_factory=dict)


class Lookout:
    """Owns the looks: one task runs `run`, any may call `set_drivers` and `wake`.

    `after_look` is called after every look with the devices found. `known` devices come from `remembered` after a restart.
    """

    def __init__(
        self,
        root: HostRoot,
        feed: InventoryFeed,
        clock: Clock,
        *,
        remembered: RememberedDevices | None = None,
        after_look: Callable[[Sequence[Device]], Awaitable[None]] | None = None,
        still_held: Callable[[Sequence[Device]], Awaitable[Collection[Device]]] | None = None,
        threads: Threads | None = None,
        pace: Pace | None = None,
    ) -> None:
        self._root = root
        self._feed = feed
        self._clock = clock
        self._remembered = remembered
        self._after_look = after_look
        self._still_held = still_held
        self.former: tuple[Device, ...] = remembered.former if remembered else ()
        """What containers still hold under names that the devices do not have any more."""
        self._threads = threads or Threads()
        self._pace = pace or Pace()
        self._drivers: tuple[Driver, ...] = ()
        self._woken = asyncio.Event()
        self._looked = asyncio.Event()
        self._problems: frozenset[Problem] = frozenset()
        self._known: tuple[Device, ...] = remembered.devices if remembered else ()
        self.looks = 0
        """How many full looks there were."""
        self.seconds = 0.0
        """How long they took in all."""

    def set_drivers(self, drivers: Sequence[Driver]) -> None:
        """Look through these from now on, and at once."""
        self._drivers = tuple(drivers)
        self._looked.clear()
        self.wake()

    def wake(self) -> None:
        """Look again soon: something may have changed."""
        self._woken.set()

    async def wait_looked(self) -> None:
        """Until the newest drivers have looked once."""
        await self._looked.wait()

    async def run(self) -> NoReturn:
        """Until cancelled."""
        watched = _Watched()
        with self._notices() as has_notices:
            while True:
                poll = self._pace.rest if has_notices else self._pace.blind
                watched = await self._watch(watched, poll)

    async def _watch(self, watched: _Watched, poll: float) -> _Watched:
        """Look as long as these are the files to watch; gives the next ones, which are watched before the next look."""
        async with FileWatch(
            watched.paths,
            directories=watched.directories,
            follow=True,
            root=self._root.path,
            poll_interval=poll,
        ) as watch:
            if watch.polling_because:
                _log.warning("looking without events", error=watch.polling_because)
                poll = self._pace.blind
            pause = min(poll, self._pace.settle)
            while True:
                self._woken.clear()
                before = watch.snapshot
                found = await self._look_watching(watch, watched)
                if found.watched != watched:
                    return found.watched
                if watch.snapshot is not before:  # the look may have missed it
                    await self._clock.sleep(_SHORTEST)
                    continue
                happened = await self._wait(watch, min(pause, max(found.again_in or pause, _SHORTEST)))
                pause = min(poll, self._pace.settle) if happened else poll

    async def _wait(self, watch: FileWatch, seconds: float) -> bool:
        """Until something happens, or time is up; whether it did. What vanished is told at once."""
        before = watch.snapshot
        await wait_first(watch.wait_changed(), self._woken.wait(), self._clock.sleep(seconds))
        if watch.snapshot is not before and self._tell_gone(watch):
            # The look runs in a thread and would hold up the streams, which tell of it now.
            await self._clock.sleep(_SHORTEST)
        return watch.snapshot is not before or self._woken.is_set()

    def _tell_gone(self, watch: FileWatch) -> bool:
        """Tell of what vanished, before the full look does; whether there is any."""
        gone = _gone(watch)
        if gone:
            self._publish(self._worsened(self._feed.current.devices, gone))
        return bool(gone)

    def _worsened(self, devices: Sequence[Device], gone: Set[str]) -> list[Device]:
        with self._root.sweep() as sweep:
            return [
                worsened(sweep, device) if not gone.isdisjoint(device.watch) else device for device in devices
            ]

    async def _look_watching(self, watch: FileWatch, watched: _Watched) -> _Round:
        """A full look; what vanishes meanwhile is told at once all the same."""
        found: list[_Round] = []

        async def look() -> None:
            found.append(await self._look(watched, watch))

        async def tell() -> NoReturn:
            while True:
                await watch.wait_changed()
                self._tell_gone(watch)

        await wait_first(look(), tell())
        return found[0]

    async def _look(self, watched: _Watched, watch: FileWatch) -> _Round:
        """One full look. Where it fails as a whole, all stays as it was, and it is tried again."""
        try:
            return await self._look_once(watch)
        except Error as error:
            self._problems = tell_problems(self._problems, [Problem(str(self._root.path), str(error))])
            return _Round(self._known, (), watched, self._pace.blind)

    async def _look_once(self, watch: FileWatch) -> _Round:
        drivers, started = self._drivers, self._clock.monotonic()
        found = await self._threads.run(
            lambda: look(self._root, drivers, self._known),
            doing="look at the machine",
            seconds=LOOK_SECONDS,
            alone_on=("look",),
        )
        self.looks += 1
        self.seconds += self._clock.monotonic() - started
        self._problems = tell_problems(self._problems, found.problems)
        found = await self._hold_back(found)
        self._known = found.devices
        self._publish(self._worsened(found.devices, _gone(watch)), found.counters)
        if self._remembered:
            remembered = self._remembered
            await self._threads.run(
                lambda: remembered.save(found.devices, self.former),
                doing="remember the devices",
                seconds=LOOK_SECONDS,
                alone_on=("remember",),
            )
        if drivers is self._drivers:
            self._looked.set()
        if self._after_look:
            await self._after_look(found.devices)
        return found

    async def _hold_back(self, found: _Round) -> _Round:
        """What a container has under a former name is not offered under the new one until it is given back."""
        if self._still_held is None:
            return found
        self.former = formers(self.former, self._known, found.devices)
        if not self.former:
            return found
        self.former = tuple(await self._still_held(self.former))
        again_in = min(found.again_in or FORMER_SECONDS, FORMER_SECONDS) if self.former else found.again_in
        return replace(found, devices=held_back(found.devices, self.former), again_in=again_in)

    def _publish(
        self, devices: Sequence[Device], counters: Mapping[str, tuple[CounterSet, ...]] | None = None
    ) -> None:
        before = self._feed.current
        after = self._feed.publish((device for device in devices if device.resource or device.name), counters)
        if after is not before:
            tell_changes(before.devices, after.devices)

    @contextmanager
    def _notices(self) -> Iterator[bool]:
        """The kernel's notices wake us, while entered; whether there are any."""
        loop = asyncio.get_running_loop()
        try:
            uevents = Uevents()
        except UnavailableError as error:
            _log.warning("looking without the kernel's notices", error=str(error))
            yield False
            return

        def take() -> None:
            if uevents.drain():
                self.wake()

        with uevents:
            loop.add_reader(uevents, take)
            try:
                yield True
            finally:
                loop.remove_reader(uevents)


def _gone(watch: FileWatch) -> frozenset[str]:
    return frozenset(str(path) for path, entry in watch.snapshot.paths.items() if entry is None)


def look(root: HostRoot, drivers: Sequence[Driver], known: Sequence[Device]) -> _Round:
    """One look through every driver. One that fails keeps the devices it had, and the others are not disturbed."""
    with root.sweep() as sweep:
        looks = [_look_through(driver, sweep, known) for driver in drivers]
    devices = tuple(device for one in looks for device in one.devices)
    directories = sorted({Path(path) for one in looks for path in one.watch})
    counters: dict[str, tuple[CounterSet, ...]] = {}
    for driver, one in zip(drivers, looks, strict=True):
        if one.counters:
            counters[driver.kind] = (*counters.get(driver.kind, ()), *one.counters)
    return _Round(
        devices,
        tuple(dict.fromkeys(problem for one in looks for problem in one.problems)),
        _Watched(
            tuple(sorted({Path(path) for device in devices for path in device.watch})), tuple(directories)
        ),
        min((one.again_in for one in looks if one.again_in is not None), default=None),
        counters,
    )


def _look_through(driver: Driver, sweep: Sweep, known: Sequence[Device]) -> Discovery:
    mine = [device for device in known if device.kind == driver.kind]
    try:
        return driver.discover(sweep, mine)
    except Error as error:
        watch = {path.rpartition("/")[0] for device in mine for path in device.watch}
        return Discovery(
            tuple(mine), (Problem(driver.kind, str(error)),), (), tuple(sorted(watch)), again_in=1.0
        )
