"""Volumes that claims are bound to: only some nodes reach them, and some are for one user at a time.

A claim whose volume is made where its first user runs is refused (`unsupported`). How many volumes a CSI driver can attach to
a node is not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from dray.api.core import Node, Pod
from dray.api.quoting import quote
from dray.api.selectors.nodes import NodeMatcher, compile_node_selector
from dray.errors import InvalidError
from dray.scheduler.fit import disks
from dray.scheduler.fit.rejection import VOLUME_BINDING, VOLUME_RESTRICTIONS, VOLUME_ZONE, Rejection
from dray.scheduler.fit.volume_objects import ONE_POD, PersistentVolume, PersistentVolumeClaim, Volumes
from dray.scheduler.nodes import NodeInfo, Nodes

_ZONE: Final = "topology.kubernetes.io/zone"
_REGION: Final = "topology.kubernetes.io/region"
_TODAY: Final = {
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
    _ZONE: _ZONE,
    _REGION: _REGION,
}
"""Labels that say where a volume or a node is, with their names of today."""

_TAKEN: Final = Rejection(
    check=VOLUME_RESTRICTIONS,
    reasons=(
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
    ),
    can_resolve=True,
)
_SAME_DISK: Final = Rejection(
    check=VOLUME_RESTRICTIONS, reasons=("node(s) had no available disk",), can_resolve=True
)
_GONE: Final = Rejection(
    check=VOLUME_BINDING,
    reasons=("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",),
)
_ELSEWHERE: Final = Rejection(
    check=VOLUME_BINDING, reasons=("node(s) didn't match PersistentVolume's node affinity",)
)
_OTHER_ZONE: Final = Rejection(check=VOLUME_ZONE, reasons=("node(s) had no available volume zone",))
_NOWHERE: Final = NodeMatcher()


class _Zones(NamedTuple):
    """A volume's label, and the places it names."""

    label: str
    values: frozenset[str]


class _Use(NamedTuple):
    """A volume of a pod that stands for a claim. `is_own`: the claim was to be made for the pod."""

    name: str
    is_own: bool
    claim: PersistentVolumeClaim | None


@dataclass(frozen=True, slots=True)
class Mounts:
    """For one try of one pod: what its volumes ask of nodes. `fault` is against every node."""

    disks: tuple[disks.Disk, ...] = ()
    reach: tuple[NodeMatcher | None, ...] = ()
    zones: tuple[_Zones, ...] = ()
    is_taken: bool = False
    fault: Rejection | None = None

    @staticmethod
    def of(pod: Pod, nodes: Nodes, volumes: Volumes) -> Mounts:
        """Looks at all pods where a claim is for one pod only."""
        uses = tuple(_uses(pod, volumes))
        if not uses:
            return Mounts(disks.of(pod))
        fault = _unclaimed(uses) or _unusable(pod, uses, volumes) or _lost_zone(uses, volumes)
        if fault is not None:
            return Mounts(fault=fault)
        bound = [volumes.volumes.get(one.claim.spec.volume_name) for one in uses if one.claim is not None]
        zones = [
            zone
            for one in uses
            if one.claim is not None and not one.is_own
            for zone in _zones(volumes.volumes[one.claim.spec.volume_name])
        ]
        reach = tuple(where for volume in bound for where in _reach(volume))
        return Mounts(disks.of(pod), reach, tuple(zones), _is_taken(pod, uses, nodes))

    @property
    def has_nothing_to_say(self) -> bool:
        """Whether every node will do."""
        return not (self.disks or self.reach or self.zones or self.is_taken)

    def refused(self, info: NodeInfo) -> Rejection | None:
        """The first of: a disk is used there, a claim is used anywhere, a volume is out of reach, or in another zone."""
        if self.disks and disks.conflict(self.disks, (placed.pod for placed in info.pods.values())):
            return _SAME_DISK
        if self.is_taken:
            return _TAKEN
        for where in self.reach:
            if where is None:
                return _GONE
            if not where.matches(info.node.metadata.labels, ""):
                return _ELSEWHERE
        return None if self._is_in_zone(info.node) else _OTHER_ZONE

    def _is_in_zone(self, node: Node) -> bool:
        """Nodes without such labels are in a cluster without zones."""
        labels = node.metadata.labels
        if not self.zones or not any(label in labels for label in _TODAY):
            return True
        return all(
            labels.get(zone.label, labels.get(_TODAY[zone.label])) in zone.values for zone in self.zones
        )


def _uses(pod: Pod, volumes: Volumes) -> Iterator[_Use]:
    for volume in pod.spec.volumes:
        if (source := volume.get("persistentVolumeClaim")) is not None:
            name, is_own = str(source.get("claimName") or ""), False
        elif volume.get("ephemeral") is not None:
            name, is_own = f"{pod.metadata.name}-{volume.get('name')}", True
        else:
            continue
        yield _Use(name, is_own, volumes.claims.get((pod.metadata.namespace, name)))


def _unclaimed(uses: tuple[_Use, ...]) -> Rejection | None:
    for one in uses:
        if one.claim is None and not one.is_own:
            text = f"persistentvolumeclaim {quote(one.name)} not found"
            return Rejection(check=VOLUME_RESTRICTIONS, reasons=(text,))
    return None


def _unusable(pod: Pod, uses: tuple[_Use, ...], volumes: Volumes) -> Rejection | None:
    """What keeps a claim from being used at all; and what this scheduler leaves to others."""
    for one in uses:
        if problem := _problem(pod, one):
            return Rejection(check=VOLUME_BINDING, reasons=(problem,))
    unbound = [one.claim for one in uses if one.claim is not None and not one.claim.is_bound]
    if not unbound:
        return None
    text = "pod has unbound immediate PersistentVolumeClaims"
    if all(map(volumes.waits_for_user, unbound)):
        name = quote(unbound[0].metadata.name)
        text = f"this scheduler does not choose volumes for persistentvolumeclaim {name}, which waits for its first consumer"
    return Rejection(check=VOLUME_BINDING, reasons=(text,))


def _problem(pod: Pod, use: _Use) -> str:
    claim = use.claim
    if claim is None:
        return (
            f"waiting for ephemeral volume controller to create the persistentvolumeclaim {quote(use.name)}"
        )
    if claim.status.phase == "Lost":
        volume = quote(claim.spec.volume_name)
        return f"persistentvolumeclaim {quote(use.name)} bound to non-existent persistentvolume {volume}"
    if claim.metadata.deletion_timestamp is not None:
        return f"persistentvolumeclaim {quote(use.name)} is being deleted"
    if use.is_own and not claim.is_for(pod):
        namespace = pod.metadata.namespace
        where = f"{namespace}/{pod.metadata.name}"
        return f"PVC {namespace}/{use.name} was not created for pod {where} (pod is not owner)"
    return ""


def _lost_zone(uses: tuple[_Use, ...], volumes: Volumes) -> Rejection | None:
    """The zones of a volume that is not there are not known."""
    for one in uses:
        name = one.claim.spec.volume_name if one.claim is not None else ""
        if not one.is_own and name not in volumes.volumes:
            return Rejection(check=VOLUME_ZONE, reasons=(f"persistentvolume {quote(name)} not found",))
    return None


def _zones(volume: PersistentVolume) -> Iterator[_Zones]:
    """A label with an empty part is passed over."""
    labels = volume.metadata.labels
    for label in _TODAY:
        values = [part.strip() for part in labels[label].split("__")] if label in labels else []
        if values and all(values):
            yield _Zones(label, frozenset(values))


def _reach(volume: PersistentVolume | None) -> Iterator[NodeMatcher | None]:
    """The nodes that reach it, if not all do; None where the volume is gone."""
    if volume is None:
        yield None
    elif volume.spec.node_affinity is not None and volume.spec.node_affinity.required is not None:
        try:
            yield compile_node_selector(volume.spec.node_affinity.required)
        except InvalidError:
            yield _NOWHERE


def _is_taken(pod: Pod, uses: tuple[_Use, ...], nodes: Nodes) -> bool:
    """Whether a pod on some node has a claim that only one pod may have."""
    alone = {
        one.name
        for one in uses
        if one.claim is not None and not one.is_own and ONE_POD in one.claim.spec.access_modes
    }
    if not alone:
        return False
    return any(
        (volume.get("persistentVolumeClaim") or {}).get("claimName") in alone
        for info in nodes
        for placed in info.pods.values()
        if placed.pod.metadata.namespace == pod.metadata.namespace
        for volume in placed.pod.spec.volumes
    )
