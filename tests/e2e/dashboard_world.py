"""The fleet of tests/dashboard, with its played kubelets, in a thread of its own, for tests that wait for a browser in theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

from dray.client.kubeconfig import find_access
from dray.processes.dashboard import DashboardAt, DashboardOptions, dashboard
from tests.dashboard.fleet_script import Shown, shown_fleet

T = TypeVar("T")
PATIENCE = 120.0


class World:
    """Entered: API server, scheduler, controllers and dashboard run, and pods were made."""

    def __init__(self, directory: Path, more_nodes: int = 6) -> None:
        self._directory = directory
        self._more_nodes = more_nodes
        self._thread = ThreadPoolExecutor(1, "world")
        self._ready: Future[None] = Future()
        self._life: Future[None]
        self._loop: asyncio.AbstractEventLoop
        self._leave: asyncio.Event
        self.shown: Shown

    def __enter__(self) -> World:
        self._life = self._thread.submit(lambda: asyncio.run(self._live()))
        wait((self._ready, self._life), PATIENCE, FIRST_COMPLETED)
        if self._life.done():
            self._life.result()
        assert self._ready.done(), "the fleet did not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._leave.set)
        self._life.result(PATIENCE)
        self._thread.shutdown()

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._leave = asyncio.Event()
        async with shown_fleet(self._directory, more_nodes=self._more_nodes) as self.shown:
            self._ready.set_result(None)
            await self._leave.wait()

    @property
    def entrance(self) -> str:
        """The address that `dray dashboard` prints."""
        return self.shown.at.entrance

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it where the fleet runs."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    @contextmanager
    def inside(self, make: Callable[[], AbstractAsyncContextManager[T]]) -> Iterator[T]:
        """What is entered and left there, around a block here."""
        entered = self.do(_entered(make))
        try:
            yield entered.value
        finally:
            self.do(entered.leave())

    def another_dashboard(
        self, token_file: Path, port: int = 0, kubeconfig: Path | None = None
    ) -> AbstractAsyncContextManager[DashboardAt]:
        """Of the same fleet, or of another cluster; for `inside`."""
        access = find_access(kubeconfig or self.shown.kubeconfig)
        return dashboard(DashboardOptions(access, ("127.0.0.1", port), token_file))


class _Entered(Generic[T]):
    """A context that one call entered and another leaves: a task of its own is in it meanwhile."""

    def __init__(self, task: asyncio.Task[None], value: T, left: asyncio.Event) -> None:
        self._task = task
        self._left = left
        self.value = value

    async def leave(self) -> None:
        self._left.set()
        await self._task


async def _entered(make: Callable[[], AbstractAsyncContextManager[T]]) -> _Entered[T]:
    ready: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    left = asyncio.Event()

    async def be() -> None:
        async with make() as value:
            ready.set_result(value)
            await left.wait()

    task = asyncio.create_task(be())
    both: list[asyncio.Future[Any]] = [ready, task]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        await task
    return _Entered(task, ready.result(), left)
