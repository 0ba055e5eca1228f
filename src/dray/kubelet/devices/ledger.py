"""The device manager's memory: what is listed, what is granted, what is about to be. All changes are without `await`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator
from contextlib import contextmanager

from dray.api.core import Pod
from dray.errors import Error, InvariantError, UnavailableError
from dray.kubelet.devices.checkpoint import FORMAT, CheckpointWriter, Text
from dray.kubelet.devices.contract import CHECKPOINT, Surroundings
from dray.kubelet.devices.grants import Grant, Grants
from dray.kubelet.devices.known import KnownDevices
from dray.kubelet.devices.requests import handing_on
from dray.runtime.files.checkpoint import Checkpoint, SetAside
from dray.runtime.logs import get_log

_log = get_log("kubelet.devices.ledger")


class Reservation:
    """Devices of one resource that a pod is about to get. Nobody else gets them until it is left."""

    def __init__(self, reserved: set[str]) -> None:
        self._reserved = reserved
        self.own: frozenset[str] = frozenset()

    def take(self, ids: Iterable[str]) -> None:
        """Hold these, beside what it holds already."""
        fresh = frozenset(ids) - self.own
        if fresh & self._reserved:
            raise InvariantError(f"devices {sorted(fresh & self._reserved)} would be given to two containers")
        self._reserved |= fresh
        self.own |= fresh

    def release(self) -> None:
        """Give all back."""
        self._reserved -= self.own
        self.own = frozenset()


class _Free:
    """The devices of one resource that are healthy and not granted, kept up to date instead of counted anew."""

    def __init__(self) -> None:
        self._healthy: frozenset[str] | None = None
        self._ids: set[str] = set()
        self._shown: frozenset[str] = frozenset()

    def now(self, healthy: frozenset[str], moved: Collection[str], held: Container[str]) -> frozenset[str]:
        """`moved` are all ids whose holders changed since the last time."""
        if healthy is self._healthy and not moved:
            return self._shown
        if healthy is not self._healthy:
            self._healthy, self._ids, moved = healthy, set(healthy), healthy
        self._ids.difference_update(one for one in moved if one in held)
        self._ids.update(one for one in moved if one in healthy and one not in held)
        self._shown = frozenset(self._ids)
        return self._shown


class Ledger:
    """In use is what a grant or a reservation holds, and nothing else: a failure has nothing to restore."""

    def __init__(self, around: Surroundings) -> None:
        self.known = KnownDevices()
        self.grants = Grants()
        self._around = around
        self._reserved: dict[str, set[str]] = {}
        self._free: dict[str, _Free] = {}
        self._admitting: Counter[str] = Counter()
        self._file = Checkpoint(around.checkpoint, FORMAT, clock=around.clock)
        self._writer = CheckpointWriter()
        self._written = b""
        self.was_recreated = False

    def load(self) -> SetAside | None:
        """Once, before anything else. What cannot be read is set aside and told; the node starts without it."""
        loaded = self._file.open()
        self.was_recreated = loaded.data is None and loaded.set_aside is None
        if loaded.set_aside is not None:
            _log.error("running pods may lose their devices", reason=str(loaded.set_aside))
        if loaded.data is not None and loaded.data.saved is not None:
            for grant in loaded.data.saved.grants:
                self.grants.add(grant)
            for resource in loaded.data.saved.registered:
                self.known.restored(resource, self._around.clock.monotonic())
        return loaded.set_aside

    def close(self) -> None:
        """Let another process have the file."""
        self._file.__exit__()

    def save(self) -> None:
        """Durable when it returns. UnavailableError, in a kubelet's words, where the disk refuses."""
        self._write(self._content())

    def _write(self, content: bytes) -> None:
        try:
            self._file.save(Text(content))
        except Error as error:
            raise UnavailableError(f'failed to write checkpoint file "{CHECKPOINT}": {error}') from error
        self._written = content

    def save_known(self) -> None:
        """After a list changed. Nobody acts on it before the next grant, so a disk that refuses is only told of."""
        content = self._content()
        if content == self._written:
            return
        try:
            self._write(content)
        except UnavailableError as error:
            _log.warning("checkpoint not written, tried again with the next change", reason=str(error))

    def _content(self) -> bytes:
        registered = {name: one.healthy for name in self.known if (one := self.known.get(name))}
        return self._writer.encode(self.grants, registered)

    def keep(self, grant: Grant) -> None:
        """Grant it for good: on the disk when this returns, and not at all when it raises."""
        self.grants.add(grant)
        try:
            self.save()
        except BaseException:
            self.grants.remove(grant)
            raise

    @contextmanager
    def admitting(self, pod_uid: str) -> Iterator[None]:
        """Its grants are not taken back meanwhile, even if nobody calls it active: half a pod's devices are no use."""
        self._admitting[pod_uid] += 1
        try:
            yield
        finally:
            self._admitting[pod_uid] -= 1
            if not self._admitting[pod_uid]:
                del self._admitting[pod_uid]

    @contextmanager
    def reserving(self, resource: str) -> Iterator[Reservation]:
        """Left in every way: with a grant, with an error, cancelled."""
        reservation = Reservation(self._reserved.setdefault(resource, set()))
        try:
            yield reservation
        finally:
            reservation.release()

    def forget_inactive(self) -> None:
        """Take back what pods hold that are over. On the disk with the next change; until then it costs nobody anything."""
        if not self._around.sources_ready():
            return
        gone = self.grants.keep_only({*self._around.active_pods(), *self._admitting})
        if gone:
            _log.info("devices of ended pods taken back", pods=len(gone))

    def is_of_plugin(self, resource: str) -> bool:
        """Whether a plugin serves it, or did when something of it was granted. Others are somebody else's business."""
        return resource in self.known or bool(self.grants.held(resource))

    def free(self, resource: str) -> frozenset[str]:
        """Healthy, and nobody's."""
        known, moved = self.known.get(resource), self.grants.take_moved(resource)
        if known is None:
            self._free.pop(resource, None)
            return frozenset()
        kept = self._free.setdefault(resource, _Free())
        free = kept.now(known.healthy, moved, self.grants.held(resource))
        reserved = self._reserved.get(resource)
        return free - reserved if reserved else free

    def reusable(self, pod: Pod, resource: str) -> frozenset[str]:
        """What init containers of the pod hand on, and no sidecar or container of it has by now."""
        handing = handing_on(pod)
        handed: set[str] = set()
        kept = set(self._reserved.get(resource, ()))
        for grant in self.grants.of_pod(pod.metadata.uid):
            if grant.resource == resource:
                (handed if grant.container in handing else kept).update(grant.ids)
        return frozenset(handed - kept)
