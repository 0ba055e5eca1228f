"""Whether somebody else serves our resource, and who.

A kubelet takes a second registration of a name without a word: from then on the newer plugin is asked, and the list is
whoever's message came last, for the older one's stream stays open (1.36, 1.37). In 1.36 the end of either stream also
drops whichever plugin is registered by then. So Dray looks before it registers, and again after a stranger's socket
came; it does not take a resource that another serves, and keeps still when its own was taken.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from pathlib import Path

from dray.deviceplugin.directory import PluginDirectory
from dray.deviceplugin.held import LIMITS, by_resource
from dray.errors import Error
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log
from dray.runtime.tasks import wait_first
from dray.wire.connect import connect
from dray.wire.gen.podresources_v1_pb2 import AllocatableResourcesRequest
from dray.wire.neighbour import Neighbour, who_listens
from dray.wire.podresources import SOCKET, PodResourcesClient

_log = get_log("deviceplugin")

ASK_SECONDS = 0.5
"""How long a kubelet may think before we go on without its answer: registering comes first."""
_FIRST_PAUSE = 0.05
_NAMED = 5


class Standing(Enum):
    """Whose list the kubelet has for a resource that it accepted from us."""

    UNKNOWN = 0
    OURS = 1
    LOST = 2
    """Nobody's: it dropped the resource, and our stream does not tell."""
    TAKEN = 3


def is_taken(healthy: frozenset[str], ours: frozenset[str], neighbours: Sequence[Neighbour]) -> bool:
    """Whether somebody else serves what the kubelet has while we are not registered.

    Our own ids, and nobody there who could serve them: it is our own past that the kubelet has not given up yet.
    """
    return bool(healthy) and (bool(neighbours) or not healthy <= ours)


def standing(
    healthy: frozenset[str], told: frozenset[str], ours: frozenset[str], neighbours: Sequence[Neighbour]
) -> Standing:
    """What to think of `healthy` when we last `told` the kubelet something. One with our own ids cannot be told apart."""
    if healthy == told:
        return Standing.OURS
    if not healthy:
        return Standing.LOST
    return Standing.TAKEN if is_taken(healthy, ours, neighbours) else Standing.OURS


def reason(resource: str, healthy: Collection[str], neighbours: Sequence[Neighbour]) -> str:
    """One line that names the resource, what the kubelet has of it, and who it may be."""
    telling = [one for one in neighbours if _plain(resource.rpartition("/")[2]) in _plain(one.socket)]
    if telling:
        who = "most likely " + " or ".join(map(_at, telling[:_NAMED]))
    elif neighbours:
        more = f" and {len(neighbours) - _NAMED} more" if len(neighbours) > _NAMED else ""
        who = "one of " + ", ".join(map(_at, neighbours[:_NAMED])) + more
    else:
        who = "none that listens in the plugin directory"
    count = "1 healthy device" if len(healthy) == 1 else f"{len(healthy)} healthy devices"
    return (
        f"{resource} is served by another plugin, {who}: the kubelet has {count} of it; "
        "stop that plugin or take the resource out of the config"
    )


def _at(neighbour: Neighbour) -> str:
    return f"{neighbour} on {neighbour.socket}"


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


class KubeletView:
    """What the kubelet has, asked over its pod-resources socket. Those who ask at once share one call: it limits them."""

    def __init__(self, kubelet_dir: Path, timeout: float = ASK_SECONDS) -> None:
        self._socket = kubelet_dir / SOCKET
        self._timeout = timeout
        self._asked: asyncio.Future[Mapping[str, frozenset[str]] | None] | None = None
        self._complained = False

    async def healthy(self) -> Mapping[str, frozenset[str]] | None:
        """The healthy ids of each resource, held or not; None where it does not say in time."""
        while (asked := self._asked) is not None:
            await asyncio.wait({asked})
            if not asked.cancelled():
                return asked.result()
        self._asked = asked = asyncio.get_running_loop().create_future()
        try:
            answer = await self._ask()
            asked.set_result(answer)
            return answer
        finally:
            self._asked = None
            asked.cancel()  # nothing happens to one that has its result

    async def _ask(self) -> Mapping[str, frozenset[str]] | None:
        try:
            async with (
                asyncio.timeout(self._timeout),
                connect(self._socket, timeout=self._timeout, limits=LIMITS) as channel,
            ):
                answer = await PodResourcesClient(channel).get_allocatable_resources(
                    AllocatableResourcesRequest()
                )
        except (Error, TimeoutError) as error:
            if not self._complained:
                self._complained = True
                _log.debug("the kubelet does not tell who serves what", path=self._socket, error=str(error))
            return None
        return by_resource(answer.devices)


class Rivals:
    """Looks out for other plugins with our resources; one for all plugins of the process."""

    def __init__(
        self,
        kubelet: KubeletView,
        directory: PluginDirectory,
        own_sockets: Callable[[], Collection[str]],
        clock: Clock,
    ) -> None:
        self._kubelet = kubelet
        self._directory = directory
        self._own_sockets = own_sockets
        self._clock = clock

    def strangers(self) -> frozenset[tuple[str, int]]:
        """The sockets of others in the directory now; a replaced one is another."""
        own = self._own_sockets()
        return frozenset(one for one in self._directory.plugin_sockets() if one[0] not in own)

    async def wait_strangers(self, known: frozenset[tuple[str, int]]) -> None:
        """Return when the sockets of others differ from `known`."""
        await self._directory.wait_until(lambda: self.strangers() != known)

    async def find(self, resource: str, ours: frozenset[str], patience: float) -> str:
        """Why not to register `resource` now, "" if nothing speaks against it.

        For `patience` seconds the kubelet may still have what it got before: from us, killed a moment ago, or from a
        plugin that is just leaving.
        """
        end, pause = self._clock.monotonic() + patience, _FIRST_PAUSE
        while healthy := (await self._kubelet.healthy() or {}).get(resource):
            if self._clock.monotonic() >= end:
                neighbours = await self._neighbours()
                return reason(resource, healthy, neighbours) if is_taken(healthy, ours, neighbours) else ""
            await self._clock.sleep(pause)
            pause *= 2
        return ""

    async def look(
        self, resource: str, told: Callable[[], frozenset[str]], ours: frozenset[str], settle: float
    ) -> tuple[Standing, str]:
        """Whose list the kubelet has, and the reason where it is not ours.

        It counts only if two looks `settle` seconds apart agree and we told nothing in between: a kubelet may be behind.
        """
        before = told()
        first = await self._look_once(resource, before, ours)
        if first[0] in (Standing.OURS, Standing.UNKNOWN):
            return first
        await self._clock.sleep(settle)
        second = await self._look_once(resource, before, ours)
        return second if second[0] is first[0] and told() == before else (Standing.UNKNOWN, "")

    async def _look_once(
        self, resource: str, told: frozenset[str], ours: frozenset[str]
    ) -> tuple[Standing, str]:
        answer = await self._kubelet.healthy()
        if answer is None:
            return Standing.UNKNOWN, ""
        healthy = answer.get(resource, frozenset())
        neighbours = () if healthy == told else await self._neighbours()
        found = standing(healthy, told, ours, neighbours)
        return found, reason(resource, healthy, neighbours) if found is Standing.TAKEN else ""

    async def _neighbours(self) -> tuple[Neighbour, ...]:
        """Who listens beside us. Our own process is nobody's rival."""
        found = [await who_listens(self._directory.path / name) for name, _ in sorted(self.strangers())]
        return tuple(one for one in found if one is not None and one.pid != os.getpid())


class LookOut:
    """When to look: soon after registering and after a stranger's socket came or went, then ever less often."""

    def __init__(self, rivals: Rivals, clock: Clock, intervals: tuple[float, ...]) -> None:
        self._rivals = rivals
        self._clock = clock
        self._intervals = intervals
        self._known = rivals.strangers()
        self._looks = 0

    async def wait(self) -> None:
        """Return when it is time. A plugin may register long after it made its socket, so one look is not enough."""
        interval = self._intervals[min(self._looks, len(self._intervals) - 1)]
        await wait_first(self._clock.sleep(interval), self._rivals.wait_strangers(self._known))
        self._looks += 1
        if (now := self._rivals.strangers()) != self._known:
            self._known, self._looks = now, 1
            await self._clock.sleep(self._intervals[0])
