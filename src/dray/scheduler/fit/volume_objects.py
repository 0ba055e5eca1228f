"""Claims for storage, the volumes that they are bound to, and their classes, as far as a scheduler reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dray.api.core import Pod
from dray.api.meta import Model, ObjectMeta
from dray.api.selectors.types import NodeSelector

ONE_POD: Final = "ReadWriteOncePod"
FIRST_USER: Final = "WaitForFirstConsumer"
_IS_BOUND: Final = "pv.kubernetes.io/bind-completed"
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


class PersistentVolumeClaimSpec(Model, frozen=True, kw_only=True):
    """`volume_name` is set before the claim counts as bound."""

    access_modes: tuple[str, ...] = ()
    volume_name: str = ""
    storage_class_name: str | None = None


class PersistentVolumeClaimStatus(Model, frozen=True, kw_only=True):
    """The phase is Lost once the volume is gone."""

    phase: str = ""


class PersistentVolumeClaim(Model, frozen=True, kw_only=True):
    """A pod's claim for storage."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def is_bound(self) -> bool:
        """Whether claim and volume both know of each other."""
        return bool(self.spec.volume_name) and _IS_BOUND in self.metadata.annotations

    @property
    def class_name(self) -> str:
        """Of its storage class; "" where it has none."""
        return self.metadata.annotations.get(_OLD_CLASS, self.spec.storage_class_name or "")

    def is_for(self, pod: Pod) -> bool:
        """Whether it was made for this pod."""
        return any(one.controller and one.uid == pod.metadata.uid for one in self.metadata.owner_references)


class VolumeNodeAffinity(Model, frozen=True, kw_only=True):
    """The nodes that can reach a volume; all where nothing is said."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(Model, frozen=True, kw_only=True):
    """Where the storage is, of what matters here."""

    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(Model, frozen=True, kw_only=True):
    """A piece of storage. Old ones say in labels which zones they are in."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()


class StorageClass(Model, frozen=True, kw_only=True):
    """How volumes are made, and when."""

    metadata: ObjectMeta = ObjectMeta()
    volume_binding_mode: str = ""


@dataclass(frozen=True, slots=True)
class Volumes:
    """All storage of a cluster. Who has it up to date gives it to `FitOptions`; it is read while a pod is tried."""

    claims: Mapping[tuple[str, str], PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)

    @staticmethod
    def of(
        claims: Iterable[PersistentVolumeClaim],
        volumes: Iterable[PersistentVolume],
        classes: Iterable[StorageClass],
    ) -> Volumes:
        """From lists."""
        return Volumes(
            {(one.metadata.namespace, one.metadata.name): one for one in claims},
            {one.metadata.name: one for one in volumes},
            {one.metadata.name: one for one in classes},
        )

    def waits_for_user(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a scheduler decides where its volume will be."""
        known = self.classes.get(claim.class_name)
        return known is not None and known.volume_binding_mode == FIRST_USER and not claim.spec.volume_name
