"""Who holds which device through which door, on disk: a device held through one is never given through the other.

`ledger.py` has the rules. Here a hold is durable before anybody is answered for it, and those who show devices
(`doors.py`) are told of every change.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, Protocol

from dray.drivers.contract import Device
from dray.errors import ConflictError, Error, UnavailableError
from dray.inventory.holds_file import Content, HoldsFile
from dray.inventory.knowledge import Knowledge
from dray.inventory.ledger import ClaimDevices, Door, Hold, Key, KubeletLook, Ledger, Way
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.tasks import wait_first
from dray.runtime.threads import Threads

_log = get_log("inventory")
_SETTLE: Final = 0.2
"""Seconds. What nobody waits for is written together."""
_RETRY: Final = 10.0
_AGAIN: Final = 0.1


class Claim(Protocol):
    """How the kubelet names a claim (`dra.parcels.ClaimRef`)."""

    @property
    def namespace(self) -> str:
        """Where it is."""
        ...

    @property
    def name(self) -> str:
        """Another claim may have it by now."""
        ...

    @property
    def uid(self) -> str:
        """What counts."""
        ...


@dataclass(frozen=True, slots=True)
class Held:
    """All holds at one moment, sorted. `generation` grows by one with every difference."""

    generation: int = 0
    holds: tuple[Hold, ...] = ()

    def has(self, device: Device, door: Door | None = None) -> bool:
        """Whether somebody has it, under this name or another, through this door or any: it must not be taken away."""
        return any(hold.covers(device) and door in (None, hold.door) for hold in self.holds)

    def kinds(self, door: Door) -> frozenset[str]:
        """Of which kinds something is held through the door: it must be served until that is given back."""
        return frozenset(hold.kind for hold in self.holds if hold.door is door)


class Holds:
    """The ledger of a machine, one for all kinds. Entered = loaded, and no other process writes it; one event loop.

    On a first start claims get nothing before the kubelet was asked what plugins gave away. A file that cannot be used is
    set aside and told: then nobody gets what two doors offer before the kubelet has surely told of all containers.
    Errors on entering: ConflictError (another process has the file), DeniedError. With `takes_over` the other one is
    waited for while `run` runs: it is our predecessor in a rolling update. Until it has ended, what two doors offer is
    given to nobody here; calls for it wait.
    """

    def __init__(
        self, path: Path, clock: Clock, threads: Threads | None = None, *, takes_over: bool = False
    ) -> None:
        self._file = HoldsFile(path, clock, threads or Threads())
        self._clock = clock
        self._ledger = Ledger()
        self._current = Held()
        self._changed = asyncio.Event()
        self._ways: Mapping[str, frozenset[Way]] | None = None
        self._known = Knowledge(clock)
        self._takes_over = takes_over

    def __enter__(self) -> Holds:
        try:
            loaded = self._file.open()
        except ConflictError as error:
            if not self._takes_over:
                raise
            _log.info("waiting for the end of the process before us", error=str(error))
            return self
        self._known.begin(loaded)
        self._ledger = Ledger(loaded.data.holds if loaded.data else (), self._clock.monotonic())
        self._publish()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._file.close()

    @property
    def current(self) -> Held:
        """The newest state."""
        return self._current

    @property
    def is_ours(self) -> bool:
        """Whether no other process has the ledger; it may in a rolling update."""
        return self._known.is_ours

    @property
    def is_waiting(self) -> bool:
        """Whether the kubelet should be asked soon: something was given, or is not listed any more, or little is known."""
        unsettled = self._ledger.unsettled()
        return not self._known.is_complete or any(
            self._is_contested(one.door, one.kind, one.parts) for one in unsettled
        )

    @property
    def needs_notes(self) -> bool:
        """Whether the kubelet's own notes tell more than its list: something was never listed, or all is forgotten."""
        return self._known.is_lost or bool(self._ledger.unsettled())

    @property
    def is_lent(self) -> bool:
        """Whether a pod has something through a plugin that could be given in another way too."""
        lent = [hold for hold in self._current.holds if hold.door is Door.PLUGIN]
        return any(self._is_contested(one.door, one.kind, one.parts) for one in lent)

    async def wait_ours(self) -> None:
        """Return when no other process has the ledger: at once but in a rolling update."""
        while not self._known.is_ours:
            await self._changed.wait()

    async def wait_newer(self, generation: int) -> Held:
        """The newest state as soon as it is newer than `generation`."""
        while self._current.generation <= generation:
            await self._changed.wait()
        return self._current

    def contest(self, ways: Mapping[str, frozenset[Way]] | None) -> None:
        """How each part of the machine can be given away now; None, as in the beginning: in every way.

        Only for what somebody else could give away too does a caller wait for the disk, and is the kubelet asked often.
        """
        if ways != self._ways:
            self._ways = ways
            self._tell_changed()

    @asynccontextmanager
    async def giving(self, resource: str, devices: Collection[Device]) -> AsyncIterator[None]:
        """Around an Allocate. Entered: on disk. ConflictError names the claim that has one.

        Left by an error, of the disk too, nothing is held that was not before. Else, and where the caller gave up, the
        kubelet is expected to tell of it.
        """
        is_contested = any(self._is_contested(Door.PLUGIN, one.kind, one.parts) for one in devices)
        if is_contested and (self._known.is_lost or not self._known.is_ours):
            await self._wait_known(is_contested=True)
        before = {hold.key: hold for hold in self._ledger.holds}
        taken = self._ledger.take_plugin(resource, devices, self._now())
        try:
            with self._undoing(taken, before):
                await self._keep(taken)
                yield
        finally:
            self._ledger.answered(taken, self._clock.monotonic())

    async def take_plugin(self, resource: str, devices: Collection[Device]) -> None:
        """`giving` where nothing else is to be done."""
        async with self.giving(resource, devices):
            pass

    def claim_door(self, kind: str) -> ClaimHolds:
        """The door for the claims of one driver."""
        return ClaimHolds(self, kind)

    async def take_claim(self, claim: ClaimDevices) -> None:
        """See `ClaimHolds.take`."""
        is_contested = any(self._is_contested(Door.DRA, one.kind, one.parts) for one in claim.devices)
        await self._wait_known(is_contested=is_contested)
        before = {hold.key: hold for hold in self._ledger.holds}
        taken = self._ledger.take_claim(claim, self._now())
        with self._undoing(taken, before):
            await self._keep(taken)

    def give_back_claim(self, kind: str, claim: Claim) -> None:
        """See `ClaimHolds.give_back`. Written soon: whoever restores after a kill has the claim no more."""
        self._ledger.give_back(kind, claim.uid)
        self._publish()

    def restore_claim(self, claim: ClaimDevices) -> None:
        """See `ClaimHolds.restore`."""
        self._tell_both(self._ledger.restore(claim, self._now()))
        self._publish()

    def allocated(self, claims: Collection[ClaimDevices]) -> None:
        """Call with all claims that have devices here, at first and after every change. Where nobody follows claims,
        call it once with none: until then a claim that was given back may still be allocated, and keeps its devices.
        """
        self._ledger.allocated(claims, self._now())
        self._publish()

    def looked(self, look: KubeletLook, devices: Iterable[Device]) -> None:
        """Call with each answer of the kubelet, and never where it did not answer. `devices`: see `Ledger.looked`."""
        added = self._ledger.looked(look, devices, self._now(), is_lost=self._known.is_lost)
        if self._known.hear(look.at):
            self._tell_changed()
        for hold in added:
            _log.info("device is held", resource=hold.resource, id=hold.device, holder=hold.holder)
        self._tell_both(added)
        self._publish()

    def lacks_socket(self, socket: Path | None) -> None:
        """Call before each look: the kubelet's socket, where there is none, so that nobody waits long for its answer."""
        if socket == self._known.missing:
            return
        self._known.missing = socket
        self._tell_changed()
        what = "the kubelet has no pod-resources socket here, and is not asked who holds what"
        if socket is not None and self._has_plugins:
            _log.warning(what, socket=str(socket), fix="mount its directory into the agent")
        elif socket is not None:
            _log.info(
                what, socket=str(socket), why="it need not be: plugins give no device to one holder alone"
            )

    async def run(self) -> NoReturn:
        """Write what nobody waits for, until cancelled. A full disk is told once, and tried again."""
        await self._take_over()
        is_told = False
        while True:
            generation = self._current.generation
            while not self._file.is_written(self._content()):
                await self._clock.sleep(_SETTLE)
                try:
                    await self._file.write(self._content)
                    is_told = False
                except Error as error:
                    if not is_told:
                        _log.warning("who holds what is not on disk", error=str(error))
                    is_told = True
                    await self._clock.sleep(_RETRY)
            await self.wait_newer(generation)

    @contextmanager
    def _undoing(self, taken: tuple[Hold, ...], before: dict[Key, Hold]) -> Iterator[None]:
        """An error inside takes these back."""
        try:
            yield
        except Error:
            self._ledger.undo(taken, before)
            self._publish()
            raise

    async def _keep(self, taken: tuple[Hold, ...]) -> None:
        """Until these are on disk. A claim that was noted as allocated is there already."""
        self._publish()
        waiting = [hold for hold in taken if self._is_contested(hold.door, hold.kind, hold.parts)]
        while not all(map(self._is_on_disk, waiting)):
            await self._file.write(self._content)
        if not all(map(self._is_held, taken)):
            raise UnavailableError("it took so long to note the holder that it is gone: ask again")

    async def _wait_known(self, *, is_contested: bool) -> None:
        begun = self._clock.monotonic()
        while True:
            has_plugins = self._known.is_complete or self._has_plugins
            why, seconds = self._known.why_wait(is_contested=is_contested, has_plugins=has_plugins)
            if not why:
                return
            rest = begun + seconds - self._clock.monotonic()
            if rest <= 0:
                raise UnavailableError(why, retry_after=1.0)
            await wait_first(self.wait_newer(self._current.generation), self._clock.sleep(rest))

    @property
    def _has_plugins(self) -> bool:
        """Whether pods have, or can get, anything through plugins that one holder has alone."""
        return (
            self._ways is None
            or any(hold.door is Door.PLUGIN for hold in self._ledger.holds)
            or any(door is Door.PLUGIN for found in self._ways.values() for door, _ in found)
        )

    async def _take_over(self) -> None:
        """Wait for the end of the process before us, and go on with what it gave to pods.

        Its claims are in the drivers' own notes.
        """
        while not self._known.is_ours:
            try:
                loaded = self._file.open()
            except ConflictError:
                await self._clock.sleep(_AGAIN)
                continue
            self._known.begin(loaded)
            self._ledger.adopt(loaded.data.holds if loaded.data else (), self._clock.monotonic())
            self._tell_changed()
            _log.info("the process before us has ended")

    def _content(self) -> Content:
        return Content(self._current.holds, self._known.is_complete)

    def _is_contested(self, door: Door, kind: str, parts: Iterable[str]) -> bool:
        """Whether there is another way to give this hardware away."""
        if self._ways is None:
            return True
        own = frozenset([(door, kind)])
        return any(self._ways.get(part, own) - own for part in parts)

    def _is_on_disk(self, hold: Hold) -> bool:
        now = self._ledger.get(hold.key)
        return now is None or self._file.has(now)

    def _is_held(self, hold: Hold) -> bool:
        now = self._ledger.get(hold.key)
        return now is not None and (now.confirmed or hold.door is Door.PLUGIN)

    def _publish(self) -> None:
        holds = self._ledger.holds
        for gone in sorted(
            {hold.key: hold for hold in self._current.holds}.keys() - {one.key for one in holds}
        ):
            door, kind, device, _ = gone
            _log.info("device is given back", door=door, kind=kind, id=device)
        if holds != self._current.holds:
            self._tell_changed()

    def _tell_changed(self) -> None:
        self._current = Held(self._current.generation + 1, self._ledger.holds)
        self._changed.set()
        self._changed = asyncio.Event()

    def _tell_both(self, added: Iterable[Hold]) -> None:
        """After lost state the truth may be that two have it already; nobody else gets it then."""
        for hold in added:
            for other in self._ledger.holds:
                both = hold.door is not other.door and hold.confirmed and other.confirmed
                if both and not set(hold.parts).isdisjoint(other.parts):
                    _log.error("device has two holders", id=hold.device, one=hold.holder, other=other.holder)

    def _now(self) -> float:
        return self._clock.now().timestamp()


@dataclass(frozen=True, slots=True)
class ClaimHolds:
    """The ledger as the driver of one kind sees it (`dra.parcels.ClaimDoor`). Devices with adminAccess are left out."""

    holds: Holds
    kind: str

    async def take(self, claim: Claim, devices: Collection[Device]) -> None:
        """Call before a claim gets these. ConflictError names who has one; twice the same is fine.

        Where somebody else could give one away too, it is on disk when it returns, at least as allocated. Who was killed
        right after it calls `restore`.
        """
        await self.holds.take_claim(ClaimDevices(claim.namespace, claim.name, claim.uid, tuple(devices)))

    def restore(self, claim: Claim, devices: Collection[Device]) -> None:
        """Call at start for one that is prepared with these, as the driver's own notes say. Nobody is asked: a pod that is
        noted for one may have ended before the claim got it. Where both have it, that is told.
        """
        self.holds.restore_claim(ClaimDevices(claim.namespace, claim.name, claim.uid, tuple(devices)))

    async def give_back(self, claim: Claim) -> None:
        """Call when the claim has nothing of this driver any more; also for one that is not known here."""
        self.holds.give_back_claim(self.kind, claim)
