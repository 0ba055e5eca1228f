"""Statuses of pods, written to where the pods came from: the API server, or files for pods that have no object there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dray.api.codec import encode, to_raw
from dray.api.core import Pod
from dray.api.core.pod import PodStatus
from dray.api.kinds import PODS
from dray.client.client import Client
from dray.client.requests import DeleteOptions, PatchType
from dray.errors import ConflictError, NotFoundError
from dray.kubelet.pods.contract import Statuses
from dray.runtime.backoff import BackoffPolicy
from dray.runtime.clock import Clock
from dray.runtime.files.durable import make_directory, remove_temporaries, write_durably
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.logs import get_log
from dray.runtime.workqueue import WorkQueue

_log = get_log("kubelet.pods")
_RETRY = BackoffPolicy(first=0.2, limit=30.0)
_WORKERS = 8


class ApiStatuses:
    """`run` writes, until cancelled. Of several statuses of a pod only the newest is written; errors are tried again.

    `reached` is called after each write with a word for the place: tests end the process there.
    """

    def __init__(self, client: Client, clock: Clock, reached: Callable[[str], None] = lambda _: None) -> None:
        self._reached = reached
        self._client = client
        self._queue = WorkQueue[str]("pod statuses", clock, _RETRY)
        self._newest: dict[str, tuple[Pod, PodStatus]] = {}
        self._written: dict[str, PodStatus] = {}
        self._over: dict[str, Pod] = {}

    def tell(self, pod: Pod, status: PodStatus) -> None:
        """See `Statuses`."""
        self._newest[pod.metadata.uid] = (pod, status)
        if self._written.get(pod.metadata.uid) != status:
            self._queue.add(pod.metadata.uid)

    def ended(self, pod: Pod) -> None:
        """See `Statuses`."""
        self._over[pod.metadata.uid] = pod
        self._queue.add(pod.metadata.uid)

    async def run(self) -> None:
        """Until cancelled."""
        await self._queue.run(self._write, workers=_WORKERS)

    async def _write(self, uid: str) -> None:
        try:
            newest = self._newest.get(uid)
            if newest is not None and self._written.get(uid) != newest[1]:
                await self._patch(*newest)
                self._written[uid] = newest[1]
                self._reached("told")
            if uid in self._over:
                await self._delete(self._over[uid])
                self._reached("deleted")
                self._forget(uid)
        except NotFoundError:
            self._forget(uid)
        except ConflictError:  # another pod has the name by now
            self._forget(uid)

    async def _patch(self, pod: Pod, status: PodStatus) -> None:
        change: dict[str, Any] = {"metadata": {"uid": pod.metadata.uid}, "status": to_raw(status)}
        await self._client.patch(
            PODS,
            pod.metadata.name,
            change,
            PatchType.STRATEGIC,
            namespace=pod.metadata.namespace,
            subresource="status",
        )

    async def _delete(self, pod: Pod) -> None:
        await self._client.delete(
            PODS,
            pod.metadata.name,
            namespace=pod.metadata.namespace,
            options=DeleteOptions(uid=pod.metadata.uid, grace_period=0),
        )
        _log.info("pod object deleted", pod=f"{pod.metadata.namespace}/{pod.metadata.name}")

    def _forget(self, uid: str) -> None:
        for memory in (self._newest, self._written, self._over):
            memory.pop(uid, None)


class FileStatuses:
    """One JSON document a pod, `<namespace>_<name>.json`: the pod as the API server would show it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        make_directory(directory, 0o755)
        remove_temporaries(directory)

    def tell(self, pod: Pod, status: PodStatus) -> None:
        """See `Statuses`."""
        document = to_raw(pod) | {"status": to_raw(status)}
        try:
            write_durably(self._directory / _name(pod), encode(document) + b"\n", mode=0o644)
        except OSError as error:
            raise from_os_error(error, "write the status of a pod to", str(self._directory)) from error

    def ended(self, pod: Pod) -> None:
        """See `Statuses`. The last status stays until the pod's name is used again."""


class ByOrigin:
    """Pods that have an object at the API server go there, the others to files."""

    def __init__(self, files: Statuses, api: Statuses | None) -> None:
        self._files = files
        self._api = api

    def tell(self, pod: Pod, status: PodStatus) -> None:
        """See `Statuses`."""
        self._for(pod).tell(pod, status)

    def ended(self, pod: Pod) -> None:
        """See `Statuses`."""
        self._for(pod).ended(pod)

    def _for(self, pod: Pod) -> Statuses:
        return self._api if self._api is not None and pod.metadata.resource_version else self._files


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}_{pod.metadata.name}.json"
