"""What differs between the runtimes whose containers have a keeper of ours: runc and plain processes."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from typing import Protocol

from dray.kubelet.runtimes.contract import ContainerConfig
from dray.kubelet.runtimes.liveness import Identity
from dray.kubelet.runtimes.records import SandboxRecord


class Engine(Protocol):
    """All calls may be repeated, and come again after a crash in the middle."""

    @property
    def name(self) -> str:
        """The runtime's name."""
        ...

    @property
    def has_mounts(self) -> bool:
        """As the runtime's."""
        ...

    async def check_ready(self) -> None:
        """UnavailableError or DeniedError where nothing can be run, and why."""
        ...

    async def ensure_image(self, image: str) -> None:
        """NotFoundError where it cannot be had."""
        ...

    async def raise_sandbox(self, record: SandboxRecord, directory: Path) -> None:
        """Make what the containers share."""
        ...

    def is_sandbox_up(self, record: SandboxRecord, directory: Path) -> bool:
        """Whether what they share is still there."""
        ...

    async def drop_sandbox(self, directory: Path) -> None:
        """Undo `raise_sandbox`."""
        ...

    async def describe(
        self, item: str, config: ContainerConfig, sandbox: SandboxRecord, staged: Path, final: Path
    ) -> dict[str, object]:
        """What the keeper needs to run it. Files go to `staged`, which will be `final`. Nothing is mounted yet."""
        ...

    async def make_ready(self, item: str, directory: Path) -> None:
        """Right before the start: mount what must be mounted."""
        ...

    async def drop_unstarted(self, item: str) -> None:
        """End a container without a keeper whose program was never begun, if it is one."""
        ...

    async def kill(self, item: str, process: Identity | None) -> None:
        """End all processes of a container whose keeper is gone."""
        ...

    async def clean(self, item: str, directory: Path) -> None:
        """Take back what `make_ready` and the keeper did. None of its processes runs any more."""
        ...

    async def sweep(self, root: Path, items: Set[str]) -> None:
        """At the start: take back what belongs to none of `items`, left by a crash."""
        ...
