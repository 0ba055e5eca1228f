"""The cluster's storage as pods' volumes need it: followed like everything else, and read by the checks of volumes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dray.api.kinds import Resource
from dray.client.store import Change
from dray.scheduler.feeding import both
from dray.scheduler.fit.rejection import VOLUME_BINDING, VOLUME_RESTRICTIONS, VOLUME_ZONE
from dray.scheduler.fit.volume_objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    Volumes,
)
from dray.scheduler.queue.device_hints import object_happening
from dray.scheduler.queue.happenings import NODE, POD, Action, Happening
from dray.scheduler.queue.hints import Hints, Interest

VOLUME_CLAIMS: Final = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, PersistentVolumeClaim, has_status=True
)
VOLUMES: Final = Resource(
    "", "v1", "persistentvolumes", "PersistentVolume", False, PersistentVolume, has_status=True
)
STORAGE_CLASSES: Final = Resource(
    "storage.k8s.io", "v1", "storageclasses", "StorageClass", False, StorageClass
)
FOLLOWED: Final[tuple[Resource[Any], ...]] = (VOLUME_CLAIMS, VOLUMES, STORAGE_CLASSES)
_CHANGED: Final = Action.ADD | Action.DELETE | Action.OTHER


class Storage:
    """`volumes` is live: whoever has it sees the newest state. Fed through the handlers, by kind."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._classes: dict[str, StorageClass] = {}
        self.volumes = Volumes(self._claims, self._volumes, self._classes)

    def handler(
        self, resource: Resource[Any], tell: Callable[[Happening], None]
    ) -> Callable[[Change[Any]], None]:
        """For the informer of one of `FOLLOWED`."""
        tables: dict[str, dict[Any, Any]] = {
            VOLUME_CLAIMS.kind: self._claims,
            VOLUMES.kind: self._volumes,
            STORAGE_CLASSES.kind: self._classes,
        }
        known = tables[resource.kind]

        def seen(change: Change[Any]) -> None:
            old, new = both(change)
            key = change.key if resource.namespaced else change.key[1]
            if new is None:
                known.pop(key, None)
            else:
                known[key] = new
            tell(object_happening(resource.kind, old, new))

        return seen


def volume_hints() -> Hints:
    """Any change of storage may help; such pods are few."""
    stored = tuple(Interest(one.kind, _CHANGED) for one in FOLLOWED)
    nodes = Interest(NODE, Action.ADD | Action.NODE_LABEL)
    return {
        VOLUME_BINDING: (*stored, nodes),
        VOLUME_ZONE: (*stored, nodes),
        VOLUME_RESTRICTIONS: (*stored, Interest(POD, Action.DELETE), Interest(NODE, Action.ADD)),
    }
