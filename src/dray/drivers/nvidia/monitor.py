"""NVML between two looks: it stays open, since errors are reported only to who listens."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from dray.drivers.nvidia.config import NvidiaConfig, NvidiaHealth
from dray.drivers.nvidia.health import Health, Illness, still_ill, with_event
from dray.drivers.nvidia.patience import Patience
from dray.errors import UnavailableError
from dray.hardware.facts import Problem, showable
from dray.hardware.host_root import HostRoot, Place
from dray.hardware.nvml.codes import Code, NvmlError
from dray.hardware.nvml.facts import Gpu, Gpus, MigProfile
from dray.hardware.nvml.protocol import EVENTS, XID, Events, Nvml, OpenNvml
from dray.hardware.nvml.reading import read_gpus
from dray.hardware.nvml.session import open_nvml
from dray.runtime.clock import Clock

PATIENCE: Final = 5.0
"""Seconds that a look waits for NVML. Other kinds wait for it too."""
_MOST_EVENTS: Final = 1000
"""Taken in one look; what is left comes in the next."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look found."""

    gpus: Gpus
    health: Health
    problems: tuple[Problem, ...] = ()


class Monitor:
    """Owns the session. Used by one thread at a time; it outlives a change of the config, so that no error is missed."""

    def __init__(
        self, clock: Clock, open_session: OpenNvml = open_nvml, *, patience: float = PATIENCE
    ) -> None:
        self._clock = clock
        self._open_session = open_session
        self._stack = ExitStack()
        self._nvml: Nvml | None = None
        self._events: Events | None = None
        self._heard: dict[str, bool] = {}
        self._profiles: dict[str, tuple[MigProfile, ...]] = {}
        self._illnesses: tuple[Illness, ...] = ()
        self._cards: frozenset[str] | None = None
        self._patience: Patience[Seen] = Patience(patience)
        self._waits_since: float | None = None

    def close(self) -> None:
        """Let the library go. The next look opens it again."""
        self._stack.close()
        self._nvml = self._events = None
        self._heard.clear()

    def look(self, root: Place, config: NvidiaConfig) -> Seen | None:
        """Cards and their health now; None while NVML does not answer (`waiting` tells how long).

        UnavailableError where there is no driver; the next look tries again.
        """
        place = HostRoot(root.path)  # the call may outlast the caller's sweep
        since, self._waits_since = self._waits_since, None
        started = self._clock.monotonic() if since is None else since
        seen = self._patience.run(lambda: self._look(place, config))
        if seen is None:
            self._waits_since = started
        return seen

    @property
    def waiting(self) -> float:
        """Seconds since the question that NVML did not answer yet."""
        return 0.0 if self._waits_since is None else self._clock.monotonic() - self._waits_since

    def _look(self, root: Place, config: NvidiaConfig) -> Seen:
        if self._nvml is None:
            self._nvml = self._stack.enter_context(self._open_session(root))
        try:
            gpus = read_gpus(self._nvml, self._profiles)
        except NvmlError as error:  # about no single card: the driver was removed or exchanged
            self.close()
            raise UnavailableError(str(error)) from error
        seen = self._judge(self._nvml, gpus, config)
        cards = frozenset(gpu.uuid for gpu in gpus.items)
        if config.pass_through or gpus.lost or (self._cards is not None and cards != self._cards):
            self.close()  # the library sees a card that comes back only once it is opened anew
        self._cards = cards
        return seen

    def _judge(self, nvml: Nvml, gpus: Gpus, config: NvidiaConfig) -> Seen:
        problems: list[Problem] = []
        by_uuid = {gpu.uuid: gpu for gpu in gpus.items}
        if config.listens:
            self._listen(nvml, by_uuid, problems)
            self._take_events(config.health, problems)
        actions = {uuid: _action(nvml, uuid, problems) for uuid in by_uuid}
        now = self._clock.monotonic()
        self._illnesses = still_ill(self._illnesses, by_uuid, actions, now, config.health)
        wanted = by_uuid if config.listens else {}
        unmonitored = frozenset(uuid for uuid in wanted if not self._heard.get(uuid))
        return Seen(gpus, Health(self._illnesses, actions, unmonitored), tuple(problems))

    def _listen(self, nvml: Nvml, gpus: Mapping[str, Gpu], problems: list[Problem]) -> None:
        """To every card that is new. One that was away is listened to anew."""
        self._heard = {uuid: is_heard for uuid, is_heard in self._heard.items() if uuid in gpus}
        for uuid, gpu in sorted(gpus.items()):
            if uuid not in self._heard:
                self._heard[uuid] = self._add(nvml, gpu, problems)

    def _add(self, nvml: Nvml, gpu: Gpu, problems: list[Problem]) -> bool:
        if not gpu.supported_events & XID:
            return False
        try:
            if self._events is None:
                self._events = nvml.events()
            self._events.add(nvml.handle_of(gpu.uuid), gpu.supported_events & EVENTS)
        except NvmlError as error:
            if error.code is not Code.NOT_SUPPORTED:
                problems.append(
                    Problem(gpu.uuid, showable(f"errors of {gpu.uuid} are not listened for: {error}"))
                )
            return False
        return True

    def _take_events(self, config: NvidiaHealth, problems: list[Problem]) -> None:
        for _ in range(_MOST_EVENTS if self._events else 0):
            try:
                event = self._events.next(0.0) if self._events else None
            except NvmlError as error:
                problems.append(Problem("NVML", showable(f"{error}; it is tried anew")))
                self._listen_anew()
                return
            if event is None:
                return
            self._illnesses = with_event(self._illnesses, event, self._clock.monotonic(), config)

    def _listen_anew(self) -> None:
        if self._events is not None:
            self._events.close()
        self._events = None
        self._heard.clear()


def _action(nvml: Nvml, uuid: str, problems: list[Problem]) -> int | None:
    try:
        return nvml.recovery_action(nvml.handle_of(uuid))
    except NvmlError as error:
        problems.append(Problem(uuid, showable(str(error))))
        return None
