"""The whole demonstration: a stack of its own in a directory of its own, three acts, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dray.apiserver.http.server import Address
from dray.client.client import Client
from dray.client.kubeconfig import find_access
from dray.demo import claims_road, plugin_road, refusal
from dray.demo.journal import PATIENCE, Journal
from dray.demo.scene import Scene
from dray.demo.story import Story, Word
from dray.errors import Error, InvalidError, UnavailableError
from dray.runtime.clock import Clock, SystemClock
from dray.runtime.logs import get_log
from dray.runtime.tasks import running
from dray.up.all_in_one import Told, UpOptions, up
from dray.up.choice import AUTO, choose_runtime
from dray.up.containers import end_containers
from dray.up.fleet.profile_file import load_profile
from dray.up.place import DATA_DIR_BYTES, RunningUp, UpPlace
from dray.up.stopping import purge

_log = get_log("demo")

PROFILE: Final = "laptop"
NODE: Final = "demo"
_NAME: Final = "dray-demo-"
_SHORT: Final = ("/tmp", "/var/tmp")  # noqa: S108 - mkdtemp makes a directory of its own there


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """`keep`: the directory stays, with objects, logs and configuration; containers end all the same. `patience`: seconds
    that each step may take."""

    runtime: str = AUTO
    keep: bool = False
    patience: float = PATIENCE


@dataclass(frozen=True, slots=True)
class Audience:
    """Who is told: `busy` with what while it starts, `ready` when it has, `word` by word what happens."""

    busy: Callable[[str], None] = lambda _: None
    ready: Callable[[RunningUp], None] = lambda _: None
    word: Callable[[Word], None] = lambda _: None


class Demo:
    """One run. What it has told so far stays readable, however it ends."""

    def __init__(self, options: DemoOptions, audience: Audience, clock: Clock | None = None) -> None:
        self._options = options
        self._audience = audience
        self._clock = clock or SystemClock()
        self.place = UpPlace(_new_directory())
        self.story = Story(audience.word, self._clock.monotonic())
        self.up: RunningUp | None = None

    async def run(self) -> None:
        """To the end, or until cancelled; leaves nothing behind in either case but what is to be kept."""
        try:
            async with self._watched() as scene:
                await self._acts(scene)
        finally:
            self._audience.busy("cleaning up")
            await self._clean_up()

    async def _acts(self, scene: Scene) -> None:
        story = scene.story
        story.road("dra", "DRA: the pod says what it needs, the scheduler chooses the device")
        await claims_road.publish(scene)
        await claims_road.claim(scene)
        story.road("plugin", "Device plugin: the pod says how many, the kubelet chooses the device")
        await plugin_road.offer(scene, load_profile(PROFILE))
        await plugin_road.ask(scene)
        story.road("refusal", "When it does not fit")
        await refusal.refuse(scene)

    @asynccontextmanager
    async def _watched(self) -> AsyncIterator[Scene]:
        """The stack, seen from its first moment on."""
        journal = Journal(self._clock, self._options.patience)
        has_server = asyncio.Event()

        def busy(text: str) -> None:
            if self.place.kubeconfig.exists():
                has_server.set()
            self._audience.busy(text)

        options = UpOptions(
            data_dir=self.place.data_dir,
            listen=Address("127.0.0.1", 0),
            sim=PROFILE,
            runtime=self._options.runtime,
            node_name=NODE,
            dashboard=False,
        )
        follow = journal.follow(self.place.kubeconfig, has_server)
        async with (
            running(follow, name="journal"),
            up(options, self._clock, Told(busy, stopping=journal.ask_to_end)) as self.up,
            Client(find_access(self.place.kubeconfig), clock=self._clock) as client,
        ):
            self._audience.ready(self.up)
            try:
                yield Scene(self.up, self.place, client, journal, self.story, self._clock)
            finally:
                await journal.end()

    async def _clean_up(self) -> None:
        """Containers first: they would outlive us. What cannot be removed is said, and is no failure of the demonstration."""
        try:
            runtime = choose_runtime(self._options.runtime).name
            await end_containers(self.place, runtime, forget=True, clock=self._clock)
            if not self._options.keep:
                left = await asyncio.to_thread(purge, self.place)
                if left:
                    shutil.rmtree(self.place.data_dir)
        except (Error, OSError) as error:
            _log.error("not all was cleaned up", directory=str(self.place.data_dir), error=str(error))


def _new_directory() -> Path:
    """In the user's place for such things, or in another one where names of sockets below it would be too long."""
    try:
        for parent in (tempfile.gettempdir(), *_SHORT):
            if len(os.fsencode(parent)) + len(_NAME) + 9 <= DATA_DIR_BYTES and os.access(parent, os.W_OK):
                return Path(tempfile.mkdtemp(prefix=_NAME, dir=parent))
    except OSError as error:
        raise UnavailableError(
            f"no temporary directory: {error.strerror}; free some space, or set TMPDIR"
        ) from None
    raise InvalidError(
        f"no temporary directory for sockets: TMPDIR must be writable, with {DATA_DIR_BYTES - len(_NAME) - 9} bytes at most",
        field="TMPDIR",
    )
