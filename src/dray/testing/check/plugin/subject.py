"""The device plugin that is checked: a live socket, or a process with a kubelet that is played to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dray.testing.check.plugin.played_kubelet import LARGE, PlayedKubelet, Served
from dray.testing.check.program import Program, Room, wait_until
from dray.testing.check.rules import Outcome, Unready, as_outcome, together
from dray.testing.check.subject import ProgramSubject
from dray.wire.connect import connect
from dray.wire.deviceplugin import HEALTHY, DevicePluginClient
from dray.wire.gen.deviceplugin_v1beta1_pb2 import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateRequest,
    Device,
    DevicePluginOptions,
    Empty,
)


@dataclass(frozen=True, slots=True)
class Private:
    """What there is where the plugin was started by us."""

    room: Room
    program: Program
    kubelet: PlayedKubelet


@dataclass(kw_only=True)
class PluginSubject(ProgramSubject[Private]):
    """One program, which may serve several resources."""

    word = "{device-plugin-dir}"

    live: Served | None = None
    known: set[str] = field(default_factory=set)
    """The resources that registered at first: all of them must come back."""

    async def wait_ready(self) -> str:
        """Registered, by a process that runs."""
        if self.private is None:
            return ""
        if self.private.program.is_running and not await self.wait_registered():
            return ""
        # It is dead, or does not come back: a new one, as somebody would start it who cannot wait.
        await self.private.program.kill()
        await self.private.kubelet.stop()
        await self.private.kubelet.start()
        await self.private.program.start()
        return await self.wait_registered()

    async def wait_registered(self) -> str:
        """Nothing when all that are known have registered since the kubelet started; else what is missing."""
        kubelet, program = self.own.kubelet, self.own.program

        def settled() -> bool:
            here = bool(kubelet.served) and self.known <= set(kubelet.served)
            return here or not program.is_running

        if not await wait_until(settled, self.pace.within, self.clock) or not program.is_running:
            missing = ", ".join(sorted(self.known - set(kubelet.served)))
            return (
                self.death()
                or f"no registration{' of ' * bool(missing)}{missing} within {self.pace.within:g} s"
            )
        if not self.known:
            await self._settle()
        return ""

    async def _settle(self) -> None:
        """A program may serve several resources: until no more of them come."""
        seen = -1
        while seen != self.own.kubelet.registrations:
            seen = self.own.kubelet.registrations
            await self.clock.sleep(self.pace.settle)
        self.known = set(self.own.kubelet.served)

    def served(self) -> list[Served]:
        """What is registered now, or the live socket alone."""
        if self.live is not None:
            return [self.live]
        return [found for _, found in sorted(self.own.kubelet.served.items())]

    def names(self) -> list[str]:
        """The resources."""
        return sorted(self.known)

    def sockets(self) -> list[Path]:
        """One for each resource, and those that they register on."""
        both = ((served.path, served.registration) for served in self.served())
        return [path for paths in both for path in paths if path is not None]

    async def devices(self, served: Served) -> list[Device]:
        """The list as it is now; Unready where none came, which is waited for once."""
        stream = served.stream

        def has_come() -> bool:
            return stream.devices is not None or bool(stream.ended)

        if not stream.was_awaited:
            stream.was_awaited = True
            await wait_until(has_come, self.pace.first_list, self.clock)
        if stream.devices is None:
            raise Unready(f"no list: {stream.ended or f'nothing came within {self.pace.first_list:g} s'}")
        return list(stream.devices.devices)

    async def healthy_ids(self, served: Served) -> list[str]:
        """Those that a kubelet would hand out, each once."""
        return sorted({one.ID for one in await self.devices(served) if one.health == HEALTHY and one.ID})

    async def options(self, served: Served) -> DevicePluginOptions:
        """As the plugin told them inside Register, or now."""
        if served.options is None:
            async with self.client(served) as client:
                served.options = await client.get_device_plugin_options(Empty())
        return served.options

    @asynccontextmanager
    async def client(self, served: Served, timeout: float = 10.0) -> AsyncIterator[DevicePluginClient]:
        """A new connection, for this call alone."""
        async with connect(served.path, timeout=timeout, limits=LARGE) as channel:
            yield DevicePluginClient(channel)

    async def allocate(
        self, served: Served, *containers: list[str], seconds: float = 10.0
    ) -> AllocateResponse:
        """One request with these ids for each container."""
        requests = [ContainerAllocateRequest(devices_ids=ids) for ids in containers]
        async with self.client(served, timeout=seconds) as client:
            return await client.allocate(AllocateRequest(container_requests=requests))


Look = Callable[[PluginSubject, Served], Awaitable[list[str] | Outcome]]


def each(look: Look) -> Callable[[PluginSubject], Awaitable[Outcome]]:
    """A rule about one plugin, for all that the program serves. `look` gives faults, or an outcome to say more."""

    async def check(subject: PluginSubject) -> Outcome:
        return together(
            [(found.resource, as_outcome(await look(subject, found))) for found in subject.served()]
        )

    return check
