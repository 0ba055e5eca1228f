"""Disks that pods name themselves, past any claim: most cannot be written by two pods of a node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from dray.api.core import Pod

KINDS: Final = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")


class Disk(NamedTuple):
    """`name` is the same for the same disk; one of Ceph's has at least one monitor in common, too."""

    kind: str
    name: tuple[str, ...]
    monitors: frozenset[str]
    is_read_only: bool

    def conflicts(self, other: Disk) -> bool:
        """Whether two pods cannot have them on one node."""
        if (self.kind, self.name) != (other.kind, other.name) or (self.is_read_only and other.is_read_only):
            return False
        return self.kind != "rbd" or not self.monitors.isdisjoint(other.monitors)


def of(pod: Pod) -> tuple[Disk, ...]:
    """All such disks of a pod."""
    return tuple(_disks(pod))


def conflict(wanted: tuple[Disk, ...], others: Iterable[Pod]) -> bool:
    """Whether one of these pods has one of the disks."""
    return any(one.conflicts(disk) for other in others for disk in _disks(other) for one in wanted)


def _disks(pod: Pod) -> Iterator[Disk]:
    for volume in pod.spec.volumes:
        for kind in KINDS:
            if (source := volume.get(kind)) is not None:
                yield _disk(kind, source)


def _disk(kind: str, source: dict[str, Any]) -> Disk:
    is_read_only, name = bool(source.get("readOnly")), tuple[str, ...]()
    match kind:
        case "gcePersistentDisk":
            name = (str(source.get("pdName")),)
        case "awsElasticBlockStore":
            name, is_read_only = (str(source.get("volumeID")),), False
        case "iscsi":
            name = (str(source.get("iqn")),)
        case _:
            name = (str(source.get("pool") or "rbd"), str(source.get("image")))
    return Disk(kind, name, frozenset(source.get("monitors") or ()), is_read_only)
