"""What is on disk of our sandboxes and containers, and what it means. One directory each, made and removed in one step.

sandboxes/ID/   sandbox.json, stopped, and what the engine puts there
containers/ID/  container.json, launch.json, the keeper's three files (`shim.py`), and the engine's
trash/          renamed there first, then emptied; also what a kill left half made
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from dray.errors import Error, NotFoundError
from dray.kubelet.runtimes.contract import Container, PodIdentity, State
from dray.kubelet.runtimes.liveness import Identity
from dray.runtime.files import durable
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.files.removal import remove_tree
from dray.runtime.logs import get_log

START_ERROR = "StartError"
SANDBOXES, CONTAINERS, TRASH = "sandboxes", "containers", "trash"

T = TypeVar("T")

_log = get_log("kubelet.runtimes")


class SandboxRecord(msgspec.Struct, frozen=True):
    """Written once."""

    id: str
    pod: PodIdentity
    attempt: int
    hostname: str
    boot: str
    host_network: bool = False
    host_pid: bool = False


class ContainerRecord(msgspec.Struct, frozen=True):
    """Written once."""

    id: str
    sandbox: str
    pod: PodIdentity
    name: str
    attempt: int
    image: str
    created_at: datetime


class Running(Identity, frozen=True):
    """Who runs, since when."""

    at: datetime


class Exit(msgspec.Struct, frozen=True):
    """How it ended."""

    code: int
    reason: str
    message: str
    at: datetime


def make_id(*parts: object) -> str:
    """The same parts give the same id, also after a restart."""
    return hashlib.sha256("\0".join(str(part) for part in parts).encode()).hexdigest()[:40]


class Facts(msgspec.Struct, frozen=True):
    """All that is on disk of one container."""

    record: ContainerRecord
    keeper: Identity | None = None
    is_kept: bool = False
    """Whether the keeper was at work before the rest was read. If not, the rest is final."""
    running: Running | None = None
    exit: Exit | None = None
    is_alive: bool = False
    """Whether who runs did so when all else had been read: looked at once, so that the answers below fit together."""

    @property
    def state(self) -> State:
        """While a keeper lives it has the word; without a record of a start nothing of it ever ran."""
        if self.exit is not None:
            return State.EXITED
        if self.keeper is None:
            return State.CREATED
        if self.is_kept:
            return State.RUNNING if self.running else State.CREATED
        if self.running is None and self.keeper.is_of_this_boot:
            return State.EXITED
        return State.RUNNING if self.is_alive else State.UNKNOWN

    @property
    def awaited(self) -> Identity | None:
        """The process whose end changes the state: the keeper, or the container's own where that one was killed."""
        if self.exit is not None:
            return None
        if self.is_kept:
            return self.keeper
        return self.running if self.state is State.RUNNING else None

    def told(self) -> Container:
        """As the contract tells it."""
        state, record = self.state, self.record
        # Only with a start on record can it have run; that it has none and no keeper is a failed start.
        end = self.exit or Exit(128, START_ERROR, "its keeper was killed before it ran", record.created_at)
        exited = state is State.EXITED
        return Container(
            id=record.id,
            pod=record.pod,
            name=record.name,
            attempt=record.attempt,
            state=state,
            sandbox=record.sandbox,
            image=record.image,
            exit_code=end.code if exited else 0,
            reason=end.reason if exited else "",
            message=end.message if exited else "",
            created_at=record.created_at,
            started_at=self.running.at if self.running else None,
            finished_at=end.at if exited else None,
        )


class Store:
    """The directory of one runtime."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def prepare(self) -> None:
        """Make the directories; done again it changes nothing."""
        for name in (SANDBOXES, CONTAINERS, TRASH):
            try:
                durable.make_directory(self.root / name)
            except OSError as error:
                raise from_os_error(error, "make the directory", str(self.root / name)) from error

    def ids(self, kind: str) -> list[str]:
        """Of all that exist."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(os.listdir(self.root / kind))  # noqa: PTH208
        return []

    def directory(self, kind: str, item: str) -> Path:
        """Where it lies, or would."""
        return self.root / kind / item

    @contextlib.contextmanager
    def making(self, kind: str, item: str) -> Iterator[Path]:
        """An empty directory to fill. At the end of the block it gets its name, unless another one has it already.

        From then on it exists, also after a power cut. A crash before leaves it in the trash, an error nothing.
        """
        target = self.directory(kind, item)
        staged = self.root / TRASH / f"{item}.{secrets.token_hex(4)}"
        staged.mkdir(mode=0o711)
        try:
            yield staged
            with durable.open_directory(staged) as descriptor:
                durable.sync_directory(descriptor)
            _rename_unless_there(staged, target)
            with durable.open_directory(target.parent) as descriptor:
                durable.sync_directory(descriptor)
        finally:
            self.empty(staged)

    def discard(self, kind: str, item: str) -> Path | None:
        """Forget it, in one step; what is left of it is where the answer says, for `empty`."""
        path = self.root / TRASH / f"{item}.{secrets.token_hex(4)}"
        try:
            self.directory(kind, item).rename(path)
        except FileNotFoundError:
            return None
        with durable.open_directory(self.root / kind) as descriptor:
            durable.sync_directory(descriptor)
        return path

    def trash(self) -> list[Path]:
        """What waits to be emptied."""
        return [self.root / TRASH / name for name in self.ids(TRASH)]

    def empty(self, path: Path) -> None:
        """Remove it for good. What cannot be removed now is left for the next start: nothing may be mounted below it."""
        with contextlib.suppress(Error):
            remove_tree(path)

    def sandbox(self, item: str) -> SandboxRecord:
        """NotFoundError when there is none."""
        found = _read(self.directory(SANDBOXES, item) / "sandbox.json", SandboxRecord)
        if found is None:
            raise NotFoundError(f"there is no sandbox {item}", kind="sandbox", name=item)
        return found

    def facts(self, item: str) -> Facts | None:
        """None when there is no such container (any more)."""
        directory = self.directory(CONTAINERS, item)
        record = _read(directory / "container.json", ContainerRecord)
        if record is None:
            return None
        # The order matters: what a keeper has to say is on disk before it ends.
        keeper = _read(directory / "keeper.json", Identity)
        is_kept = keeper is not None and keeper.is_at_work
        running = _read(directory / "running.json", Running)
        ended = _read(directory / "exit.json", Exit)
        return Facts(record, keeper, is_kept, running, ended, running is not None and running.is_alive)


def _rename_unless_there(path: Path, target: Path) -> None:
    try:
        path.rename(target)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
            raise


def write(directory: Path, name: str, value: msgspec.Struct | dict[str, object]) -> None:
    """Put one record down, durably."""
    durable.write_durably(directory / name, msgspec.json.encode(value))


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except msgspec.MsgspecError as error:
        _log.error("cannot read a record, taken as absent", path=str(path), error=str(error))
        return None
