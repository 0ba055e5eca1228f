"""Events about pods and PodGroups. The same one about the same object is stored once with a count, also after a restart."""

from __future__ import annotations

import hashlib
from typing import Any, Final, Literal

from dray.api.core import Pod
from dray.api.kinds import EVENTS
from dray.api.meta import format_time
from dray.api.scheduling import PodGroup
from dray.client.client import Client
from dray.errors import ConflictError, Error, InvariantError
from dray.runtime.clock import Clock
from dray.runtime.logs import get_log

_log = get_log("controllers.events")
_NAME_MAX: Final = 230
_MESSAGE_MAX: Final = 1024
EventType = Literal["Normal", "Warning"]


class Recorder:
    """Tells on behalf of one controller. An event that cannot be written is only logged: the work itself goes on."""

    def __init__(self, client: Client, component: str, clock: Clock) -> None:
        self._client = client
        self._component = component
        self._clock = clock

    async def tell(self, subject: Pod | PodGroup, kind: EventType, reason: str, message: str) -> None:
        """Write it, or count it where it was told before."""
        document = self._document(subject, kind, reason, message)
        try:
            await self._write(document, subject.metadata.namespace)
        except InvariantError:
            raise
        except Error as error:  # such as a namespace that is being deleted
            _log.warning("event not written", reason=reason, subject=subject.metadata.name, error=str(error))

    async def _write(self, document: dict[str, Any], namespace: str) -> None:
        try:
            await self._client.create(EVENTS, document)
        except ConflictError:
            name = document["metadata"]["name"]
            known = await self._client.get(EVENTS, name, namespace=namespace)
            change = {"count": known.count + 1, "lastTimestamp": document["lastTimestamp"]}
            await self._client.patch(EVENTS, name, change, namespace=namespace)

    def _document(
        self, subject: Pod | PodGroup, kind: EventType, reason: str, message: str
    ) -> dict[str, Any]:
        meta, now = subject.metadata, format_time(self._clock.now())
        message = message[:_MESSAGE_MAX]
        said = f"{meta.uid}\n{self._component}\n{kind}\n{reason}\n{message}"
        suffix = hashlib.sha256(said.encode()).hexdigest()[:16]
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{meta.name[:_NAME_MAX].rstrip('.-')}.{suffix}",
                "namespace": meta.namespace,
            },
            "involvedObject": {
                "apiVersion": subject.api_version,
                "kind": subject.kind,
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
