"""A runtime whose containers are kept by `shim.py`: made, started, stopped and told from what is on disk."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Self

from dray.errors import ConflictError, InvalidError, NotFoundError, UnavailableError
from dray.kubelet.runtimes import shim
from dray.kubelet.runtimes.contract import (
    Container,
    ContainerConfig,
    LogLimits,
    Sandbox,
    SandboxConfig,
    State,
)
from dray.kubelet.runtimes.ending import end
from dray.kubelet.runtimes.engine import Engine
from dray.kubelet.runtimes.following import Following
from dray.kubelet.runtimes.records import (
    CONTAINERS,
    SANDBOXES,
    START_ERROR,
    ContainerRecord,
    Facts,
    SandboxRecord,
    Store,
    make_id,
    write,
)
from dray.kubelet.runtimes.shim_log import open_directory
from dray.runtime.clock import Clock
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.threads import Threads

START_SECONDS = 120.0
"""How long a start may take: runc mounts, makes cgroups and namespaces, and may wait for a slow disk."""
_EMPTY_SECONDS = 60.0
_LAST_SECONDS = 5.0
"""For a start that nobody waits for any more."""
_STOPPED = "stopped"
# As an import and not as a script: compiled once, which spares every start 30 ms and every keeper half a megabyte.
KEEP = (
    "import sys; sys.path.append(sys.argv[1]); from dray.kubelet.runtimes import shim; shim.main(sys.argv[2])"
)


class KeptRuntime:
    """Implements `contract.Runtime`. Entered = leftovers of a crash are swept; left = the containers go on.

    `root` belongs to one kubelet at a time. After its restart a new object on the same directory knows everything.
    """

    def __init__(self, root: Path, engine: Engine, clock: Clock, logs: LogLimits) -> None:
        self._store = Store(root)
        self._logs = logs
        self._engine = engine
        self._clock = clock
        self._following = Following()
        self._known: dict[str, Container] = {}
        self._threads = Threads()

    @property
    def name(self) -> str:
        """The engine's."""
        return self._engine.name

    @property
    def has_mounts(self) -> bool:
        """The engine's."""
        return self._engine.has_mounts

    async def __aenter__(self) -> Self:
        self._store.prepare()
        items = {*self._store.ids(CONTAINERS), *self._store.ids(SANDBOXES)}
        await self._engine.sweep(self._store.root, items)
        for path in self._store.trash():
            await self._empty(path)
        for item in self._store.ids(CONTAINERS):
            await self._drop_unstarted(item)
        await self.containers()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._following.close()

    async def check_ready(self) -> None:
        """As the engine says."""
        await self._engine.check_ready()

    async def ensure_image(self, image: str, policy: str) -> None:
        """There is no registry, so the pull policy changes nothing."""
        await self._engine.ensure_image(image)

    async def run_sandbox(self, config: SandboxConfig) -> str:
        """Made in the trash and renamed, so that a crash leaves a whole one or none.

        One that was stopped, or is of an earlier boot, stays as it is: look at `is_ready`, and take the next attempt.
        """
        item = make_id(config.pod.uid, config.attempt)
        if item not in self._store.ids(SANDBOXES):
            record = SandboxRecord(
                item,
                config.pod,
                config.attempt,
                config.hostname,
                shim.boot_id(),
                config.host_network,
                config.host_pid,
            )
            with _told(self._store.root):
                self._make_log_directory(config.log_directory)
                with self._store.making(SANDBOXES, item) as staged:
                    write(staged, "sandbox.json", record)
        record = self._store.sandbox(item)
        directory = self._store.directory(SANDBOXES, item)
        if not (directory / _STOPPED).exists() and record.boot == shim.boot_id():
            await self._engine.raise_sandbox(record, directory)
        return item

    async def create(self, sandbox: str, config: ContainerConfig) -> str:
        """Nothing runs and nothing is mounted by it. One that was never started moves to the sandbox given now."""
        item = make_id(config.pod.uid, config.name, config.attempt)
        final = self._store.directory(CONTAINERS, item)
        facts = self._store.facts(item)
        if facts is not None and (facts.keeper is not None or facts.record.sandbox == sandbox):
            return item
        await self._discard(CONTAINERS, item)
        record = self._store.sandbox(sandbox)
        if not self._is_ready(record):
            raise ConflictError(f"sandbox {sandbox} of pod {config.pod.name} does not run any more")
        with _told(final), self._store.making(CONTAINERS, item) as staged:
            launch = await self._engine.describe(item, config, record, staged, final)
            self._make_log_directory(config.log_path.parent)
            limits = {"log_size": self._logs.size, "log_files": self._logs.files}
            log = {"log": str(config.log_path), "log_root": str(self._logs.root or ""), **limits}
            write(staged, "launch.json", {**launch, "id": item, **log})
            write(staged, "container.json", self._record(item, sandbox, config))
        self._following.note(item)
        return item

    def _make_log_directory(self, path: Path) -> None:
        os.close(open_directory(str(path), str(self._logs.root or ""), make=True))

    def _record(self, item: str, sandbox: str, config: ContainerConfig) -> ContainerRecord:
        return ContainerRecord(
            item, sandbox, config.pod, config.name, config.attempt, config.image, self._clock.now()
        )

    async def start(self, container: str) -> None:
        """InvalidError when its command cannot be run; it is EXITED then, with the reason StartError."""
        facts = self._facts(container)
        if facts.keeper is None:
            await self._engine.make_ready(container, self._store.directory(CONTAINERS, container))
        if facts.state is State.CREATED:
            # Where an earlier call has begun it, the second keeper only waits until the first one has decided.
            await self._launch(self._store.directory(CONTAINERS, container))
            await self._drop_unstarted(container)
            facts = self._facts(container)
        self._following.note(container)
        if facts.state is State.CREATED:
            raise UnavailableError(f"the keeper of container {facts.record.name} could not be started")
        if facts.told().reason == START_ERROR:
            raise InvalidError(f"cannot start container {facts.record.name}: {facts.told().message}")

    async def _drop_unstarted(self, item: str) -> None:
        """A keeper that was killed in the middle of a start may have left a process that waits for ever."""
        facts = self._store.facts(item)
        if facts is not None and not facts.is_kept and facts.state is State.RUNNING:
            await self._engine.drop_unstarted(item)

    async def _launch(self, directory: Path) -> None:
        """Start a keeper and wait until it has closed its stdout: the container runs then, or never will."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            "-c",
            KEEP,
            str(Path(shim.__file__).parents[3]),
            str(directory),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            cwd="/",
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(START_SECONDS):
                await process.communicate()
        except TimeoutError:
            raise UnavailableError(
                f"container in {str(directory)!r} does not start: see keeper.log there"
            ) from None
        except asyncio.CancelledError:
            # It goes on without us; its pipe and its exit status are ours to take while we can.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_SECONDS):
                    await process.communicate()
            raise

    async def stop(self, container: str, grace: float) -> None:
        """UnavailableError when even force does not end it: a process hangs in the kernel."""
        if self._store.facts(container) is None:
            return
        await end(partial(self._store.facts, container), grace, self._engine)
        self._following.note(container)

    async def remove(self, container: str) -> None:
        """One that is gone already is fine."""
        if self._store.facts(container) is None:
            return
        await end(partial(self._store.facts, container), 0.0, self._engine)
        self._following.leave(container)
        await self._engine.clean(container, self._store.directory(CONTAINERS, container))
        await self._discard(CONTAINERS, container)
        self._known.pop(container, None)
        self._following.note(container)

    async def stop_sandbox(self, sandbox: str) -> None:
        """It stays stopped: a new one has the next attempt."""
        directory = self._store.directory(SANDBOXES, sandbox)
        if not directory.exists():
            return
        with _told(directory):
            write(directory, _STOPPED, {})
        for each in await self.containers():
            if self._sandbox_of(each.id) == sandbox:
                await self.stop(each.id, 0.0)
        await self._engine.drop_sandbox(directory)

    async def remove_sandbox(self, sandbox: str) -> None:
        """One that is gone already is fine."""
        await self.stop_sandbox(sandbox)
        for each in await self.containers():
            if self._sandbox_of(each.id) == sandbox:
                await self.remove(each.id)
        await self._discard(SANDBOXES, sandbox)

    async def sandboxes(self) -> tuple[Sandbox, ...]:
        """Not ready: stopped, half made by a kubelet that was killed, or of an earlier boot."""
        found = []
        for item in self._store.ids(SANDBOXES):
            with contextlib.suppress(NotFoundError):
                record = self._store.sandbox(item)
                found.append(Sandbox(item, record.pod, record.attempt, self._is_ready(record)))
        return tuple(found)

    async def containers(self) -> tuple[Container, ...]:
        """Read from disk what may have changed; the rest is known."""
        for item in self._following.take_changed():
            self._known.pop(item, None)
        found = []
        for item in self._store.ids(CONTAINERS):
            known = self._known.get(item) or self._look(item)
            if known is not None:
                found.append(known)
        return tuple(found)

    async def wait_changed(self) -> None:
        """Also after our own calls."""
        await self._following.wait_changed()

    def _look(self, item: str) -> Container | None:
        facts = self._store.facts(item)
        while (
            facts is not None
            and facts.awaited is not None
            and not self._following.follow(item, facts.awaited)
        ):
            facts = self._store.facts(item)  # it ended while we looked
        if facts is None:
            return None
        if facts.state is not State.CREATED:
            self._known[item] = facts.told()
        return facts.told()

    def _facts(self, item: str) -> Facts:
        facts = self._store.facts(item)
        if facts is None:
            raise NotFoundError(f"there is no container {item}", kind="container", name=item)
        return facts

    def _is_ready(self, record: SandboxRecord) -> bool:
        directory = self._store.directory(SANDBOXES, record.id)
        is_over = (directory / _STOPPED).exists() or record.boot != shim.boot_id()
        return not is_over and self._engine.is_sandbox_up(record, directory)

    def _sandbox_of(self, item: str) -> str:
        facts = self._store.facts(item)
        return facts.record.sandbox if facts else ""

    async def _discard(self, kind: str, item: str) -> None:
        with _told(self._store.directory(kind, item)):
            path = self._store.discard(kind, item)
        if path is not None:
            await self._empty(path)

    async def _empty(self, path: Path) -> None:
        await self._threads.run(
            partial(self._store.empty, path), doing=f"remove {str(path)!r}", seconds=_EMPTY_SECONDS
        )


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    """What the disk refuses, as one of our errors."""
    try:
        yield
    except OSError as error:
        raise from_os_error(error, "write", str(error.filename or path)) from error
